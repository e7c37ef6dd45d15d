"""Choosing CPUs: which ones a container gets, once it is known how many.

Written from the rules of the kubelet's static CPU policy (cpu_assignment.go). CPU sets are masks.
Two families: *packed*, here, fills whole units (NUMA nodes, sockets, caches, cores) and then
single CPUs; *distributed*, in ``cpu_distribute``, spreads evenly over NUMA nodes.

The order of units decides. Units of one level are sorted by (free CPUs, id), so that the fullest
unit which still has room is used up first (best fit). Which level sorts which depends on the
machine: with at least as many sockets as NUMA nodes, nodes come first and sockets are listed
inside them; otherwise sockets come first and nodes are listed inside them. A unit that lies in
two parents is listed under both, and may then be counted twice, as in the original.

Worked example: one socket, cores {0,4},{1,5},{2,6},{3,7}, free 1-3,5-7, three CPUs wanted.
No whole node or socket is free; whole cores: {1,5}; then single CPUs: 2. Result 1-2,5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from numalign.core.kubelet.cpu.topology import CpuTopology
from numalign.core.values.sets import lowest

Unit = tuple[int, int]  # id, mask of all its CPUs


class NotEnoughCpusError(Exception):
    """The request cannot be met; the text is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """How packing treats caches and single CPUs."""

    spread_cores: bool = False  # distribute-cpus-across-cores
    align_uncore: bool = False  # prefer-align-cpus-by-uncorecache
    # Safe fidelity: never take a CPU that is not free, on machines with uneven cores too.
    only_free: bool = False


PACKED = Strategy()


def take_packed(
    topology: CpuTopology, available: int, count: int, strategy: Strategy = PACKED
) -> int:
    """The mask of ``count`` CPUs out of the available ones; NotEnoughCpusError if too few."""
    if count < 1:
        return 0
    work = _Take(topology, available, count, strategy)
    if count > work.free.bit_count():
        raise NotEnoughCpusError(
            "not enough cpus available to satisfy request: "
            f"requested={count}, available={available.bit_count()}"
        )
    for step in work.steps():
        step()
        if work.need < 1:
            return work.result
    raise NotEnoughCpusError("failed to allocate cpus")


def node_order(topology: CpuTopology, free: int) -> list[Unit]:
    """The NUMA nodes with free CPUs, in the order in which they are used."""
    if topology.nodes_first:
        return _by_fill(topology.nodes.items(), free, free)
    order: list[Unit] = []
    for socket, mask in socket_order(topology, free):
        order += _by_fill(topology.nodes_in_socket[socket], free & mask, free)
    return order


def socket_order(topology: CpuTopology, free: int) -> list[Unit]:
    """The sockets with free CPUs, in the order in which they are used."""
    if not topology.nodes_first:
        return _by_fill(topology.sockets.items(), free, free)
    order: list[Unit] = []
    for node, mask in node_order(topology, free):
        order += _by_fill(topology.sockets_in_node[node], free & mask, free)
    return order


def _uncore_order(topology: CpuTopology, free: int) -> list[Unit]:
    order: list[Unit] = []
    for node, mask in node_order(topology, free):
        order += _by_fill(topology.uncores_in_node[node], free & mask, free)
    return order


def _core_groups(topology: CpuTopology, free: int) -> list[list[Unit]]:
    """The cores of each socket (or node), by id; the groups in the order of their parents."""
    if topology.nodes_first:
        return [topology.cores_in_socket[socket] for socket, _ in socket_order(topology, free)]
    return [topology.cores_in_node[node] for node, _ in node_order(topology, free)]


def _by_fill(units: Iterable[Unit], within: int, free: int) -> list[Unit]:
    """The units with free CPUs inside ``within``, least free first, then by id.

    Units come in the order of their ids and sorting is stable, so the id need not be compared.
    """
    found = [unit for unit in units if unit[1] & within]
    if len(found) > 1:
        found.sort(key=lambda unit: (unit[1] & free).bit_count())
    return found


