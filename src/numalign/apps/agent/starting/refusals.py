"""Why pods were refused, kept over a restart in a file of its own.

Nothing is decided by it. So a file that cannot be read is noted, and the agent starts without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from numalign.apps.agent.model import AgentPod, Refusal
from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS

FILE_NAME: Final = "refusals.json"
VERSION: Final = 1


class _File(msgspec.Struct):
    version: int
    refusals: list[Refusal]


def dump(refusals: Mapping[str, Refusal]) -> bytes:
    """The bytes of the file."""
    return msgspec.json.encode(_File(VERSION, list(refusals.values())))


def load(data: bytes, pods: Mapping[str, AgentPod], *, path: str) -> dict[str, Refusal]:
    """The refusals of pods that are still known; WireError if it is no such file."""
    try:
        found = msgspec.json.decode(data, type=_File)
    except DECODE_FAULTS as error:
        raise WireError(
            f"{path}: found no refusals ({error}); why pods were refused is forgotten"
        ) from error
    if found.version != VERSION:
        raise WireError(
            f"{path}: found version {found.version}, expected {VERSION}; why pods were refused is "
            "forgotten"
        )
    return {refusal.uid: refusal for refusal in found.refusals if refusal.uid in pods}
