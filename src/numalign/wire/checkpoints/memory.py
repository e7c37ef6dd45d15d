"""The file ``memory_manager_state``, written and read as the kubelet does.

| version | written by                              | read by                         |
|---------|-----------------------------------------|---------------------------------|
| V1      | 1.36                                    | 1.36 and 1.37                   |
| V2      | 1.36 with gate PodLevelResourceManagers | 1.36 with the gate, and 1.37    |
| V3      | 1.37, whatever its gates                | 1.37 (1.36 takes it for a V1)   |

A V3 file is a V1 file that holds its content once more in ``data``: a JSON text within the
JSON text, with a checksum of its own. 1.37 looks at nothing else in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from numalign.core.errors import WireError
from numalign.core.kubelet.state import Block, MemoryState, MemoryTable, NodeMemory
from numalign.core.settings import Settings, Version
from numalign.core.values.gotext import quoted
from numalign.wire.checkpoints import envelope
from numalign.wire.checkpoints import memory_records as records
from numalign.wire.checkpoints.envelope import CORRUPTED, verify
from numalign.wire.checkpoints.memory_records import Record, checksum_v1, checksum_v2
from numalign.wire.go import json as gojson
from numalign.wire.go import shapes as goshapes

FILE_NAME: Final = "memory_manager_state"


def encode(state: MemoryState, settings: Settings) -> bytes:
    """The bytes of the file that a kubelet of these settings writes."""
    has_pod_blocks = settings.gate("PodLevelResourceManagers")
    record = _record(state, has_pod_blocks=has_pod_blocks)
    if settings.version is Version.V1_37:
        return _v3_file(record).encode()
    number = checksum_v2(record) if has_pod_blocks else checksum_v1(record)
    return gojson.written_object([*_members(record), ("checksum", str(number))]).encode()


def _v3_file(record: Record) -> str:
    members = _members(record)
    head = [member for member in members if member[0] != "podEntries"]
    return envelope.written(head, checksum_v1(record), members)


def _record(state: MemoryState, *, has_pod_blocks: bool) -> Record:
    pods = state.pod_blocks if has_pod_blocks else {}
    return Record(
        policy=state.policy,
        machine={number: _node_record(node) for number, node in state.machine.items()},
        entries={
            pod: {name: _block_records(blocks) for name, blocks in containers.items()}
            for pod, containers in state.entries.items()
        },
        # An empty list is left out of the file, so its checksum must be that of no list.
        pods={
            pod: records.PodEntry(_block_records(blocks) or None) for pod, blocks in pods.items()
        },
    )


def _node_record(node: NodeMemory) -> records.Node:
    tables: dict[str, records.Table | None] = {
        kind: records.Table(
            table.total, table.system_reserved, table.allocatable, table.reserved, table.free
        )
        for kind, table in node.tables.items()
    }
    return records.Node(node.assignments, tables, list(node.cells))


def _block_records(blocks: Iterable[Block]) -> list[records.BlockRecord]:
    return [records.BlockRecord(list(block.nodes), block.type, block.size) for block in blocks]


def _members(record: Record) -> list[tuple[str, str]]:
    machine, entries, pods = record.machine or {}, record.entries or {}, record.pods or {}
    members = [
        ("policyName", gojson.quote(record.policy)),
        (
            "machineState",
            gojson.written_map(
                {str(n): _written_node(node) for n, node in machine.items() if node}
            ),
        ),
    ]
    if entries:
        written = {
            pod: gojson.written_map(
                {name: _written_blocks(blocks) for name, blocks in (containers or {}).items()}
            )
            for pod, containers in entries.items()
        }
        members.append(("entries", gojson.written_map(written)))
    if pods:
        written = {
            pod: gojson.written_object(
                [("memoryBlocks", _written_blocks(entry.blocks))] if entry.blocks else []
            )
            for pod, entry in pods.items()
        }
        members.append(("podEntries", gojson.written_map(written)))
    return members


def _written_node(node: records.Node) -> str:
    tables = {kind: _written_table(table) for kind, table in (node.tables or {}).items() if table}
    return (
        f'{{"numberOfAssignments":{node.assignments},"memoryMap":{gojson.written_map(tables)},'
        f'"cells":{gojson.written_list(map(str, node.cells or []))}}}'
    )


def _written_table(table: records.Table) -> str:
    return (
        f'{{"total":{table.total},"systemReserved":{table.system_reserved},'
        f'"allocatable":{table.allocatable},"reserved":{table.reserved},"free":{table.free}}}'
    )


def _written_blocks(blocks: records.Blocks) -> str:
    return gojson.written_list(
        f'{{"numaAffinity":{gojson.written_list(map(str, block.nodes or []))},'
        f'"type":{gojson.quote(block.type)},"size":{block.size}}}'
        for block in blocks or []
    )


def decode(data: bytes, settings: Settings, *, path: str = FILE_NAME) -> MemoryState:
    """The state in the bytes of a file, as a kubelet of these settings loads it.

    Raises CorruptCheckpointError with the kubelet's words for a file that it refuses.
    """
    try:
        if settings.version is Version.V1_36:
            record = _loaded_1_36(data, settings)
        else:
            record = _loaded_1_37(data)
        return _restored(record, settings)
    except WireError as exc:
        raise envelope.not_restored(exc, "memory", path) from exc


def _loaded_1_36(data: bytes, settings: Settings) -> Record:
    if not settings.gate("PodLevelResourceManagers"):
        return _loaded_v1(data, (records.LEGACY_NAME, "MemoryManagerCheckpointV1"))
    try:
        return _loaded_v2(data)
    except WireError:
        record = _loaded_v1(data, (records.LEGACY_NAME,))
    # By accident 1.36 keeps what the failed attempt has read of the pods.
    record.pods = goshapes.attempt(data, records.V2)[0].pods
    return record


def _loaded_1_37(data: bytes) -> Record:
    found, fault = goshapes.attempt(data, records.V3)
    try:
        return envelope.payload(found, fault, records.V3_DATA, "memory")
    except WireError as exc:
        if found.data or found.data_checksum:
            raise WireError(f"could not load v3 checkpoint: {exc}") from exc
    try:
        return _loaded_v2(data)
    except WireError:
        return _loaded_v1(data, (records.LEGACY_NAME,))


def _loaded_v2(data: bytes) -> Record:
    record = goshapes.read(data, records.V2)
    verify(record.checksum, checksum_v2(record))
    return record


def _loaded_v1(data: bytes, names: tuple[str, ...]) -> Record:
    record = goshapes.read(data, records.V1)
    if record.checksum:  # files from before the checksums have none
        verify(record.checksum, *(checksum_v1(record, name) for name in names))
    return record


def _restored(record: Record, settings: Settings) -> MemoryState:
    if record.policy != settings.memory_policy:
        raise WireError(
            f"[memorymanager] configured policy {quoted(settings.memory_policy)} differs from "
            f"state checkpoint policy {quoted(record.policy)}"
        )
    pods = record.pods if settings.gate("PodLevelResourceManagers") else {}
    return MemoryState(
        policy=record.policy,
        machine={number: _node(node) for number, node in sorted((record.machine or {}).items())},
        entries={
            pod: {name: _blocks(blocks) for name, blocks in (containers or {}).items()}
            for pod, containers in (record.entries or {}).items()
        },
        pod_blocks={pod: _blocks(entry.blocks) for pod, entry in (pods or {}).items()},
    )


def _node(node: records.Node | None) -> NodeMemory:
    if node is None:
        raise WireError(CORRUPTED)  # the kubelet would crash on it
    tables: Mapping[str, records.Table | None] = node.tables or {}
    return NodeMemory(
        node.assignments,
        tuple(node.cells or ()),
        {kind: _table(table) for kind, table in sorted(tables.items())},
    )


def _table(table: records.Table | None) -> MemoryTable:
    if table is None:
        raise WireError(CORRUPTED)  # the kubelet would crash on it
    return MemoryTable(
        table.total, table.system_reserved, table.allocatable, table.reserved, table.free
    )


def _blocks(blocks: records.Blocks) -> tuple[Block, ...]:
    return tuple(Block(tuple(block.nodes or ()), block.type, block.size) for block in blocks or ())
