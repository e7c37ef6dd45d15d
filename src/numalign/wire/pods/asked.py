"""What a person asks a host about: a shape in a form, or a manifest that was pasted."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from numalign.core.errors import ConfigError, WireError
from numalign.core.values.quantity import Quantity
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.fleet.shapes import named_shape
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.running import record_of_pod
from numalign.wire.pods.workloads import Expansion, expanded

COUNT_MAX: Final = 64
SOURCE: Final = "manifest"
_EXPECTED: Final = (
    'expected {"shape": {"cpu": "4", "memory": "8Gi"}} or {"manifest": "kind: Pod ..."}'
)


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    shape: dict[str, str | int] | None = None
    manifest: str | None = None
    name: Annotated[str, msgspec.Meta(max_length=253)] = "asked"
    count: Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)] = 1
    search: bool = True


class Question(msgspec.Struct, frozen=True):
    """The pods that are asked about, and whether changes are searched for those refused."""

    pods: list[PodRecord]
    notes: list[str] = []
    search: bool = True


def question_in(data: bytes) -> Question:
    """The question in a JSON body; WireError for one that is none."""
    try:
        asked = msgspec.json.decode(data, type=_Asked)
    except DECODE_FAULTS as error:
        raise WireError(f"found {error}, {_EXPECTED}") from error
    if (asked.shape is None) == (asked.manifest is None):
        found = "neither" if asked.shape is None else "both"
        raise WireError(f"found {found} of shape and manifest, {_EXPECTED}")
    if asked.manifest is not None:
        return manifest_question(asked.manifest.encode(), search=asked.search)
    assert asked.shape is not None, "as just seen"
    try:
        amounts = {name: _amount(name, str(text)) for name, text in asked.shape.items()}
        pod = named_shape(asked.name, {n: q for n, q in amounts.items() if q.nanos})
    except ConfigError as error:
        raise WireError(f"shape: {error}") from error
    records = [record_of_pod(pod, f"{asked.name}-{n}") for n in range(asked.count)]
    if asked.count == 1:
        records = [record_of_pod(pod, asked.name)]
    return Question(records, [], asked.search)


def manifest_question(data: bytes, *, search: bool = True) -> Question:
    """The pods and workloads of a manifest."""
    found: Expansion = expanded(data, source=SOURCE).required()
    return Question(found.pods, found.notes, search)


def _amount(name: str, text: str) -> Quantity:
    try:
        found = Quantity.parse(text)
    except ValueError as error:
        raise WireError(f"shape: {name[:100]}: found {text[:100]!r}: {error}") from error
    if found.nanos < 0:
        raise WireError(f"shape: {name[:100]}: found {text[:100]!r}, expected 0 or more")
    return found
