"""Machines from a few numbers: so many sockets, NUMA nodes, caches, cores and threads.

For built-in examples, simulations and tests. CPUs get the numbers that Linux would give
them, which depends on how the firmware lists its cores; see ``Numbering``. What is special
about one machine (devices, memory without CPUs) is added by ``dataclasses.replace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from numalign.core.machine.machine import (
    SELF_DISTANCE,
    Cache,
    CacheKind,
    Cpu,
    HugePages,
    Machine,
    NumaNode,
)
from numalign.core.values.sets import CpuSet

MIB: Final = 1 << 20
GIB: Final = 1 << 30


class Numbering(StrEnum):
    """In which order the firmware lists the hardware threads, and so their numbers.

    On 2 sockets of 2 cores with 2 threads, socket 0 has the CPUs
    0,1,4,5 (blocks), 0,2,4,6 (round-robin) or 0,1,2,3 (adjacent).
    """

    BLOCKS = "blocks"  # all first threads socket by socket, then all second threads
    ROUND_ROBIN = "round-robin"  # first threads dealt to the sockets in turn, then the second
    ADJACENT = "adjacent"  # the threads of one core side by side, as hypervisors do


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The shape of a machine whose sockets are all alike."""

    name: str
    sockets: int = 1
    nodes_per_socket: int = 1
    l3_per_socket: int = 1  # fewer than nodes: one cache serves several nodes, as in SNC
    cores_per_socket: int = 1
    threads_per_core: int = 1
    l1d_bytes: int = 32 * 1024
    l1i_bytes: int = 32 * 1024
    l2_bytes: int = 1 * MIB
    l3_bytes: int = 32 * MIB
    node_memory_bytes: int = 8 * GIB
    hugepages: tuple[HugePages, ...] = ()
    numbering: Numbering = Numbering.BLOCKS

    def __post_init__(self) -> None:
        for part in (self.nodes_per_socket, self.l3_per_socket):
            assert self.cores_per_socket % part == 0, "cores are shared out evenly"

    @property
    def cores(self) -> int:
        return self.sockets * self.cores_per_socket

    def cpu(self, socket: int, core: int, thread: int) -> int:
        """The number of a hardware thread, by its place."""
        match self.numbering:
            case Numbering.BLOCKS:
                return thread * self.cores + socket * self.cores_per_socket + core
            case Numbering.ROUND_ROBIN:
                return thread * self.cores + core * self.sockets + socket
            case Numbering.ADJACENT:
                at = socket * self.cores_per_socket + core
                return at * self.threads_per_core + thread


def build(plan: Blueprint) -> Machine:
    """The machine of this shape, without devices and distances."""
    per_node = plan.cores_per_socket // plan.nodes_per_socket
    nodes = tuple(
        NumaNode(i, _cpus(plan, i, per_node), plan.node_memory_bytes, plan.hugepages)
        for i in range(plan.sockets * plan.nodes_per_socket)
    )
    return Machine(
        name=plan.name,
        nodes=nodes,
        cpus=tuple(sorted(_threads(plan), key=lambda cpu: cpu.id)),
        memory_bytes=plan.node_memory_bytes * len(nodes),
        caches=tuple(_caches(plan)),
    )


def with_distances(machine: Machine, distance: Callable[[int, int], int]) -> Machine:
    ids = [node.id for node in machine.nodes]

    def row(start: int) -> tuple[int, ...]:
        return tuple(SELF_DISTANCE if start == end else distance(start, end) for end in ids)

    nodes = tuple(replace(node, distances=row(node.id)) for node in machine.nodes)
    return replace(machine, nodes=nodes)


def with_memory_nodes(machine: Machine, memory_bytes: Sequence[int]) -> Machine:
    """The same machine with more NUMA nodes that have memory of these sizes but no CPUs."""
    first = machine.nodes[-1].id + 1
    more = tuple(NumaNode(first + i, CpuSet(), size) for i, size in enumerate(memory_bytes))
    total = machine.memory_bytes + sum(memory_bytes)
    return replace(machine, nodes=machine.nodes + more, memory_bytes=total)


def _cpus(plan: Blueprint, part: int, cores_per_part: int) -> CpuSet:
    """The CPUs of the n-th part of the machine, where parts are runs of cores."""
    return CpuSet.of(
        plan.cpu(core // plan.cores_per_socket, core % plan.cores_per_socket, thread)
        for core in range(part * cores_per_part, (part + 1) * cores_per_part)
        for thread in range(plan.threads_per_core)
    )


def _threads(plan: Blueprint) -> Iterator[Cpu]:
    per_node = plan.cores_per_socket // plan.nodes_per_socket
    for socket in range(plan.sockets):
        for core in range(plan.cores_per_socket):
            node = socket * plan.nodes_per_socket + core // per_node
            for thread in range(plan.threads_per_core):
                number = plan.cpu(socket, core, thread)
                yield Cpu(number, node, socket, core=plan.cpu(socket, core, 0), core_id=core)


def _caches(plan: Blueprint) -> Iterator[Cache]:
    private = (
        (1, CacheKind.DATA, plan.l1d_bytes),
        (1, CacheKind.INSTRUCTION, plan.l1i_bytes),
        (2, CacheKind.UNIFIED, plan.l2_bytes),
    )
    for level, kind, size in private:
        for core in range(plan.cores):
            yield Cache(level, kind, size, _cpus(plan, core, 1), core)
    per_l3 = plan.cores_per_socket // plan.l3_per_socket
    if plan.l3_bytes:
        for i in range(plan.sockets * plan.l3_per_socket):
            yield Cache(3, CacheKind.UNIFIED, plan.l3_bytes, _cpus(plan, i, per_l3), i)
