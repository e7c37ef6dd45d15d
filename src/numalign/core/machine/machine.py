"""The model of a machine: what is built into it and where, never what is in use.

A Machine is made once by one of the sources in ``adapters.discovery`` and never changed.
Words are those of the kernel and of hwloc:

- **socket**: a physical package. **die**: a part of a package with its own id in the kernel.
- **NUMA node**: memory with (perhaps) CPUs near to it. It may have no CPUs (a memory expander),
  no memory, and a number that does not follow its neighbour's. Here "node" always means this.
- **core**: the CPUs that share one execution engine. It is named by its lowest CPU number, as
  the kubelet does, because the kernel's own core ids repeat on other sockets and dies.
- **CPU**: one hardware thread with the number that Linux gave it.
- **uncore cache**: the last-level cache (L3) where it serves only a part of a NUMA node.

What the kubelet makes of a machine (its numbering, and what it leaves out) is in
``machine_info``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

from numalign.core.errors import DiscoveryError
from numalign.core.values.sets import ID_MAX, CpuSet, NodeSet

K = TypeVar("K", int, tuple[int, int])

KIB: Final = 1024
MEMORY_BYTES_MAX: Final = 2**63 - 1  # what the kubelet can hold
SELF_DISTANCE: Final = 10  # what the ACPI SLIT gives for a node to itself


class CacheKind(StrEnum):
    """What a cache holds, in the kernel's words."""

    UNIFIED = "Unified"
    DATA = "Data"
    INSTRUCTION = "Instruction"


class DeviceKind(StrEnum):
    """What a PCI device is for, as far as its class code tells."""

    NIC = "nic"
    GPU = "gpu"
    NVME = "nvme"
    STORAGE = "storage"
    ACCELERATOR = "accelerator"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Cpu:
    id: int
    node: int | None  # None: the kernel put it on no NUMA node
    socket: int
    core: int  # the lowest CPU number among the threads of its core
    core_id: int  # what the kernel calls its core; unique only within a socket (or die)
    die: int | None = None
    cluster: int | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    level: int
    kind: CacheKind
    size_bytes: int
    cpus: CpuSet
    id: int | None = None  # the kernel's id, unique per level; old kernels give none


@dataclass(frozen=True, slots=True)
class HugePages:
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    id: int
    cpus: CpuSet
    memory_bytes: int  # all of it, huge pages included
    hugepages: tuple[HugePages, ...] = ()
    distances: tuple[int, ...] | None = None  # to Machine.nodes, in their order


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """What the firmware (HMAT) says of access from one node's CPUs to another node's memory."""

    initiator: int
    target: int
    read_latency_ns: int | None = None
    write_latency_ns: int | None = None
    read_bandwidth_mib_s: int | None = None
    write_bandwidth_mib_s: int | None = None


@dataclass(frozen=True, slots=True)
class PciDevice:
    address: str  # 0000:3b:00.0
    kind: DeviceKind
    class_code: int  # 24 bits: base class, subclass, interface
    vendor_id: int
    device_id: int
    node: int | None  # None: the firmware does not say
    name: str = ""  # a network interface, block device or the like
    virtual_function: bool = False


@dataclass(frozen=True)
class Machine:
    """A whole machine. Sorted by id throughout; checked by ``validate``."""

    name: str
    nodes: tuple[NumaNode, ...]
    cpus: tuple[Cpu, ...]
    memory_bytes: int  # MemTotal of the whole machine
    caches: tuple[Cache, ...] = ()
    devices: tuple[PciDevice, ...] = ()
    memory_paths: tuple[MemoryPath, ...] = ()
    offline: CpuSet = field(default_factory=CpuSet)
    notes: tuple[str, ...] = ()  # what the source lacked or contradicted, for people

    @cached_property
    def cpu_by_id(self) -> dict[int, Cpu]:
        return {cpu.id: cpu for cpu in self.cpus}

    @cached_property
    def online(self) -> CpuSet:
        return CpuSet.of(cpu.id for cpu in self.cpus)

    @cached_property
    def node_set(self) -> NodeSet:
        return NodeSet.of(node.id for node in self.nodes)

    @cached_property
    def sockets(self) -> dict[int, CpuSet]:
        return _grouped((cpu.socket, cpu.id) for cpu in self.cpus)

    @cached_property
    def cores(self) -> dict[int, CpuSet]:
        """The CPUs of each core, by its lowest CPU number."""
        return _grouped((cpu.core, cpu.id) for cpu in self.cpus)

    @cached_property
    def dies(self) -> dict[tuple[int, int], CpuSet]:
        """The CPUs of each die, by (socket, die); empty where the kernel names no dies."""
        return _grouped(((cpu.socket, cpu.die), cpu.id) for cpu in self.cpus if cpu.die is not None)

    def caches_of_level(self, level: int) -> tuple[Cache, ...]:
        """The unified and data caches of one level."""
        return tuple(
            c for c in self.caches if c.level == level and c.kind is not CacheKind.INSTRUCTION
        )

    def devices_on(self, node: int | None) -> tuple[PciDevice, ...]:
        """The PCI devices at one NUMA node, or those at none."""
        return tuple(d for d in self.devices if d.node == node)

    def distance(self, start: int, end: int) -> int | None:
        """The SLIT distance between two nodes, where it is known."""
        order = [node.id for node in self.nodes]
        row = self.nodes[order.index(start)].distances
        return None if row is None else row[order.index(end)]


