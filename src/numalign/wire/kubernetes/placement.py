"""The exact placement of a host as a short text, for an annotation.

    1:eNq...      version, then base64 of zlib of JSON without names

Whoever reads it need not trust it: sizes are bounded before and after unpacking, and every number
is checked. A change of the form is a new version; readers pass over versions that they do not know.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.errors import WireError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.state import Block, MemoryTable, NodeMemory
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.machine.machine import MEMORY_BYTES_MAX, HugePages
from numalign.core.settings import Fidelity, ReservedMemory, Settings, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import ID_MAX, format_list, parse_list
from numalign.wire.faults import DECODE_FAULTS

VERSION: Final = "1"
# All annotations of an object together may have 256 KiB; others may want some of them.
TEXT_LENGTH_MAX: Final = 128 << 10
UNPACKED_BYTES_MAX: Final = 4 << 20

_Pages = tuple[int, int]  # size, count
_Core = tuple[list[int], int, int | None]  # threads, socket, uncore cache
_Amounts = dict[str, str]


class _Node(msgspec.Struct, array_like=True):
    id: int
    memory: int
    pages: list[_Pages]
    distances: list[int] | None
    cores: list[_Core]


class _Machine(msgspec.Struct, array_like=True):
    nodes: list[_Node]
    sockets: int
    memory: int


class _Settings(msgspec.Struct, array_like=True):
    version: Version
    fidelity: Fidelity
    topology_policy: str
    topology_scope: str
    topology_options: dict[str, str]
    cpu_policy: str
    cpu_options: dict[str, str]
    reserved_cpus: str
    memory_policy: str
    reserved_memory: list[tuple[int, str, str]]
    reservation: _Amounts
    gates: dict[str, bool]


_Device = tuple[str, list[int] | None, bool]
_Block = tuple[list[int], str, int]


class _Container(msgspec.Struct, array_like=True, omit_defaults=True):
    name: str
    cpus: str = ""
    memory: list[_Block] = []
    devices: dict[str, list[str]] = {}


class _Pod(msgspec.Struct, array_like=True, omit_defaults=True):
    namespace: str
    name: str
    uid: str = ""
    containers: list[_Container] = []
    cpus: str = ""
    memory: list[_Block] = []


_Table = tuple[int, int, int, int, int]  # total, system reserved, allocatable, reserved, free
_Account = tuple[int, int, list[int], dict[str, _Table]]  # node, assignments, cells


class _Placement(msgspec.Struct, array_like=True):
    machine: _Machine
    settings: _Settings
    devices: dict[str, list[_Device]]
    pods: list[_Pod]
    shared_cpus: str
    pods_max: int
    accounts: list[_Account] = []


_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = msgspec.json.Decoder(_Placement)


def encode(placement: PublishedPlacement) -> str | None:
    """The text of a placement; None if it would be longer than an annotation may be.

    The same placement always gives the same text, whatever order its parts are in.
    """
    record = _Placement(
        _machine_record(placement.machine),
        _settings_record(placement.settings),
        {name: _device_records(found) for name, found in sorted(placement.devices.items())},
        [_pod_record(pod) for pod in sorted(placement.pods, key=lambda p: (*p.key, p.uid))],
        format_list(placement.shared_cpus),
        placement.pods_max,
        [_account_record(node, found) for node, found in sorted(placement.accounts.items())],
    )
    packed = zlib.compress(_ENCODER.encode(record), 9)
    text = f"{VERSION}:{base64.b64encode(packed).decode()}"
    return text if len(text) <= TEXT_LENGTH_MAX else None


def decode(text: str) -> PublishedPlacement:
    """The placement in a text; WireError in one line for one that cannot be trusted."""
    if len(text) > TEXT_LENGTH_MAX:
        raise WireError(
            f"found a placement of {len(text)} characters, expected at most {TEXT_LENGTH_MAX}"
        )
    version, colon, packed = text.partition(":")
    if not colon or version != VERSION:
        raise WireError(f"found a placement of version {version[:20]!r}, expected {VERSION!r}")
    try:
        record = _DECODER.decode(_unpacked(packed))
        return _placement(record)
    except (*DECODE_FAULTS, ValueError, binascii.Error, zlib.error) as exc:
        raise WireError(f"found a placement that cannot be read: {exc}") from exc


def _unpacked(packed: str) -> bytes:
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(base64.b64decode(packed, validate=True), UNPACKED_BYTES_MAX)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"it does not end within {UNPACKED_BYTES_MAX} bytes")
    return data


# Pods, devices and accounts by themselves, for what changes from moment to moment.


def pod_bytes(pod: PlacedPod) -> bytes:
    return _ENCODER.encode(_pod_record(pod))


def pod_from(data: bytes) -> PlacedPod:
    return _pod(msgspec.json.decode(data, type=_Pod))


def devices_bytes(devices: Mapping[str, Iterable[Device]]) -> bytes:
    return _ENCODER.encode({name: _device_records(own) for name, own in sorted(devices.items())})


def devices_from(data: bytes) -> dict[str, tuple[Device, ...]]:
    found = msgspec.json.decode(data, type=dict[str, list[_Device]])
    return {name: tuple(map(_device, own)) for name, own in found.items()}


def accounts_bytes(accounts: Mapping[int, NodeMemory]) -> bytes:
    return _ENCODER.encode([_account_record(n, own) for n, own in sorted(accounts.items())])


def accounts_from(data: bytes) -> dict[int, NodeMemory]:
    return dict(map(_account, msgspec.json.decode(data, type=list[_Account])))


# To records.


def _machine_record(machine: MachineInfo) -> _Machine:
    nodes = [
        _Node(
            node.id,
            node.memory_bytes,
            [(pages.size_bytes, pages.count) for pages in node.hugepages],
            None if node.distances is None else list(node.distances),
            [(list(core.threads), core.socket, core.uncore) for core in node.cores],
        )
        for node in machine.nodes
    ]
    return _Machine(nodes, machine.socket_count, machine.memory_bytes)


def _settings_record(settings: Settings) -> _Settings:
    return _Settings(
        settings.version,
        settings.fidelity,
        settings.topology_policy,
        settings.topology_scope,
        dict(settings.topology_options),
        settings.cpu_policy,
        dict(settings.cpu_options),
        settings.reserved_cpus,
        settings.memory_policy,
        [(kept.node, kept.type, str(kept.amount)) for kept in settings.reserved_memory],
        {name: str(amount) for name, amount in settings.node_allocatable_reservation.items()},
        dict(settings.gates),
    )


def _device_records(devices: Iterable[Device]) -> list[_Device]:
    return [
        (d.id, None if d.nodes is None else list(d.nodes), d.healthy)
        for d in sorted(devices, key=lambda d: d.id)
    ]


def _pod_record(pod: PlacedPod) -> _Pod:
    containers = [
        _Container(
            found.name,
            format_list(found.cpus),
            _block_records(found.memory),
            {name: sorted(ids) for name, ids in sorted(found.devices.items())},
        )
        for found in pod.containers
    ]
    return _Pod(
        pod.namespace,
        pod.name,
        pod.uid,
        containers,
        format_list(pod.cpus),
        _block_records(pod.memory),
    )


def _block_records(blocks: Iterable[Block]) -> list[_Block]:
    return [(list(block.nodes), block.type, block.size) for block in blocks]


def _account_record(node: int, found: NodeMemory) -> _Account:
    tables = {
        kind: (t.total, t.system_reserved, t.allocatable, t.reserved, t.free)
        for kind, t in sorted(found.tables.items())
    }
    return node, found.assignments, list(found.cells), tables


# From records.


def _placement(record: _Placement) -> PublishedPlacement:
    return PublishedPlacement(
        _machine(record.machine),
        _settings(record.settings),
        {name: tuple(map(_device, found)) for name, found in record.devices.items()},
        tuple(map(_pod, record.pods)),
        parse_list(record.shared_cpus),
        _checked(record.pods_max, "pods", 1_000_000),
        dict(map(_account, record.accounts)),
    )


def _account(record: _Account) -> tuple[int, NodeMemory]:
    node, assignments, cells, tables = record
    return _id(node), NodeMemory(
        _bytes(assignments),
        tuple(map(_id, cells)),
        {kind: MemoryTable(*map(_bytes, found)) for kind, found in tables.items()},
    )


def _machine(record: _Machine) -> MachineInfo:
    ids = [node.id for node in record.nodes]
    if not ids or len(set(ids)) != len(ids):
        raise ValueError(f"found NUMA nodes {ids[:10]}, expected each once")
    threads = [cpu for node in record.nodes for core in node.cores for cpu in core[0]]
    if len(set(threads)) != len(threads):
        raise ValueError("found a CPU twice, expected each once")
    return MachineInfo(
        tuple(map(_node, record.nodes)),
        _id(record.sockets),
        _bytes(record.memory),
    )


def _node(record: _Node) -> NodeInfo:
    return NodeInfo(
        _id(record.id),
        _bytes(record.memory),
        tuple(HugePages(_bytes(size), _bytes(count)) for size, count in record.pages),
        None if record.distances is None else tuple(map(_id, record.distances)),
        tuple(
            CoreInfo(tuple(map(_id, threads)), _id(socket), uncore)
            for threads, socket, uncore in record.cores
        ),
    )


def _settings(record: _Settings) -> Settings:
    return Settings(
        version=record.version,
        fidelity=record.fidelity,
        topology_policy=record.topology_policy,
        topology_scope=record.topology_scope,
        topology_options=record.topology_options,
        cpu_policy=record.cpu_policy,
        cpu_options=record.cpu_options,
        reserved_cpus=record.reserved_cpus,
        memory_policy=record.memory_policy,
        reserved_memory=tuple(
            ReservedMemory(_id(node), kind, _amount(text))
            for node, kind, text in record.reserved_memory
        ),
        node_allocatable_reservation={n: _amount(t) for n, t in record.reservation.items()},
        gates=record.gates,
    )


def _device(record: _Device) -> Device:
    id_, nodes, healthy = record
    return Device(id_, None if nodes is None else tuple(map(_id, nodes)), healthy)


def _pod(record: _Pod) -> PlacedPod:
    containers = tuple(
        PlacedContainer(
            found.name,
            parse_list(found.cpus),
            _blocks(found.memory),
            {name: tuple(ids) for name, ids in found.devices.items()},
        )
        for found in record.containers
    )
    return PlacedPod(
        record.namespace,
        record.name,
        record.uid,
        containers,
        parse_list(record.cpus),
        _blocks(record.memory),
    )


def _blocks(records: Iterable[_Block]) -> tuple[Block, ...]:
    return tuple(Block(tuple(map(_id, nodes)), kind, _bytes(size)) for nodes, kind, size in records)


def _amount(text: str) -> Quantity:
    amount = Quantity.parse(text)
    if amount.nanos < 0:
        raise ValueError(f"found the amount {text}, expected 0 or more")
    return amount


def _id(number: int) -> int:
    return _checked(number, "number", ID_MAX)


def _bytes(number: int) -> int:
    return _checked(number, "amount", MEMORY_BYTES_MAX)


def _checked(number: int, what: str, highest: int) -> int:
    if not 0 <= number <= highest:
        raise ValueError(f"found the {what} {number}, expected 0 to {highest}")
    return number
