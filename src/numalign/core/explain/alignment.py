"""Where the parts of a placement lie, whether they lie together, and how far apart (an estimate).

A container is *aligned* if all its own CPUs, memory and devices can be had on one NUMA node. One
that has nothing of its own is neither aligned nor not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.core.explain.placement_cost import Distance, reaches
from numalign.core.kubelet.cgroup_limits import mems_of
from numalign.core.kubelet.cpu.topology import CpuTopology
from numalign.core.kubelet.decisions import Placement
from numalign.core.kubelet.devices.devices import DeviceState
from numalign.core.kubelet.host import Host
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.values.sets import mask_of


@dataclass(frozen=True, slots=True)
class PlacedContainer:
    """Where one container sits."""

    placement: Placement
    cpus: int  # its own, or the shared pool
    cpu_nodes: int
    memory_nodes: int | None  # None: any
    device_nodes: Mapping[str, tuple[tuple[int, ...], ...]]  # of each device, by resource
    aligned: bool | None  # None: it has nothing of its own
    distance: float | None  # mean, CPUs to memory and devices; 10 = local; an estimate


def placed(host: Host, devices: DeviceState, placement: Placement, pool: int) -> PlacedContainer:
    """Where a container sits; ``pool`` are the CPUs of those without their own."""
    cpus = pool if placement.cpus is None else placement.cpus
    mems = mems_of(placement.memory)
    own = has_own(placement)
    return PlacedContainer(
        placement,
        cpus,
        host.cpu_topology.nodes_of(cpus),
        None if mems is None else mems.mask,
        {
            name: tuple(_nodes_of(devices, name, device) for device in ids)
            for name, ids in placement.devices.items()
        },
        is_aligned(host.cpu_topology, devices, placement) if own else None,
        mean_distance(host, devices, placement, pool) if own else None,
    )


def has_own(placement: Placement) -> bool:
    """Whether a container has CPUs, memory or devices of its own."""
    return placement.cpus is not None or bool(placement.memory) or bool(placement.devices)


def is_aligned(places: CpuTopology, devices: DeviceState, placement: Placement) -> bool:
    nodes = places.nodes_of(placement.cpus or 0)
    for block in placement.memory:
        nodes |= mask_of(block.nodes)
    for name, ids in placement.devices.items():
        for device in ids:
            where = mask_of(n for n in _nodes_of(devices, name, device) if n >= 0)
            if where and not where & nodes:
                nodes |= where & -where
    return nodes.bit_count() <= 1


def _nodes_of(devices: DeviceState, name: str, device: str) -> tuple[int, ...]:
    known = devices.resources.get(name)
    return () if known is None else tuple(known.nodes_of.get(device, ()))


def mean_distance(
    host: Host, devices: DeviceState, placement: Placement, pool: int
) -> float | None:
    """From CPUs to memory and to devices, where the machine tells distances."""
    found = reaches(distances_of(host.info), host.cpu_topology, devices, placement, pool)
    means = [reach.mean for reach in found[:2] if reach is not None and reach.mean is not None]
    return sum(means) / len(means) if means else None


def distances_of(info: MachineInfo) -> Distance:
    """The distances that the kubelet sees, by numbers of nodes."""
    order = {node.id: position for position, node in enumerate(info.nodes)}

    def distance(start: int, end: int) -> int | None:
        if start not in order or end not in order:
            return None
        row = info.nodes[order[start]].distances
        return None if row is None else row[order[end]]

    return distance
