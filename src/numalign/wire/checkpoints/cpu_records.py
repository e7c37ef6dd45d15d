"""What stands in the versions of ``cpu_manager_state``, and their checksums."""

from __future__ import annotations

from typing import Final

import msgspec

from numalign.core.values.sets import bits, parse_list
from numalign.wire.go import dump
from numalign.wire.go.scalars import CHECKSUM, Text
from numalign.wire.go.shapes import Converted, Fields, Keyed, Struct

Sets = dict[str, str]


class PodEntry(msgspec.Struct):
    """The CPUs of a pod with pod-level resources."""

    mask: int = 0


class PodText(msgspec.Struct):
    """The same as it is written."""

    text: str = ""


class Baseline(msgspec.Struct):
    """The CPUs that a container was admitted with."""

    text: str = ""


class Record(msgspec.Struct):
    """The content of a file of any version but V1; CPU sets are texts as they stand there."""

    policy: str = ""
    shared: str = ""
    entries: dict[str, Sets | None] | None = msgspec.field(default_factory=dict)
    pods: dict[str, PodEntry] | None = msgspec.field(default_factory=dict)
    baselines: dict[str, dict[str, Baseline] | None] | None = msgspec.field(default_factory=dict)
    checksum: int = 0


class RecordV1(msgspec.Struct):
    """The content of a V1 file: container id and CPU set."""

    policy: str = ""
    shared: str = ""
    entries: Sets | None = msgspec.field(default_factory=dict)
    checksum: int = 0


class Envelope(Record):
    """A V4 file. What stands beside ``data`` must be well formed, but is not used."""

    data: str = ""
    data_checksum: int = 0


def _pod_entry(written: PodText) -> PodEntry:
    try:
        return PodEntry(parse_list(written.text))
    except ValueError as exc:
        raise ValueError(f"failed to parse cpuset: {exc}") from exc


_TEXT: Final = Text()
_HEAD: Final[Fields] = {"policyName": ("policy", _TEXT), "defaultCpuSet": ("shared", _TEXT)}
_ENTRIES: Final[Fields] = {"entries": ("entries", Keyed(Keyed(_TEXT)))}
_CHECKSUM: Final[Fields] = {"checksum": ("checksum", CHECKSUM)}
_POD_ENTRY: Final = Converted(
    "state.PodEntry",
    Struct("state.podEntryJSON", PodText, {"cpuSet": ("text", _TEXT)}),
    _pod_entry,
)
_PODS: Final[Fields] = {"podEntries": ("pods", Keyed(_POD_ENTRY, "state.PodCPUAssignments"))}
_BASELINE: Final = Struct("state.ContainerCPUs", Baseline, {"baseline": ("text", _TEXT)})
_BASELINES: Final[Fields] = {"baselines": ("baselines", Keyed(Keyed(_BASELINE)))}
_DATA: Final[Fields] = {"data": ("data", _TEXT), "dataChecksum": ("data_checksum", CHECKSUM)}

V1: Final = Struct(
    "state.CPUManagerCheckpointV1",
    RecordV1,
    {**_HEAD, "entries": ("entries", Keyed(_TEXT)), **_CHECKSUM},
)
V2: Final = Struct("state.CPUManagerCheckpointV2", Record, {**_HEAD, **_ENTRIES, **_CHECKSUM})
V3: Final = Struct(
    "state.CPUManagerCheckpointV3", Record, {**_HEAD, **_ENTRIES, **_PODS, **_CHECKSUM}
)
V4: Final = Struct(
    "state.CPUManagerCheckpoint", Envelope, {**_HEAD, **_ENTRIES, **_CHECKSUM, **_DATA}
)
V4_DATA: Final = Struct(
    "state.CPUManagerCheckpointData", Record, {**_HEAD, **_ENTRIES, **_PODS, **_BASELINES}
)

# The name that checksums have always been made with, whatever the type is called today.
LEGACY_NAME: Final = "CPUManagerCheckpoint"
_TAIL: Final = " Checksum:(checksum.Checksum)0}"


def checksum_v1(record: RecordV1) -> int:
    head = _dumped_head(LEGACY_NAME, record.policy, record.shared)
    return dump.checksum(f"{head}Entries:(map[string]string){dump.mapping(record.entries)}{_TAIL}")


def checksum_v2(record: Record, name: str = LEGACY_NAME) -> int:
    return dump.checksum(f"{_dumped_start(record, name)}{_TAIL}")


def checksum_v3(record: Record, name: str = LEGACY_NAME) -> int:
    dumped = f"PodEntries:(state.PodCPUAssignments){dump.mapping(record.pods, _dumped_pod)}"
    return dump.checksum(f"{_dumped_start(record, name)} {dumped}{_TAIL}")


def _dumped_head(name: str, policy: str, shared: str) -> str:
    return f"(*state.{name}){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "


def _dumped_start(record: Record, name: str) -> str:
    entries = dump.mapping(record.entries, dump.mapping)
    head = _dumped_head(name, record.policy, record.shared)
    return f"{head}Entries:(map[string]map[string]string){entries}"


def _dumped_pod(entry: PodEntry) -> str:
    cpus = dump.mapping(dict.fromkeys(bits(entry.mask), "{}"))
    return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){cpus}}}}}"
