"""A machine as parts within parts, for showing it: socket, die, NUMA node, cache, core.

Real machines do not always nest: a NUMA node may reach over two sockets (node interleaving),
an L3 may serve several nodes (sub-NUMA clustering), a CPU may be on no node at all. So a
machine is cut into pieces that lie in one socket, one node and one cache each, and a piece
says when it is only a part of its node or its cache. Every online CPU is in exactly one piece.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from numalign.core.machine.machine import Cache, Cpu, Machine, NumaNode
from numalign.core.values.sets import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class CorePart:
    """One core, by its lowest CPU."""

    core: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class CachePart:
    """The cores of one NUMA node under one last-level cache, or under none."""

    cache: Cache | None
    cpus: CpuSet
    cores: tuple[CorePart, ...]

    @property
    def shared(self) -> bool:
        """Whether the cache serves CPUs outside of this part too."""
        return self.cache is not None and bool(self.cache.cpus - self.cpus)


@dataclass(frozen=True, slots=True)
class NodePart:
    """A NUMA node, or the part of it that is on one socket."""

    node: NumaNode | None  # None: these CPUs are on no NUMA node
    cpus: CpuSet
    caches: tuple[CachePart, ...]
    first: bool = True  # whether memory and devices of the node are to be shown here

    @property
    def whole(self) -> bool:
        """Whether all CPUs of the node are in this part."""
        return self.node is not None and self.node.cpus.issubset(self.cpus)

    @property
    def cores(self) -> int:
        return sum(len(cache.cores) for cache in self.caches)


@dataclass(frozen=True, slots=True)
class DiePart:
    """A die, or with die None the whole of a socket that has no dies worth telling."""

    die: int | None
    nodes: tuple[NodePart, ...]


@dataclass(frozen=True, slots=True)
class SocketPart:
    """A socket with all that is in it or nearest to it."""

    socket: int
    cpus: CpuSet
    dies: tuple[DiePart, ...]
    shared_caches: tuple[Cache, ...]  # those that serve several of the parts below
    memory_nodes: tuple[NumaNode, ...]  # NUMA nodes without CPUs that are nearest to this socket

    @property
    def nodes(self) -> tuple[NodePart, ...]:
        return tuple(node for die in self.dies for node in die.nodes)


@dataclass(frozen=True, slots=True)
class Nesting:
    sockets: tuple[SocketPart, ...]
    memory_nodes: tuple[NumaNode, ...]  # NUMA nodes without CPUs that are near to no one socket
    cache_level: int  # the level that the cache parts are of


def nest(machine: Machine) -> Nesting:
    near = {node.id: _nearest_socket(machine, node) for node in _memory_nodes(machine)}
    level = last_level(machine)
    cache_of = {cpu: cache for cache in machine.caches_of_level(level) for cpu in cache.cpus}
    seen: set[int] = set()
    sockets = []
    for socket, cpus in machine.sockets.items():
        members = [machine.cpu_by_id[cpu] for cpu in cpus]
        dies = _dies(machine, members, cache_of, seen)
        parts = [cache for die in dies for node in die.nodes for cache in node.caches]
        memory = tuple(n for n in _memory_nodes(machine) if near[n.id] == socket)
        sockets.append(SocketPart(socket, cpus, dies, _shared(parts), memory))
    alone = tuple(n for n in _memory_nodes(machine) if near[n.id] is None)
    return Nesting(tuple(sockets), alone, level)


def last_level(machine: Machine) -> int:
    """The highest cache level that serves more than one core; 3 where none does."""
    core_of = {cpu.id: cpu.core for cpu in machine.cpus}
    levels = [
        cache.level
        for cache in machine.caches
        if len({core_of[cpu] for cpu in cache.cpus if cpu in core_of}) > 1
    ]
    return max(levels, default=3)


def _grouped(cpus: Iterable[Cpu], key: Callable[[Cpu], int | None]) -> dict[int | None, list[Cpu]]:
    """The CPUs by key in ascending order, those without one last."""
    groups: dict[int | None, list[Cpu]] = defaultdict(list)
    for cpu in cpus:
        groups[key(cpu)].append(cpu)
    return dict(sorted(groups.items(), key=lambda item: (item[0] is None, item[0] or 0)))


def _dies(
    machine: Machine, cpus: list[Cpu], cache_of: dict[int, Cache], seen: set[int]
) -> tuple[DiePart, ...]:
    groups = _grouped(cpus, lambda cpu: cpu.die)
    nodes_of = [{cpu.node for cpu in members} for members in groups.values()]
    apart = sum(map(len, nodes_of)) == len(set().union(*nodes_of))
    if len(groups) == 1 or not apart:  # a die is told only where each node lies in one die
        groups = {None: cpus}
    return tuple(
        DiePart(die, _nodes(machine, members, cache_of, seen)) for die, members in groups.items()
    )


def _nodes(
    machine: Machine, cpus: list[Cpu], cache_of: dict[int, Cache], seen: set[int]
) -> tuple[NodePart, ...]:
    by_id = {node.id: node for node in machine.nodes}
    parts = []
    for number, members in _grouped(cpus, lambda cpu: cpu.node).items():
        first = number is not None and number not in seen
        if number is not None:
            seen.add(number)
        node = None if number is None else by_id[number]
        parts.append(NodePart(node, _ids(members), _caches(members, cache_of), first))
    return tuple(parts)


def _caches(cpus: list[Cpu], cache_of: dict[int, Cache]) -> tuple[CachePart, ...]:
    groups = _grouped(cpus, lambda cpu: cache_of[cpu.id].cpus.mask if cpu.id in cache_of else None)
    parts = [
        CachePart(cache_of.get(members[0].id), _ids(members), _cores(members))
        for members in groups.values()
    ]
    return tuple(sorted(parts, key=lambda part: next(iter(part.cpus))))


def _cores(cpus: list[Cpu]) -> tuple[CorePart, ...]:
    groups = _grouped(cpus, lambda cpu: cpu.core)
    return tuple(CorePart(core or 0, _ids(members)) for core, members in groups.items())


def _ids(cpus: list[Cpu]) -> CpuSet:
    return CpuSet.of(cpu.id for cpu in cpus)


def _shared(parts: list[CachePart]) -> tuple[Cache, ...]:
    found = {part.cache.cpus.mask: part.cache for part in parts if part.cache and part.shared}
    return tuple(found.values())


def _memory_nodes(machine: Machine) -> list[NumaNode]:
    with_cpus = NodeSet.of(cpu.node for cpu in machine.cpus if cpu.node is not None)
    return [node for node in machine.nodes if node.id not in with_cpus]


def _nearest_socket(machine: Machine, node: NumaNode) -> int | None:
    """The one socket whose nodes are nearest to this node, or None where that is not one."""
    distance = dict(zip((n.id for n in machine.nodes), node.distances or (), strict=False))
    sockets: dict[int, set[int]] = defaultdict(set)
    for cpu in machine.cpus:
        if cpu.node is not None:
            sockets[distance.get(cpu.node, 0)].add(cpu.socket)
    nearest = sockets[min(sockets)] if sockets else set(machine.sockets)
    return nearest.pop() if len(nearest) == 1 else None
