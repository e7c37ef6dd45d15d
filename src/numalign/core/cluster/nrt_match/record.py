"""One host as the common scheduling rules see it: what is free in each of its NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from numalign.core.cluster.nrt_match.need import Amounts, offered
from numalign.core.cluster.publish.zones import (
    HostTopology,
    TopologyConfig,
    Zone,
    config_of,
    numa_zones,
    zone_name,
)

_NO_CONFIG: Final = TopologyConfig()


@dataclass(frozen=True, slots=True)
class ZoneRecord:
    """One NUMA node: what is free there, and how far the others are."""

    node: int
    available: Amounts
    costs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostRecord:
    """One host. ``zones`` are sorted by node; None: the host has published nothing."""

    name: str
    config: TopologyConfig = _NO_CONFIG
    zones: tuple[ZoneRecord, ...] | None = None
    offered: frozenset[str] = frozenset()
    is_fresh: bool = True


def record_of(name: str, topology: HostTopology | None, allocatable: Iterable[str]) -> HostRecord:
    """The record of a host with this topology and these resources in its allocatable."""
    names = offered(allocatable)
    if topology is None:
        return HostRecord(name, offered=names)
    zones = list(numa_zones(topology))
    nodes = [node for node, _ in zones]
    return HostRecord(
        name,
        config_of(topology),
        tuple(_zone(node, zone, nodes) for node, zone in zones),
        names,
    )


def _zone(node: int, zone: Zone, nodes: list[int]) -> ZoneRecord:
    available = {resource.name: resource.available.nanos for resource in zone.resources}
    costs = zone.costs
    if not costs:
        return ZoneRecord(node, available)
    named = ((other, costs.get(zone_name(other))) for other in nodes)
    return ZoneRecord(node, available, {o: cost for o, cost in named if cost is not None})


def reserved_everywhere(record: HostRecord, amounts: Iterable[Amounts]) -> HostRecord:
    """The host after pods whose NUMA node is not known: every node pays, down to nothing.

    A node that has less than one pod wants has nothing left, as if the pod had taken all of it.
    """
    taken = [a for a in amounts if a]
    if record.zones is None or not taken:
        return record
    zones = []
    for zone in record.zones:
        left = dict(zone.available)
        for pod in taken:
            for name, amount in pod.items():
                if name in left:
                    left[name] = left[name] - amount if left[name] >= amount else 0
        zones.append(replace(zone, available=left))
    return replace(record, zones=tuple(zones))
