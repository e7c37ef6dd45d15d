"""What the tests of the CPU and of the memory manager's file ask of both in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest
from tests.wire.vectors import lines

from numalign.core.errors import CorruptCheckpointError
from numalign.core.settings import Settings


class Codec(Protocol):
    """The module of one file."""

    def encode(self, state: Any, config: Settings, /) -> bytes: ...
    def decode(self, data: bytes, config: Settings, /, *, path: str = ...) -> Any: ...


def refusal_of(codec: Codec, manager: str, text: str, config: Settings) -> str:
    """What the kubelet says between the opening and the closing words of its refusal."""
    path = f"/x/{manager.lower()}_manager_state"
    with pytest.raises(CorruptCheckpointError) as caught:
        codec.decode(text.encode(), config, path=path)
    start, end = (
        "could not restore state from checkpoint: ",
        f", please drain this node and delete the {manager} manager checkpoint file "
        f'"{path}" before restarting Kubelet',
    )
    message = str(caught.value)
    assert message.startswith(start)
    assert message.endswith(end)
    return message[len(start) : -len(end)]


def check_recorded(name: str, replay: Callable[[Any], list[str]], count: int) -> None:
    """Every recorded file is written and read as the kubelet did."""
    found = [(number, replay(line)) for number, line in enumerate(lines(name), start=1)]
    assert [pair for pair in found if pair[1]] == []
    assert len(found) == count


def check_loaded_or_refused(codec: Codec, file: bytes, reader: Settings) -> None:
    """A file is refused with advice, or what it says can be written and read again."""
    try:
        found = codec.decode(file, reader)
    except CorruptCheckpointError as exc:
        assert "please drain this node" in str(exc)
    else:
        assert codec.decode(codec.encode(found, reader), reader) == found
