"""CPUs by socket, NUMA node, core and uncore cache, as masks.

Built once per machine. Everything that choosing CPUs asks again and again is prepared here:
the members of each unit, and which smaller units lie in which larger one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from numalign.core.errors import StartError
from numalign.core.machine.kubelet_view import MachineInfo

Units = dict[int, int]  # unit id -> mask of its CPUs, in the order of ids


@dataclass(frozen=True, slots=True)
class CpuPlace:
    """Where one CPU sits, in the kubelet's numbering."""

    node: int
    socket: int
    core: int  # the lowest CPU number of the core
    uncore: int


@dataclass(frozen=True)
class CpuTopology:
    """The kubelet's CPU topology. Counts are its own, also where the machine is uneven."""

    places: dict[int, CpuPlace]
    cpu_count: int
    core_count: int
    socket_count: int

    @cached_property
    def nodes(self) -> Units:
        """NUMA nodes that have CPUs."""
        return _units((p.node, cpu) for cpu, p in self.places.items())

    @cached_property
    def sockets(self) -> Units:
        return _units((p.socket, cpu) for cpu, p in self.places.items())

    @cached_property
    def cores(self) -> Units:
        """Physical cores by their lowest CPU number."""
        return _units((p.core, cpu) for cpu, p in self.places.items())

    @cached_property
    def uncores(self) -> Units:
        return _units((p.uncore, cpu) for cpu, p in self.places.items())

    @cached_property
    def all(self) -> int:
        mask = 0
        for cpu in self.places:
            mask |= 1 << cpu
        return mask

    @cached_property
    def node_count(self) -> int:
        """The number of NUMA nodes that have CPUs."""
        return len(self.nodes)

    # Integer divisions of whole-machine counts, also on uneven machines: the kubelet does so.

    @cached_property
    def cpus_per_core(self) -> int:
        """CPUs per core, rounded down over the whole machine."""
        return self.cpu_count // self.core_count if self.core_count else 0

    @cached_property
    def cpus_per_socket(self) -> int:
        """CPUs per socket, rounded down over the whole machine."""
        return self.cpu_count // self.socket_count if self.socket_count else 0

    @cached_property
    def cpus_per_uncore(self) -> int:
        """CPUs per uncore cache, rounded down over the whole machine."""
        return self.cpu_count // len(self.uncores) if self.uncores else 0

    @cached_property
    def is_even(self) -> bool:
        """Whether all cores have the same number of CPUs."""
        return all(m.bit_count() == self.cpus_per_core for m in self.cores.values())

    @cached_property
    def nodes_first(self) -> bool:
        """Whether whole NUMA nodes are looked for before whole sockets."""
        return self.socket_count >= self.node_count

    @cached_property
    def cores_in_node(self) -> dict[int, list[tuple[int, int]]]:
        """The (id, mask) of each core with CPUs on a node."""
        return _within(self.nodes, self.cores)

    @cached_property
    def cores_in_socket(self) -> dict[int, list[tuple[int, int]]]:
        """The (id, mask) of each core with CPUs in a socket."""
        return _within(self.sockets, self.cores)

    @cached_property
    def cores_in_uncore(self) -> dict[int, list[tuple[int, int]]]:
        """The (id, mask) of each core with CPUs under an uncore cache."""
        return _within(self.uncores, self.cores)

    @cached_property
    def node_bits(self) -> tuple[tuple[int, int], ...]:
        """The (bit of the node id, mask of its CPUs) of each node."""
        return tuple((1 << node, cpus) for node, cpus in self.nodes.items())

    @cached_property
    def node_mask(self) -> int:
        """All NUMA nodes that have CPUs."""
        return sum(bit for bit, _ in self.node_bits)

    @cached_property
    def _largest_sums(self) -> list[int]:
        sizes = sorted((cpus.bit_count() for cpus in self.nodes.values()), reverse=True)
        return list(accumulate(sizes))

    def fewest_nodes(self, count: int) -> int:
        """The number of nodes that so many CPUs need on an empty machine; all if not enough."""
        return min(bisect_left(self._largest_sums, count) + 1, self.node_count)

    @cached_property
    def nodes_in_socket(self) -> dict[int, list[tuple[int, int]]]:
        """The (id, mask) of each node with CPUs in a socket."""
        return _within(self.sockets, self.nodes)

    @cached_property
    def sockets_in_node(self) -> dict[int, list[tuple[int, int]]]:
        """The (id, mask) of each socket with CPUs on a node."""
        return _within(self.nodes, self.sockets)

    @cached_property
    def uncores_in_node(self) -> dict[int, list[tuple[int, int]]]:
        """The (id, mask) of each uncore cache with CPUs on a node."""
        return _within(self.nodes, self.uncores)

    @cached_property
    def smallest_node(self) -> int:
        """The number of CPUs of the NUMA node that has the fewest."""
        return min(mask.bit_count() for mask in self.nodes.values())

    @cached_property
    def smallest_socket(self) -> int:
        """The number of CPUs of the socket that has the fewest."""
        return min(mask.bit_count() for mask in self.sockets.values())

    def nodes_of(self, cpus: int) -> int:
        """The mask of NUMA nodes that these CPUs are on."""
        nodes = 0
        for node, mask in self.nodes.items():
            if mask & cpus:
                nodes |= 1 << node
        return nodes

    def cpus_of_nodes(self, nodes: int) -> int:
        """The mask of all CPUs on a mask of NUMA nodes."""
        cpus = 0
        for node, mask in self.nodes.items():
            if nodes >> node & 1:
                cpus |= mask
        return cpus

    def cores_touched(self, cpus: int) -> int:
        """All CPUs of every core that has one of these CPUs."""
        touched = 0
        for mask in self.cores.values():
            if mask & cpus:
                touched |= mask
        return touched


def cpu_topology(info: MachineInfo) -> CpuTopology:
    """The CPU topology that the kubelet builds; StartError where it builds none."""
    if info.cpu_count == 0:
        raise StartError("cpu_manager", "could not detect number of cpus")
    places: dict[int, CpuPlace] = {}
    core_count = 0
    for node in info.nodes:
        for core in node.cores:
            core_count += 1
            if not core.threads:
                raise StartError("cpu_manager", "no cpus provided")
            if len(set(core.threads)) != len(core.threads):
                raise StartError("cpu_manager", "cpus provided are not unique")
            uncore = core.socket if core.uncore is None else core.uncore
            place = CpuPlace(node.id, core.socket, min(core.threads), uncore)
            places.update(dict.fromkeys(core.threads, place))
    return CpuTopology(places, info.cpu_count, core_count, info.socket_count)


def _units(pairs: Iterable[tuple[int, int]]) -> Units:
    masks: Units = {}
    for unit, cpu in pairs:
        masks[unit] = masks.get(unit, 0) | 1 << cpu
    return {unit: masks[unit] for unit in sorted(masks)}


def _within(outer: Units, inner: Units) -> dict[int, list[tuple[int, int]]]:
    return {
        parent: [(unit, mask) for unit, mask in inner.items() if mask & parent_mask]
        for parent, parent_mask in outer.items()
    }
