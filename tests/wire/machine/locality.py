"""Which CPUs are near to a memory.

A NUMA node without CPUs (a memory expander, high-bandwidth memory) is near to those that the
firmware names for it or, where it names none, to those of the nearest nodes by distance. hwloc
places such a node in the same way.
"""

from __future__ import annotations

from numalign.core.machine.machine import Machine, NumaNode
from numalign.core.values.sets import CpuSet


def near_cpus(machine: Machine, node: int) -> CpuSet:
    """The CPUs of a node, or else those nearest to its memory; none where nothing tells."""
    own = next(found for found in machine.nodes if found.id == node)
    if own.cpus:
        return own.cpus
    return _named_by_firmware(machine, node) or _nearest(machine, own)


def _named_by_firmware(machine: Machine, target: int) -> CpuSet:
    initiators = {path.initiator for path in machine.memory_paths if path.target == target}
    return _joined([node for node in machine.nodes if node.id in initiators])


def _nearest(machine: Machine, own: NumaNode) -> CpuSet:
    if own.distances is None:
        return CpuSet()
    with_cpus = [(d, n) for d, n in zip(own.distances, machine.nodes, strict=True) if n.cpus]
    shortest = min((distance for distance, _ in with_cpus), default=0)
    nearest = [node for distance, node in with_cpus if distance == shortest]
    # As far from all nodes as from the nearest: the distances say nothing of its place.
    return CpuSet() if len(nearest) == len(with_cpus) > 1 else _joined(nearest)


def _joined(nodes: list[NumaNode]) -> CpuSet:
    mask = 0
    for node in nodes:
        mask |= node.cpus.mask
    return CpuSet(mask)
