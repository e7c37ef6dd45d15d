"""The states in the JSON of checkpoint vectors as values of the core and the codecs."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from numalign.core.kubelet.state import Block, CpuState, MemoryState, MemoryTable, NodeMemory
from numalign.core.values.sets import format_list, parse_list
from numalign.wire.checkpoints.devices import DeviceCheckpoint, PodDevicesEntry

Json = Mapping[str, Any]


def cpu_state(data: Json) -> CpuState:
    return CpuState(
        data["policyName"],
        parse_list(data["defaultCpuSet"]),
        _masks(data["entries"]),
        {pod: parse_list(text) for pod, text in data.get("podCpuSets", {}).items()},
        _masks(data.get("baselines", {})),
    )


def _masks(sets: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, int]]:
    return {
        pod: {name: parse_list(text) for name, text in containers.items()}
        for pod, containers in sets.items()
    }


def set_texts(sets: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, str]]:
    return {
        pod: {name: format_list(mask) for name, mask in containers.items()}
        for pod, containers in sets.items()
    }


def memory_state(data: Json) -> MemoryState:
    return MemoryState(
        data["policyName"],
        {int(number): _node(node) for number, node in data["machineState"].items()},
        {
            pod: {name: _blocks(blocks) for name, blocks in containers.items()}
            for pod, containers in data["entries"].items()
        },
        {pod: _blocks(blocks) for pod, blocks in data.get("podBlocks", {}).items()},
    )


def _node(data: Json) -> NodeMemory:
    tables = {
        kind: MemoryTable(
            table["total"],
            table["systemReserved"],
            table["allocatable"],
            table["reserved"],
            table["free"],
        )
        for kind, table in data["memoryMap"].items()
    }
    return NodeMemory(data["numberOfAssignments"], tuple(data["cells"]), tables)


def _blocks(blocks: Sequence[Json]) -> tuple[Block, ...]:
    return tuple(Block(tuple(b["numaAffinity"]), b["type"], b["size"]) for b in blocks)


def device_state(data: Json) -> DeviceCheckpoint:
    entries = tuple(
        PodDevicesEntry(
            entry["PodUID"],
            entry["ContainerName"],
            entry["ResourceName"],
            _ids_by_node(entry["DeviceIDs"]),
            None if entry["AllocResp"] is None else base64.b64decode(entry["AllocResp"]),
        )
        for entry in data["PodDeviceEntries"]
    )
    registered = data["RegisteredDevices"]
    return DeviceCheckpoint(
        None if data["entries_is_null"] else entries,
        None if registered is None else {name: _ids(ids) for name, ids in registered.items()},
    )


def _ids_by_node(
    ids: Mapping[str, list[str] | None] | None,
) -> dict[int, tuple[str, ...] | None] | None:
    return None if ids is None else {int(node): _ids(found) for node, found in ids.items()}


def _ids(ids: list[str] | None) -> tuple[str, ...] | None:
    return None if ids is None else tuple(ids)
