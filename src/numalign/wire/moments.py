"""The last moments of a host as frames of a log, each a kind in one letter and packed JSON.

    H  what the segment stands on: the machine, the settings
    M  a moment: what happened, and what became other than in the frame before (in the first one
       of a segment: everything)
    W  why a pod was refused, which is known a little later than the refusal
    S  a row of a chart: what was given and how broken up the rest was, in one minute

A reader trusts nothing: sizes are bounded, and what cannot be read is passed over.
"""

from __future__ import annotations

import zlib
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.records import PodRecord

VERSION: Final = 1
UNPACKED_BYTES_MAX: Final = 16 * 1024 * 1024
_LEVEL: Final = 1

_UNCHANGED: Final = msgspec.Raw()


def _is(text: str) -> Meta:
    return Meta(description=text)


class Moment(msgspec.Struct, rename="camel", omit_defaults=True):
    """Something that happened on a host."""

    id: Annotated[int, _is("higher for later ones")]
    time: Annotated[float, _is("seconds since 1970")]
    what: Annotated[str, _is("as in /events; or started: the agent did")]
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    reason: str = ""
    message: str = ""
    why: Annotated[str, _is("a refusal in one sentence, once it is known")] = ""
    has_trace: bool = False


class Held(msgspec.Struct, array_like=True, omit_defaults=True):
    """A pod that is there: where it sits, and its manifest as far as placing needs it."""

    placed: msgspec.Raw
    record: PodRecord


class Change(msgspec.Struct, rename="camel", omit_defaults=True):
    """A moment with what became other."""

    moment: Moment
    is_whole: bool = False
    pods: dict[str, Held] = {}
    gone: list[str] = []
    accounts: msgspec.Raw = _UNCHANGED
    devices: msgspec.Raw = _UNCHANGED
    refused: PodRecord | None = None
    trace: list[dict[str, Any]] | None = None


class Head(msgspec.Struct, rename="camel"):
    version: int
    placement: str  # machine and settings, without pods
    host: str


class Why(msgspec.Struct):
    id: int
    why: str


class Row(msgspec.Struct, array_like=True):
    """One minute in which something happened, as it was at its end."""

    time: float
    cpus_given: int
    memory_given: int
    devices_given: int
    pods: int
    admitted: int  # in this minute
    refused: int
    fragments: float | None  # of the free CPUs; None: no CPU is free
    largest: int
    stranded: int


class Series(msgspec.Struct, rename="camel"):
    """Rows turned into columns; a value holds until the next time."""

    times: Annotated[list[float], _is("seconds since 1970, one for each minute")]
    cpus_given: list[int]
    memory_given: list[int]
    devices_given: list[int]
    pods: list[int]
    admitted: Annotated[list[int], _is("pods since the time before")]
    refused: Annotated[list[int], _is("pods since the time before")]
    fragments: Annotated[
        list[float | None], _is("free CPUs beyond whole sixteens, by all free ones")
    ]
    largest: Annotated[list[int], _is("CPUs of the largest container on one node")]
    stranded: Annotated[list[int], _is("NUMA nodes with something idle to no use")]
    cpus: Annotated[int, _is("that can be given")]
    memory: int
    devices: int


_KINDS: Final[dict[type, bytes]] = {Head: b"H", Change: b"M", Why: b"W", Row: b"S"}
_TYPES: Final[dict[bytes, type]] = {letter: kind for kind, letter in _KINDS.items()}


def frame(value: Head | Change | Why | Row) -> bytes:
    return _KINDS[type(value)] + zlib.compress(msgspec.json.encode(value), _LEVEL)


def unframed(data: bytes) -> Head | Change | Why | Row:
    """What a frame holds; WireError for one that cannot be read."""
    kind = _TYPES.get(data[:1])
    if kind is None:
        raise WireError(f"found a frame of kind {data[:1]!r}, expected one of {sorted(_TYPES)}")
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data[1:], UNPACKED_BYTES_MAX)
        if not unpacker.eof:
            raise WireError(f"found a frame of more than {UNPACKED_BYTES_MAX} bytes")
        found: Head | Change | Why | Row = msgspec.json.decode(text, type=kind)
    except (*DECODE_FAULTS, zlib.error) as error:
        raise WireError(f"found a frame that cannot be read: {error}") from error
    return found
