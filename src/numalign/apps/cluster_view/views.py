"""A cluster as plain records, one per row: hosts by NUMA node, and containers by place.

The same records are printed as tables and by -o json and -o yaml.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from numalign.apps.cluster_view.explaining import now
from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.cluster.publish.zones import (
    SINGLE_NUMA_NODE,
    HostTopology,
    Zone,
    config_of,
    numa_zones,
)
from numalign.core.pod import Pod, is_memory_type
from numalign.core.values.sets import format_list, mask_of
from numalign.core.values.sizes import human
from numalign.core.what_if import largest_fit
from numalign.wire.memory_block import memory_data

Record = dict[str, Any]


def host_records(
    names: Iterable[str],
    topologies: Mapping[str, HostTopology],
    pods: Mapping[str, Collection[Pod]],
) -> list[Record]:
    """One record for each host, with one for each of its NUMA nodes in it.

    ``pods`` are those of each host; without them what a host has left in sum is not known.
    """
    return [_host_record(name, topologies.get(name), pods.get(name, ())) for name in sorted(names)]


def _host_record(name: str, topology: HostTopology | None, pods: Collection[Pod]) -> Record:
    if topology is None:
        return {"name": name, "published": False, "nodes": [], "largest": {}}
    config = config_of(topology)
    nodes = [_node_record(node, zone) for node, zone in numa_zones(topology)]
    placement = topology.placement
    proven = _largest_proven(topology, pods)
    is_single = config.policy == SINGLE_NUMA_NODE
    return {
        "name": name,
        "published": True,
        "policy": config.policy,
        "scope": config.scope,
        "placement": None if placement is None else {"pods": len(placement.pods)},
        "nodes": nodes,
        "largest": _largest(nodes, is_single=is_single) if proven is None else proven,
        "isProven": proven is not None,
    }


def _node_record(node: int, zone: Zone) -> Record:
    return {
        "id": node,
        "resources": {
            resource.name: {
                "capacity": resource.capacity.value(),
                "allocatable": resource.allocatable.value(),
                "available": resource.available.value(),
            }
            for resource in zone.resources
        },
    }


def _largest(nodes: list[Record], *, is_single: bool) -> Record:
    """How much of each resource one container could get, counted by what is free.

    From one NUMA node where the policy asks for that, else from all; each resource on its own.
    """
    found: Record = {}
    for node in nodes:
        for name, amounts in node["resources"].items():
            free = max(0, amounts["available"])
            found[name] = max(found.get(name, 0), free) if is_single else found.get(name, 0) + free
    return found


def _largest_proven(topology: HostTopology, pods: Collection[Pod]) -> Record | None:
    """The container with most CPUs that the host's managers would take now, all of it at once.

    None where they cannot be asked: the host publishes no placement, or its CPU manager gives
    nobody CPUs of their own.
    """
    found = now(topology, pods)
    if found is None or found[0].host.cpu is None:
        return None
    frame, state = found
    best = max(
        largest_fit.largest(frame.host, state, frame.totals),
        key=lambda shape: (shape.cpus, shape.memory.get("memory", 0), -shape.nodes.bit_count()),
        default=None,
    )
    if best is None:
        return {}
    amounts = {"cpu": best.cpus, **best.memory, **best.devices}
    return {name: amount for name, amount in amounts.items() if amount}


# Who sits where.


def place_records(
    topologies: Iterable[HostTopology], *, namespace: str | None = None
) -> list[Record]:
    found = []
    for topology in sorted(topologies, key=lambda one: one.name):
        placement = topology.placement
        if placement is None:
            continue
        nodes = _nodes_of_cpus(placement)
        for pod in placement.pods:
            if namespace is None or pod.namespace == namespace:
                found += _pod_records(topology.name, pod, nodes)
    return sorted(found, key=lambda r: (r["namespace"], r["pod"], r["host"]))


def _nodes_of_cpus(placement: PublishedPlacement) -> dict[int, int]:
    """Per NUMA node the mask of its CPUs."""
    return {
        node.id: mask_of(cpu for core in node.cores for cpu in core.threads)
        for node in placement.machine.nodes
    }


def _pod_records(host: str, pod: PlacedPod, nodes: Mapping[int, int]) -> list[Record]:
    whole = PlacedContainer("", pod.cpus, pod.memory)
    parts = [*pod.containers] or [whole]
    if pod.containers and (pod.cpus or pod.memory):
        parts.insert(0, whole)  # what the pod holds as a whole, besides its containers
    return [
        {
            "namespace": pod.namespace,
            "pod": pod.name,
            "container": part.name or None,
            "host": host,
            "cpus": format_list(part.cpus) if part.cpus else None,
            "numaNodes": _nodes(part, nodes),
            "memory": memory_data(part.memory),
            "devices": {name: list(ids) for name, ids in sorted(part.devices.items())},
        }
        for part in parts
    ]


def _nodes(part: PlacedContainer, nodes: Mapping[int, int]) -> list[int]:
    of_cpus = {node for node, mask in nodes.items() if mask & part.cpus}
    of_memory = {node for block in part.memory for node in block.nodes}
    return sorted(of_cpus | of_memory)


def amount(name: str, value: int) -> str:
    return human(value) if is_memory_type(name) else str(value)
