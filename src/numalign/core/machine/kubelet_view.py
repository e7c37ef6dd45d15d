"""The machine as the kubelet sees it, through cAdvisor.

Decisions are made on this reduced view, never on the full Machine, because its peculiarities
decide: cores are grouped by the kernel's core id inside one NUMA node, an L3 cache counts as
"uncore" only when it serves a part of a node, and only the number of sockets is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from numalign.core.machine.machine import Cache, Cpu, HugePages, Machine


@dataclass(frozen=True, slots=True)
class CoreInfo:
    """The online threads of one physical core."""

    threads: tuple[int, ...]
    socket: int
    uncore: int | None = None  # None: the socket id stands in


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One NUMA node. Distances are positional, exactly as the kernel prints them."""

    id: int
    memory_bytes: int
    hugepages: tuple[HugePages, ...] = ()
    distances: tuple[int, ...] | None = None
    cores: tuple[CoreInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """What cAdvisor reports of a machine, as far as the managers look at it."""

    nodes: tuple[NodeInfo, ...]
    socket_count: int
    memory_bytes: int

    @property
    def cpu_count(self) -> int:
        return sum(len(core.threads) for node in self.nodes for core in node.cores)


def machine_info(machine: Machine) -> MachineInfo:
    """What the kubelet on this machine would work with."""
    nodes = tuple(
        NodeInfo(
            id=node.id,
            memory_bytes=node.memory_bytes,
            hugepages=node.hugepages,
            distances=node.distances,
            cores=_cores(machine, [machine.cpu_by_id[c] for c in node.cpus if _known(machine, c)]),
        )
        for node in machine.nodes
    )
    return MachineInfo(nodes, len(machine.sockets), machine.memory_bytes)


def _known(machine: Machine, cpu: int) -> bool:
    return cpu in machine.cpu_by_id


def _cores(machine: Machine, cpus: list[Cpu]) -> tuple[CoreInfo, ...]:
    grouped: dict[tuple[int, int], list[int]] = {}
    for cpu in cpus:
        grouped.setdefault((cpu.core_id, cpu.socket), []).append(cpu.id)
    last_level = [cache for cache in machine.caches if cache.level > 2]
    return tuple(
        CoreInfo(
            tuple(sorted(threads)),
            socket,
            _uncore(_serving(last_level, threads[0]), len(grouped) * len(threads)),
        )
        for (_, socket), threads in grouped.items()
    )


def _serving(caches: Iterable[Cache], cpu: int) -> list[Cache]:
    return [cache for cache in caches if cpu in cache.cpus]


def _uncore(caches: list[Cache], node_cpu_count: int) -> int | None:
    # A cache that serves as many CPUs as the node has is the node's, not the core's. cAdvisor
    # takes the first cache in the order of its index directory, which is the order by level.
    own = [c for c in caches if len(c.cpus) != node_cpu_count and c.id is not None]
    return own[0].id if own else None
