"""What stands in the versions of ``memory_manager_state``, and their checksums."""

from __future__ import annotations

from typing import Final

import msgspec

from numalign.wire.go import dump
from numalign.wire.go.scalars import CHECKSUM, INT, UINT64, Text
from numalign.wire.go.shapes import Fields, Items, Keyed, Numbered, Pointer, Struct


class Table(msgspec.Struct):
    """The accounts of one kind of memory on one NUMA node."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


class Node(msgspec.Struct):
    assignments: int = 0
    tables: dict[str, Table | None] | None = None
    cells: list[int] | None = None


class BlockRecord(msgspec.Struct):
    nodes: list[int] | None = None
    type: str = ""
    size: int = 0


Blocks = list[BlockRecord] | None


class PodEntry(msgspec.Struct):
    """The memory of a pod with pod-level resources."""

    blocks: Blocks = None


class Record(msgspec.Struct):
    """The content of a file of any version."""

    policy: str = ""
    machine: dict[int, Node | None] | None = msgspec.field(default_factory=dict)
    entries: dict[str, dict[str, Blocks] | None] | None = msgspec.field(default_factory=dict)
    pods: dict[str, PodEntry] | None = msgspec.field(default_factory=dict)
    checksum: int = 0


class Envelope(Record):
    """A V3 file. What stands beside ``data`` must be well formed, but is not used."""

    data: str = ""
    data_checksum: int = 0


_TEXT: Final = Text()
_RESOURCE: Final = Text("v1.ResourceName")
_TABLE: Final = Struct(
    "state.MemoryTable",
    Table,
    {
        "total": ("total", UINT64),
        "systemReserved": ("system_reserved", UINT64),
        "allocatable": ("allocatable", UINT64),
        "reserved": ("reserved", UINT64),
        "free": ("free", UINT64),
    },
)
_TABLES_TYPE: Final = "map[v1.ResourceName]*state.MemoryTable"
_NODE: Final = Struct(
    "state.NUMANodeState",
    Node,
    {
        "numberOfAssignments": ("assignments", INT),
        "memoryMap": ("tables", Keyed(Pointer(_TABLE), _TABLES_TYPE)),
        "cells": ("cells", Items(INT)),
    },
)
_BLOCK: Final = Struct(
    "state.Block",
    BlockRecord,
    {"numaAffinity": ("nodes", Items(INT)), "type": ("type", _RESOURCE), "size": ("size", UINT64)},
)
_POD_ENTRY: Final = Struct("state.PodEntry", PodEntry, {"memoryBlocks": ("blocks", Items(_BLOCK))})
_HEAD: Final[Fields] = {
    "policyName": ("policy", _TEXT),
    "machineState": ("machine", Numbered(Pointer(_NODE), INT, "state.NUMANodeMap")),
    "entries": ("entries", Keyed(Keyed(Items(_BLOCK)), "state.ContainerMemoryAssignments")),
}
_PODS: Final[Fields] = {"podEntries": ("pods", Keyed(_POD_ENTRY, "state.PodMemoryAssignments"))}
_TAIL: Final[Fields] = {"checksum": ("checksum", CHECKSUM)}
_DATA: Final[Fields] = {"data": ("data", _TEXT), "dataChecksum": ("data_checksum", CHECKSUM)}

V1: Final = Struct("state.MemoryManagerCheckpointV1", Record, {**_HEAD, **_TAIL})
V2: Final = Struct("state.MemoryManagerCheckpointV2", Record, {**_HEAD, **_PODS, **_TAIL})
V3: Final = Struct("state.MemoryManagerCheckpoint", Envelope, {**_HEAD, **_TAIL, **_DATA})
V3_DATA: Final = Struct("state.MemoryManagerCheckpointData", Record, {**_HEAD, **_PODS})

# The name that checksums have always been made with, whatever the type is called today.
LEGACY_NAME: Final = "MemoryManagerCheckpoint"


def checksum_v1(record: Record, name: str = LEGACY_NAME) -> int:
    return dump.checksum(f"{_dumped_start(record, name)} {_DUMPED_END}")


def checksum_v2(record: Record) -> int:
    dumped = f"PodEntries:(state.PodMemoryAssignments){dump.mapping(record.pods, _dumped_pod)}"
    return dump.checksum(f"{_dumped_start(record, LEGACY_NAME)} {dumped} {_DUMPED_END}")


_DUMPED_END: Final = "Checksum:(checksum.Checksum)0}"


def _dumped_start(record: Record, name: str) -> str:
    entries = dump.mapping(record.entries, _dumped_blocks_of)
    return (
        f"(*state.{name}){{PolicyName:(string){record.policy} "
        f"MachineState:(state.NUMANodeMap){dump.mapping(record.machine, _dumped_node)} "
        f"Entries:(state.ContainerMemoryAssignments){entries}"
    )


def _dumped_node(node: Node | None) -> str:
    if node is None:
        return dump.NIL
    return (
        f"<*>{{NumberOfAssignments:(int){node.assignments} "
        f"MemoryMap:({_TABLES_TYPE}){dump.mapping(node.tables, _dumped_table)} "
        f"Cells:([]int){dump.listing(node.cells)}}}"
    )


def _dumped_table(table: Table | None) -> str:
    if table is None:
        return dump.NIL
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} "
        f"Free:(uint64){table.free}}}"
    )


def _dumped_blocks_of(containers: dict[str, Blocks] | None) -> str:
    return dump.mapping(containers, _dumped_blocks)


def _dumped_pod(entry: PodEntry) -> str:
    return f"{{MemoryBlocks:([]state.Block){_dumped_blocks(entry.blocks)}}}"


def _dumped_blocks(blocks: Blocks) -> str:
    return dump.listing(blocks, _dumped_block)


def _dumped_block(block: BlockRecord) -> str:
    return (
        f"{{NUMAAffinity:([]int){dump.listing(block.nodes)} "
        f"Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}"
    )