def _grouped(pairs: Iterable[tuple[K, int]]) -> dict[K, CpuSet]:
    masks: dict[K, int] = {}
    for key, cpu in pairs:
        masks[key] = masks.get(key, 0) | 1 << cpu
    return {key: CpuSet(masks[key]) for key in sorted(masks)}


def cache_order(cache: Cache) -> tuple[int, str, int]:
    """The key that sorts the caches of a Machine: level, kind, lowest CPU."""
    return (cache.level, cache.kind.value, cache.cpus.mask & -cache.cpus.mask)


def validate(machine: Machine) -> Machine:
    """The same machine, once it is known to be possible; DiscoveryError otherwise."""
    source = machine.name
    _check_ids(source, "CPU", [cpu.id for cpu in machine.cpus])
    _check_ids(source, "NUMA node", [node.id for node in machine.nodes])
    if not machine.cpus:
        raise DiscoveryError(source, "no online CPU", "at least one")
    if not machine.nodes:
        raise DiscoveryError(source, "no NUMA node", "at least one")
    _check_memory(source, "the machine", machine.memory_bytes)
    seen = 0
    for node in machine.nodes:
        if node.cpus.mask & seen:
            twice = CpuSet(node.cpus.mask & seen)
            raise DiscoveryError(
                source, f"CPUs {twice} on NUMA node {node.id} and on another one", "one node each"
            )
        seen |= node.cpus.mask
        _check_node(source, node, len(machine.nodes))
    _check_cpus(machine)
    return machine


def _check_node(source: str, node: NumaNode, node_count: int) -> None:
    _check_memory(source, f"NUMA node {node.id}", node.memory_bytes)
    for pages in node.hugepages:
        _check_memory(source, f"NUMA node {node.id}", pages.size_bytes * pages.count)
    if node.distances is not None and len(node.distances) != node_count:
        raise DiscoveryError(
            source,
            f"{len(node.distances)} distances for NUMA node {node.id}",
            f"one for each of the {node_count} nodes",
        )


def _check_cpus(machine: Machine) -> None:
    source = machine.name
    where = {cpu: node.id for node in machine.nodes for cpu in node.cpus}
    for cpu in machine.cpus:
        if cpu.node is not None and cpu.node not in machine.node_set:
            raise DiscoveryError(
                source, f"CPU {cpu.id} on NUMA node {cpu.node}", f"one of {machine.node_set}"
            )
        if cpu.node != where.get(cpu.id):
            raise DiscoveryError(
                source,
                f"CPU {cpu.id} on NUMA node {_or_none(cpu.node)} by its own word and on "
                f"{_or_none(where.get(cpu.id))} by the nodes'",
                "one answer",
            )
    for core, cpus in machine.cores.items():
        if core not in cpus or min(cpus) != core:
            raise DiscoveryError(
                source, f"a core {core} of CPUs {cpus}", "the lowest CPU as the core's name"
            )
        places = {(machine.cpu_by_id[i].socket, machine.cpu_by_id[i].core_id) for i in cpus}
        if len(places) > 1:
            raise DiscoveryError(
                source, f"CPUs {cpus} of one core in several places", "one socket and one core id"
            )


def _or_none(node: int | None) -> str:
    return "none" if node is None else str(node)


def _check_memory(source: str, where: str, amount: int) -> None:
    if not 0 <= amount <= MEMORY_BYTES_MAX:
        raise DiscoveryError(
            source, f"{amount} bytes of memory on {where}", f"0 to {MEMORY_BYTES_MAX}"
        )


def _check_ids(source: str, what: str, ids: list[int]) -> None:
    if ids != sorted(set(ids)):
        raise DiscoveryError(source, f"{what} numbers {ids}", "each once, in ascending order")
    if ids and ids[0] < 0:
        raise DiscoveryError(source, f"{what} number {ids[0]}", "0 or more")
    if ids and ids[-1] > ID_MAX:
        raise DiscoveryError(source, f"{what} number {ids[-1]}", f"at most {ID_MAX}")