class _Take:
    """One choice in progress: what is free, what is still needed, what is taken."""

    __slots__ = ("free", "need", "result", "strategy", "topology")

    def __init__(
        self, topology: CpuTopology, available: int, need: int, strategy: Strategy
    ) -> None:
        self.topology = topology
        self.strategy = strategy
        self.free = available & topology.all
        self.need = need
        self.result = 0

    def steps(self) -> list[Callable[[], None]]:
        whole = [self.whole_sockets, self.whole_nodes]
        if self.topology.nodes_first:
            whole.reverse()
        if self.strategy.align_uncore:
            whole.append(self.uncore_caches)
        if not self.strategy.spread_cores:
            whole.append(self.whole_cores)
        return [*whole, self.single_cpus]

    def take(self, cpus: int) -> None:
        self.result |= cpus
        self.free &= ~cpus
        self.need -= cpus.bit_count()

    def whole_nodes(self) -> None:
        if self.need >= self.topology.smallest_node:
            free = self.free
            self._whole([u for u in node_order(self.topology, free) if u[1] & free == u[1]])

    def whole_sockets(self) -> None:
        if self.need >= self.topology.smallest_socket:
            free, size = self.free, self.topology.cpus_per_socket
            order = socket_order(self.topology, free)
            self._whole([u for u in order if self._is_whole(u[1], free, size)])

    def whole_uncores(self) -> None:
        free = self.free
        self._whole([u for u in _uncore_order(self.topology, free) if u[1] & free == u[1]])

    def _is_whole(self, unit: int, free: int, size: int) -> bool:
        # The original compares with the machine's average size. On uneven machines a unit may
        # then count as whole although one of its CPUs is in use.
        if self.strategy.only_free:
            return unit & free == unit
        return (unit & free).bit_count() == size

    def _whole(self, units: list[Unit]) -> None:
        """Takes each unit that still fits; which ones are whole was settled before."""
        for _, mask in units:
            if self.strategy.only_free and mask & ~self.free:
                continue  # listed under two parents and taken under the first
            if self.need >= mask.bit_count():
                self.take(mask)
                if self.need < 1:
                    return

    def whole_cores(self) -> None:
        """Takes whole cores. All of them are equally free, so ids alone order them."""
        free, size = self.free, self.topology.cpus_per_core
        smallest = size if self.topology.is_even else 1
        if self.need < smallest:
            return
        for cores in _core_groups(self.topology, free):
            for _, mask in cores:
                if not self._is_whole(mask, free, size) or self.need < mask.bit_count():
                    continue
                if self.strategy.only_free and mask & ~self.free:
                    continue
                self.take(mask)
                if self.need < smallest:
                    return

    def single_cpus(self) -> None:
        free = self.free
        if self.strategy.spread_cores:
            groups = [[unit] for unit in socket_order(self.topology, free)]
        else:
            groups = [_by_fill(cores, free, free) for cores in _core_groups(self.topology, free)]
        for units in groups:
            for _, mask in units:
                cpus = mask & (self.free if self.strategy.only_free else free)
                self.take(cpus if cpus.bit_count() <= self.need else lowest(cpus, self.need))
                if self.need < 1:
                    return

    def uncore_caches(self) -> None:
        """Takes whole caches while the need is large, else the part of one that fits exactly."""
        for uncore, _ in _uncore_order(self.topology, self.free):
            if self.need >= self.topology.cpus_per_uncore:
                self.whole_uncores()
            if self.need < 1:
                return
            self._part_of_uncore(uncore)
            if self.need < 1:
                return

    def _part_of_uncore(self, uncore: int) -> None:
        per_core = self.topology.cpus_per_core
        cores_needed = -(-self.need // per_core)
        own = self.topology.uncores[uncore]
        free = 0
        for _, mask in self.topology.cores_in_uncore[uncore]:
            if self.free & mask & own:
                free |= self.free & mask
                cores_needed -= 1
                if cores_needed == 0:
                    break
        if self.need % 2 and per_core > 1 and free.bit_count() > self.need:
            free ^= 1 << free.bit_length() - 1
        if free.bit_count() == self.need:
            self.take(free)
