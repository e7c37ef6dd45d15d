"""What would still fit now: the largest shapes (CPUs, memory, devices) on one NUMA node, two, …

``room`` counts what some nodes have; it is quick and is what the agent shows. ``largest`` also
asks the core about a pod of each shape, so that nothing is listed that the host would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from numalign.core.kubelet.admission.node_fit import PODS, Totals
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.cpu.policy import FULL_CORES
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.devices.devices import DeviceState
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.state import CpuState, MemoryState
from numalign.core.pod import Container, Pod, counted, is_memory_type, pod_requests
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import ids_of, mask_of

SHOWN_MAX: Final = 3  # shapes of each number of nodes
NODES_LISTED_MAX: Final = 8  # machines up to this size have all their node sets looked at
_MI: Final = 1 << 20

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LargestFit:
    """CPUs, memory by kind and devices by resource, from these nodes."""

    nodes: int  # a mask
    cpus: int
    memory: Mapping[str, int]
    devices: Mapping[str, int]

    def covers(self, other: LargestFit) -> bool:
        """Whether it has at least as much of everything."""
        return (
            self.cpus >= other.cpus
            and all(self.memory.get(k, 0) >= v for k, v in other.memory.items())
            and all(self.devices.get(k, 0) >= v for k, v in other.devices.items())
        )


def used(host: Host, state: HostState) -> dict[str, int]:
    """What the active pods request in total, pods counted too."""
    found = {PODS: len(state.pods)}
    for pod in state.pods.values():
        for name, amount in pod_requests(pod, host.settings).items():
            found[name] = found.get(name, 0) + counted(name, amount)
    return found


def left(host: Host, state: HostState, totals: Totals) -> dict[str, int]:
    """What the totals of the host still have for one more pod, devices included."""
    taken = used(host, state)
    healthy = {n: r.healthy.bit_count() for n, r in state.devices.resources.items()}
    return {
        name: max(0, total - taken.get(name, 0)) for name, total in {**totals, **healthy}.items()
    }


def room(host: Host, state: HostState, nodes: int, remaining: Amounts) -> LargestFit:
    """The largest container with CPUs and memory of its own that these nodes alone could hold.

    It may have as many CPUs and at the same time as many bytes: the two are counted apart.
    """
    memory = _memory(host, state.memory, nodes, remaining)
    if remaining.get(PODS, 0) <= 0:
        return LargestFit(
            nodes, 0, dict.fromkeys(memory, 0), dict.fromkeys(state.devices.resources, 0)
        )
    return LargestFit(
        nodes,
        _cpus(host, state.cpu, nodes, remaining.get("cpu", 0) // 1000),
        memory,
        {name: _devices(state.devices, name, nodes) for name in sorted(state.devices.resources)},
    )


def _cpus(host: Host, cpu: CpuState, nodes: int, remaining: int) -> int:
    policy = host.cpu
    if policy is None:
        return 0
    own = host.cpu_topology.cpus_of_nodes(nodes)
    count = min((own & cpu.shared & ~policy.reserved).bit_count(), remaining)
    if FULL_CORES not in policy.options:
        return count
    # Whole cores only, and the policy leaves out cores with a reserved CPU on the whole host.
    count = min(count, (cpu.shared & ~policy.reserved_cores).bit_count())
    per_core = host.cpu_topology.cpus_per_core
    return count // per_core * per_core if per_core else 0


def _memory(host: Host, memory: MemoryState, nodes: int, remaining: Amounts) -> dict[str, int]:
    kinds = [name for name in remaining if is_memory_type(name)]
    if host.memory is None:
        return {name: remaining[name] for name in kinds}
    found = [memory.machine[i] for i in ids_of(nodes) if i in memory.machine]
    group = all(mask_of(node.cells) == nodes for node in found)
    unused = all(node.assignments == 0 for node in found)
    if not found or not (group or (unused and nodes.bit_count() > 1)):
        return dict.fromkeys(kinds, 0)  # a node in a group is not given alone, nor the reverse
    return {
        name: min(remaining[name], sum(n.tables[name].free for n in found if name in n.tables))
        for name in kinds
    }


def _devices(devices: DeviceState, resource: str, nodes: int) -> int:
    found = devices.resources[resource]
    free = found.healthy & ~devices.busy.get(resource, 0)
    return sum((mask & free).bit_count() for where, mask in found.places if where & nodes)


# What the core says of them.


def largest(host: Host, state: HostState, totals: Totals) -> list[LargestFit]:
    """The largest shapes that the host would admit now, by number of nodes; each proven."""
    remaining = left(host, state, totals)
    found: list[LargestFit] = []
    for size, masks in _node_sets(host):
        shapes = [room(host, state, mask, remaining) for mask in masks]
        shapes.sort(key=lambda s: (-s.cpus, -s.memory.get("memory", 0), s.nodes))
        kept: list[LargestFit] = []
        for shape in shapes:
            if any(other.covers(shape) for other in kept) or len(kept) == SHOWN_MAX:
                continue
            proven = _proven(host, state, totals, shape)
            if proven is not None and proven.nodes.bit_count() == size:
                kept.append(proven)
        found += kept
    return found


def _node_sets(host: Host) -> Iterator[tuple[int, list[int]]]:
    nodes = ids_of(host.all_nodes)
    is_single = host.topology is not None and host.topology.name == "single-numa-node"
    sizes = range(1, 2 if is_single else len(nodes) + 1)
    for size in sizes:
        if len(nodes) <= NODES_LISTED_MAX or size in {1, len(nodes)}:
            yield size, [mask_of(chosen) for chosen in combinations(nodes, size)]


def _proven(host: Host, state: HostState, totals: Totals, shape: LargestFit) -> LargestFit | None:
    """The shape with the nodes that the host would choose; None where it would refuse it."""
    memory = {name: size // _unit(name) * _unit(name) for name, size in shape.memory.items()}
    if not shape.cpus or not memory.get("memory"):
        return None
    whole = LargestFit(shape.nodes, shape.cpus, memory, shape.devices)
    _, verdict = verdict_on(host, state, totals, as_pod(whole))
    if not isinstance(verdict, Admitted):
        return None
    [placement] = verdict.placements
    nodes = host.cpu_topology.nodes_of(placement.cpus or 0)
    for block in placement.memory:
        nodes |= mask_of(block.nodes)
    return LargestFit(nodes, whole.cpus, whole.memory, whole.devices)


def _unit(name: str) -> int:
    size = name.removeprefix("hugepages-")
    return _MI if size == name else Quantity.parse(size).value()


def as_pod(shape: LargestFit) -> Pod:
    """A Guaranteed pod of one container that asks for all of a shape."""
    amounts = {"cpu": Quantity.of(shape.cpus)}
    amounts |= {n: Quantity.of(size, binary=True) for n, size in shape.memory.items() if size}
    amounts |= {n: Quantity.of(count) for n, count in shape.devices.items() if count}
    return Pod("shape", "shape", "", (), (Container("shape", amounts, amounts),))
