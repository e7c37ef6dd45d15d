"""What the files of the CPU and the memory manager have in common since 1.37.

Such a file is an older one that holds its content once more in ``data``: a JSON text within the
JSON text, with a checksum of its own. 1.37 looks at nothing else in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from numalign.core.errors import CorruptCheckpointError, WireError
from numalign.core.values.gotext import quoted
from numalign.wire.go import dump
from numalign.wire.go import json as gojson
from numalign.wire.go import shapes as goshapes
from numalign.wire.go.reading import GoType

CORRUPTED: Final = "checkpoint is corrupted"

Members = list[tuple[str, str]]
T = TypeVar("T")


class Envelope(Protocol):
    """The members that carry the content."""

    data: str
    data_checksum: int


def written(head: Sequence[tuple[str, str]], checksum: int, payload: Members) -> str:
    """The file with the members of an older one, and with the whole content."""
    data = gojson.written_object(payload)
    return gojson.written_object(
        [
            *head,
            ("checksum", str(checksum)),
            ("data", gojson.quote(data)),
            ("dataChecksum", str(_checksum(data))),
        ]
    )


def payload(envelope: Envelope, fault: str | None, shape: GoType[T], manager: str) -> T:
    """The content; WireError with the kubelet's words where it cannot be read."""
    if fault is not None:
        raise WireError(f"failed to deserialize {manager} manager checkpoint: {fault}")
    try:
        record = goshapes.read(envelope.data.encode(), shape)
    except WireError as exc:
        raise WireError(f"failed to deserialize {manager} manager checkpoint data: {exc}") from exc
    verify(envelope.data_checksum, _checksum(envelope.data))
    return record


def _checksum(data: str) -> int:
    return dump.checksum(f"(string){data}")


def verify(stored: int, *accepted: int) -> None:
    """Refuses a checksum that the content does not have."""
    if stored not in accepted:
        raise WireError(CORRUPTED)


def not_restored(fault: WireError, manager: str, path: str) -> CorruptCheckpointError:
    """What the kubelet says before it gives up."""
    return CorruptCheckpointError(
        f"could not restore state from checkpoint: {fault}, please drain this node and delete "
        f"the {manager} manager checkpoint file {quoted(path)} before restarting Kubelet"
    )
