"""The file ``cpu_manager_state``, written and read as the kubelet does.

| version | written by                              | read by                         |
|---------|-----------------------------------------|---------------------------------|
| V1      | nobody any more (keyed by container id) | 1.36                            |
| V2      | 1.36                                    | 1.36 and 1.37                   |
| V3      | 1.36 with gate PodLevelResourceManagers | 1.36 with the gate, and 1.37    |
| V4      | 1.37, whatever its gates                | 1.37 (1.36 takes it for a V2)   |

A V4 file is a V2 file that holds its content once more in ``data``: a JSON text within the
JSON text, with a checksum of its own. 1.37 looks at nothing else in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from numalign.core.errors import WireError
from numalign.core.kubelet.state import CpuState
from numalign.core.settings import Settings, Version
from numalign.core.values.gotext import quoted
from numalign.core.values.sets import format_list, parse_list
from numalign.wire.checkpoints import cpu_records as records
from numalign.wire.checkpoints import envelope
from numalign.wire.checkpoints.cpu_records import (
    PodEntry,
    Record,
    checksum_v2,
    checksum_v3,
)
from numalign.wire.checkpoints.envelope import Members, verify
from numalign.wire.go import json as gojson
from numalign.wire.go import shapes as goshapes

FILE_NAME: Final = "cpu_manager_state"

# The runtime's container ids with the pod and the name of each container, for V1 files.
Containers = Mapping[str, tuple[str, str]]


def encode(state: CpuState, settings: Settings) -> bytes:
    """The bytes of the file that a kubelet of these settings writes."""
    has_pod_sets = settings.gate("PodLevelResourceManagers")
    record = Record(policy=state.policy, shared=_list_text(state.shared))
    record.entries = {pod: _set_texts(sets) for pod, sets in state.entries.items()}
    if has_pod_sets:
        record.pods = {pod: PodEntry(mask) for pod, mask in state.pod_sets.items()}
    if settings.version is Version.V1_36:
        return _legacy_file(record, has_pod_sets=has_pod_sets).encode()
    has_baselines = settings.gate("InPlacePodVerticalScalingExclusiveCPUs")
    baselines = state.baselines if has_baselines else {}
    return _v4_file(record, {pod: _set_texts(sets) for pod, sets in baselines.items()}).encode()


def _set_texts(sets: Mapping[str, int]) -> dict[str, str]:
    return {name: _list_text(mask) for name, mask in sets.items()}


@lru_cache(4_096)
def _list_text(mask: int) -> str:
    """The list form of a set; most sets stay the same from one write to the next."""
    return format_list(mask)


def _legacy_file(record: Record, *, has_pod_sets: bool) -> str:
    """A V2 file, or a V3 file with the sets of whole pods."""
    members = _head(record)
    if record.pods:
        members.append(("podEntries", _pods_text(record)))
    number = checksum_v3(record) if has_pod_sets else checksum_v2(record)
    return gojson.written_object([*members, ("checksum", str(number))])


def _v4_file(record: Record, baselines: Mapping[str, Mapping[str, str]]) -> str:
    head = _head(record)
    payload = [*head]
    if record.pods:
        payload.append(("podEntries", _pods_text(record)))
    if baselines:
        payload.append(("baselines", _baselines_text(baselines)))
    return envelope.written(head, checksum_v2(record), payload)


def _head(record: Record) -> Members:
    """The members that all versions begin with."""
    members = [
        ("policyName", gojson.quote(record.policy)),
        ("defaultCpuSet", gojson.quote(record.shared)),
    ]
    if record.entries:
        written = {
            pod: gojson.written_map({name: gojson.quote(text) for name, text in sets.items()})
            for pod, sets in record.entries.items()
            if sets is not None
        }
        members.append(("entries", gojson.written_map(written)))
    return members


def _pods_text(record: Record) -> str:
    return gojson.written_map(
        {
            pod: gojson.written_object(
                [("cpuSet", gojson.quote(_list_text(entry.mask)))] if entry.mask else []
            )
            for pod, entry in (record.pods or {}).items()
        }
    )


def _baselines_text(baselines: Mapping[str, Mapping[str, str]]) -> str:
    return gojson.written_map(
        {
            pod: gojson.written_map(
                {
                    name: gojson.written_object([("baseline", gojson.quote(text))])
                    for name, text in sets.items()
                }
            )
            for pod, sets in baselines.items()
        }
    )


def decode(
    data: bytes, settings: Settings, *, path: str = FILE_NAME, containers: Containers | None = None
) -> CpuState:
    """The state in the bytes of a file, as a kubelet of these settings loads it.

    Raises CorruptCheckpointError with the kubelet's words for a file that it refuses.
    """
    try:
        if settings.version is Version.V1_36:
            record = _loaded_1_36(data, settings, containers or {})
        else:
            record = _loaded_1_37(data, settings)
        return _restored(record, settings)
    except WireError as exc:
        raise envelope.not_restored(exc, "CPU", path) from exc


def _loaded_1_36(data: bytes, settings: Settings, containers: Containers) -> Record:
    """The newest version that reads well; the error is that of the oldest one."""
    if not settings.gate("PodLevelResourceManagers"):
        return _loaded_v2_or_v1(data, settings, containers)
    try:
        return _loaded_v3(data, (records.LEGACY_NAME,))
    except WireError:
        record = _loaded_v2_or_v1(data, settings, containers)
    # By accident 1.36 keeps what the failed attempt has read of the pods.
    record.pods = goshapes.attempt(data, records.V3)[0].pods
    return record


def _loaded_v2_or_v1(data: bytes, settings: Settings, containers: Containers) -> Record:
    try:
        return _loaded_v2(data, settings)
    except WireError:
        return _migrated(_loaded_v1(data), containers)


def _loaded_1_37(data: bytes, settings: Settings) -> Record:
    found, fault = goshapes.attempt(data, records.V4)
    try:
        return envelope.payload(found, fault, records.V4_DATA, "cpu")
    except WireError as exc:
        if found.data or found.data_checksum:
            raise WireError(f"could not load v4 checkpoint: {exc}") from exc
    try:
        return _loaded_v3(data, (records.LEGACY_NAME, "CPUManagerCheckpointV3"))
    except WireError:
        return _loaded_v2(data, settings)


def _loaded_v3(data: bytes, names: tuple[str, ...]) -> Record:
    record = goshapes.read(data, records.V3)
    verify(record.checksum, *(checksum_v3(record, name) for name in names))
    return record


def _loaded_v2(data: bytes, settings: Settings) -> Record:
    record = goshapes.read(data, records.V2)
    if record.checksum:  # files from before the checksums have none
        # Only without the gate is the name that the type has today accepted too.
        has_gate = settings.gate("PodLevelResourceManagers")
        names = (
            (records.LEGACY_NAME,) if has_gate else (records.LEGACY_NAME, "CPUManagerCheckpointV2")
        )
        verify(record.checksum, *(checksum_v2(record, name) for name in names))
    return record


def _loaded_v1(data: bytes) -> records.RecordV1:
    record = goshapes.read(data, records.V1)
    if record.checksum:
        verify(record.checksum, records.checksum_v1(record))
    return record


def _migrated(old: records.RecordV1, containers: Containers) -> Record:
    """A V1 record with its container ids turned into pods and names."""
    entries: dict[str, dict[str, str] | None] = {}
    for container_id, text in sorted((old.entries or {}).items()):
        if container_id not in containers:
            raise WireError(
                f"failed to migrate checkpoint from v1 to v2: containerID '{container_id}' "
                "not found in initial containers list"
            )
        pod, name = containers[container_id]
        entries[pod] = {**(entries.get(pod) or {}), name: text}
    return Record(policy=old.policy, shared=old.shared, entries=entries)


def _restored(record: Record, settings: Settings) -> CpuState:
    if record.policy != settings.cpu_policy:
        raise WireError(
            f"configured policy {quoted(settings.cpu_policy)} differs from "
            f"state checkpoint policy {quoted(record.policy)}"
        )
    shared = _shared(record, settings)
    entries = {pod: _masks(pod, sets or {}) for pod, sets in sorted((record.entries or {}).items())}
    has_pod_sets = settings.gate("PodLevelResourceManagers")
    pod_sets = {pod: entry.mask for pod, entry in (record.pods or {}).items() if has_pod_sets}
    return CpuState(record.policy, shared, entries, pod_sets, _baselines(record, entries, settings))


def _baselines(
    record: Record, entries: Mapping[str, Mapping[str, int]], settings: Settings
) -> Mapping[str, Mapping[str, int]]:
    """The sets that containers were admitted with; by default those that they have."""
    has_gate = settings.gate("InPlacePodVerticalScalingExclusiveCPUs")
    if settings.version is Version.V1_36 or not has_gate:
        return {}
    if not record.baselines:
        return entries
    return {
        pod: _masks(pod, {name: entry.text for name, entry in (sets or {}).items()}, "Baseline ")
        for pod, sets in sorted(record.baselines.items())
    }


def _masks(pod: str, sets: Mapping[str, str], kind: str = "") -> dict[str, int]:
    masks = {}
    for name, text in sorted(sets.items()):
        try:
            masks[name] = parse_list(text)
        except ValueError as exc:
            raise WireError(
                f"could not parse {kind}cpuset {quoted(text)} "
                f"for container {quoted(name)} in pod {quoted(pod)}: {exc}"
            ) from exc
    return masks


def _shared(record: Record, settings: Settings) -> int:
    try:
        return parse_list(record.shared)
    except ValueError as exc:
        cpu = "cpu" if settings.version is Version.V1_36 else "CPU"
        raise WireError(
            f"could not parse default {cpu} set {quoted(record.shared)}: {exc}"
        ) from exc
