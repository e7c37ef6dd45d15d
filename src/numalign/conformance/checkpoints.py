"""Replays of quantities, CPU sets and state files: one vector line in, differences out.

Every function takes the decoded JSON object of a line and gives what differs from it as
sentences; an empty list means agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Final

from numalign.conformance.checkpoint_states import (
    Json,
    cpu_state,
    device_state,
    memory_state,
    set_texts,
)
from numalign.core.errors import CorruptCheckpointError
from numalign.core.settings import Settings, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet, format_list
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.go import dump

_POD_LEVEL: Final = "PodLevelResourceManagers"
_BASELINES: Final = "InPlacePodVerticalScalingExclusiveCPUs"
# The one container that the recorded kubelet knew by its id.
_CONTAINERS: Final = {"containerid-1": ("pod-a", "c0")}


def quantity(line: Json) -> list[str]:
    """One quantity text and all numbers that the kubelet takes from it."""
    try:
        found = Quantity.parse(line["in"])
    except ValueError as exc:
        return _differences({"error": line.get("error")}, {"error": str(exc)})
    number = found.as_int64()
    return _differences(
        {key: line.get(key) for key in (*_QUANTITY_KEYS, "error")},
        {
            "value": found.value(),
            "milli_value": found.milli(),
            "as_int64": number or 0,
            "as_int64_ok": number is not None,
            "string": str(found),
            "is_zero": found.is_zero,
            "error": None,
        },
    )


_QUANTITY_KEYS: Final = ("value", "milli_value", "as_int64", "as_int64_ok", "string", "is_zero")


def cpuset(line: Json) -> list[str]:
    """One CPU set, parsed or formatted."""
    if line["op"] == "format":
        expected = {"string": line["string"]}
        return _differences(expected, {"string": str(CpuSet.of(line["cpus"]))})
    try:
        found = CpuSet.parse(line["in"])
    except ValueError as exc:
        return _differences({"error": line.get("error")}, {"error": str(exc)})
    return _differences(
        {key: line.get(key) for key in ("cpus", "string", "error")},
        {"cpus": list(found), "string": str(found), "error": None},
    )


def checkpoint_cpu(line: Json) -> list[str]:
    """One CPU state and its file of version 2, 3 or 4."""
    state = cpu_state(line["state"])
    settings = replace(_settings(line, "v3"), cpu_policy=state.policy)
    loaded = replace(
        state,
        pod_sets=state.pod_sets if settings.gate(_POD_LEVEL) else {},
        baselines=(state.baselines or state.entries) if settings.gate(_BASELINES) else {},
    )
    return _written_and_read(line, cpu_checkpoint, settings, state, loaded)


def checkpoint_memory(line: Json) -> list[str]:
    """One memory state and its file of version 1, 2 or 3."""
    state = memory_state(line["state"])
    settings = replace(_settings(line, "v2"), memory_policy=state.policy)
    pod_blocks = state.pod_blocks if settings.gate(_POD_LEVEL) else {}
    loaded = replace(state, pod_blocks=pod_blocks)
    return _written_and_read(line, memory_checkpoint, settings, state, loaded)


def _settings(line: Json, pod_level_version: str) -> Settings:
    if "gates" in line:  # since 1.37
        return Settings(version=Version.V1_37, gates=line["gates"])
    gates = {_POD_LEVEL: line["version"] == pod_level_version}
    return Settings(version=Version.V1_36, gates=gates)


def _written_and_read(
    line: Json, codec: ModuleType, settings: Settings, state: object, loaded: object
) -> list[str]:
    """What differs in the checksums of a line, in the file, and in what is loaded from it."""
    found = []
    for name in ("checksum", "data_checksum"):
        # A line with one checksum calls its input by a shorter name.
        text = line.get(f"{name}_hash_input", line.get("hash_input"))
        if name in line:
            found += _checksum_differences(text, line[name])
    return found + _file_differences(
        line["file"],
        codec.encode(state, settings),
        loaded,
        lambda data: codec.decode(data, settings),
    )


def checkpoint_device(line: Json) -> list[str]:
    checkpoint = device_state(line["state"])
    return [
        *_differences(
            {"hash_input": line["hash_input"]}, {"hash_input": device_checkpoint.dumped(checkpoint)}
        ),
        *_checksum_differences(line["hash_input"], line["checksum"]),
        *_file_differences(
            line["file"],
            device_checkpoint.encode(checkpoint),
            checkpoint,
            device_checkpoint.decode,
        ),
    ]


def checkpoint_restore(line: Json, version: Version) -> list[str]:
    """One file as a kubelet loads it, or refuses it; and what it writes next."""
    if "kubelet" in line:
        version = Version.V1_37 if line["kubelet"].startswith("1.37") else Version.V1_36
    gates = line.get("gates") or {_POD_LEVEL: line["pod_level_resource_managers"]}
    if line["manager"] == "cpu":
        return _restored_cpu(
            line, Settings(version=version, cpu_policy=line["policy"], gates=gates)
        )
    return _restored_memory(
        line, Settings(version=version, memory_policy=line["policy"], gates=gates)
    )


def _restored_cpu(line: Json, settings: Settings) -> list[str]:
    data, path = line["file"].encode(), "<dir>/cpu_manager_state"
    try:
        state = cpu_checkpoint.decode(data, settings, path=path, containers=_CONTAINERS)
    except CorruptCheckpointError as exc:
        return _differences({"error": line.get("error")}, {"error": str(exc)})
    found = {
        "error": None,
        "defaultCpuSet": format_list(state.shared),
        "entries": set_texts(state.entries),
        "podCpuSets": {pod: format_list(mask) for pod, mask in state.pod_sets.items()},
        "baselines": set_texts(state.baselines),
        "file_after_next_write": cpu_checkpoint.encode(state, settings).decode(),
    }
    return _differences(_expected(line, found), found)


def _restored_memory(line: Json, settings: Settings) -> list[str]:
    data, path = line["file"].encode(), "<dir>/memory_manager_state"
    try:
        state = memory_checkpoint.decode(data, settings, path=path)
    except CorruptCheckpointError as exc:
        return _differences({"error": line.get("error")}, {"error": str(exc)})
    found: dict[str, object] = {
        "error": None,
        "state": state,
        "file_after_next_write": memory_checkpoint.encode(state, settings).decode(),
    }
    expected = _expected(line, found)
    if line.get("error") is None:
        expected["state"] = memory_state({**line, "policyName": line["policy"]})
    return _differences(expected, found)


def _expected(line: Json, found: Mapping[str, object]) -> dict[str, object]:
    """What a line says about the keys found; older lines do not tell all of them."""
    return {key: line.get(key, None if key == "error" else found[key]) for key in found}


def _checksum_differences(text: str, expected: int) -> list[str]:
    return _differences(
        {"checksum of the dump": expected}, {"checksum of the dump": dump.checksum(text)}
    )


def _file_differences(
    file: str, encoded: bytes, state: object, decode: Callable[[bytes], object]
) -> list[str]:
    """Both directions: the state as a file, and the file as a state."""
    found = {"file": encoded.decode()}
    try:
        decoded: object = decode(file.encode())
    except CorruptCheckpointError as exc:
        decoded = exc
    return [
        *_differences({"file": file}, found),
        *_differences({"state in the file": state}, {"state in the file": decoded}),
    ]


def _differences(expected: Mapping[str, object], found: Mapping[str, object]) -> list[str]:
    return [
        f"{key}: expected {expected[key]!r}, found {found.get(key)!r}"
        for key in expected
        if expected[key] != found.get(key)
    ]
