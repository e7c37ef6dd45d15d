"""An explanation as plain values: what -o json prints, the agent serves and the renderer draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numalign.core.explain.causes import Case
from numalign.core.explain.demands import Demand
from numalign.core.explain.explain import Explanation
from numalign.core.explain.hints import HintTable
from numalign.core.explain.placement_cost import Cost, Reach
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import Host, HostState
from numalign.core.values.sets import format_list, ids_of
from numalign.core.what_if.largest_fit import LargestFit
from numalign.core.what_if.search import Change

View = dict[str, Any]


def as_data(found: Explanation) -> View:
    return {
        "pod": found.pod,
        "admitted": not found.reason,
        "sentence": found.sentence,
        "step": found.step.value,
        "reason": found.reason,
        "message": found.message,
        "container": found.container,
        "provider": found.provider,
        "resources": list(found.resources),
        "how": found.how.value,
        "conflict": list(found.conflict),
        "unoffered": list(found.unoffered),
        "demands": [_demand(demand) for demand in found.demands],
        "facts": list(found.facts),
        "hints": None if found.table is None else _table(found.table),
        "fitsWhenEmpty": found.fits_when_empty,
    }


def _demand(demand: Demand) -> View:
    return {
        "resource": demand.resource,
        "provider": demand.provider,
        "asked": demand.asked,
        "free": demand.free,
        "unhealthy": demand.unhealthy,
        "nodes": [
            {"nodes": list(ids_of(r.nodes)), "free": r.free, "whenEmpty": r.most}
            for r in demand.rooms
        ],
    }


def _table(table: HintTable) -> View:
    words = {True: "preferred", False: "possible", None: None}
    return {
        "resources": list(table.resources),
        "rows": [
            {"nodes": list(ids_of(row.nodes)), "hints": [words[cell] for cell in row.cells]}
            for row in table.rows
        ],
        "complete": not table.left_out,
        "nowhere": list(table.nowhere),
        "anywhere": list(table.anywhere),
    }


# What would help, and what there is.


def change_data(change: Change) -> View:
    """One change that would let the pod in."""
    return {
        "kind": change.kind.value,
        "text": change.text,
        "edits": [
            {"container": container, "resource": resource, "from": before, "to": after}
            for container, resource, before, after in change.edits
        ],
        "leaving": list(change.leaving),
        "repaired": list(change.repaired),
        "drained": change.drained,
        "refusedAgain": list(change.refused_again),
        "exact": change.exact,
    }


def shape_data(shape: LargestFit) -> View:
    """One shape that would still fit."""
    return {
        "nodes": list(ids_of(shape.nodes)),
        "cpus": shape.cpus,
        "memory": dict(shape.memory),
        "devices": dict(shape.devices),
    }


def cost_data(cost: Cost) -> View:
    """How far one container reaches; an estimate."""
    return {
        "container": cost.container,
        "cpuToMemory": _reach(cost.cpu_to_memory),
        "cpuToDevices": _reach(cost.cpu_to_devices),
        "memoryToDevices": _reach(cost.memory_to_devices),
        "readLatencyNs": None if cost.read_latency_ns is None else round(cost.read_latency_ns, 1),
    }


def _reach(reach: Reach | None) -> View | None:
    if reach is None:
        return None
    return {
        "localShare": round(reach.local, 3),
        "meanDistance": None if reach.mean is None else round(reach.mean, 1),
        "worstDistance": reach.worst,
    }


# The host with the pod in it.


def map_data(case: Case) -> list[View]:
    """Each NUMA node with what is this pod's, what is others' and what is free."""
    is_admitted = isinstance(case.verdict, Admitted)
    state = case.after if is_admitted else case.before
    return [_node(case.host, state, case.pod.uid, node.id) for node in case.host.info.nodes]


def _node(host: Host, state: HostState, uid: str, node: int) -> View:
    cpus = host.cpu_topology.nodes.get(node, 0)
    mine = _union(state.cpu.entries.get(uid, {}).values()) | state.cpu.pod_sets.get(uid, 0)
    reserved = 0 if host.cpu is None else host.cpu.reserved
    owned = host.cpu_topology.all & ~state.cpu.shared if host.cpu is not None else 0
    return {
        "node": node,
        "cpus": format_list(cpus),
        "pod": format_list(cpus & mine),
        "others": format_list(cpus & owned & ~mine & ~reserved),
        "reserved": format_list(cpus & reserved),
        "memory": _memory(host, state, uid, node),
        "devices": _devices(state, uid, node),
    }


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _memory(host: Host, state: HostState, uid: str, node: int) -> list[View]:
    known = state.memory.machine.get(node)
    if host.memory is None or known is None:
        total = next(n.memory_bytes for n in host.info.nodes if n.id == node)
        return [{"type": "memory", "totalBytes": total, "freeBytes": None, "pod": False}]
    blocks = state.memory.pod_blocks.get(uid) or tuple(
        block for found in state.memory.entries.get(uid, {}).values() for block in found
    )
    return [
        {
            "type": name,
            "totalBytes": table.allocatable,
            "freeBytes": table.free,
            "pod": any(b.type == name and node in b.nodes for b in blocks),
        }
        for name, table in sorted(known.tables.items(), key=lambda item: item[0] != "memory")
    ]


def _devices(state: HostState, uid: str, node: int) -> list[View]:
    found = []
    for name in sorted(state.devices.resources):
        resource = state.devices.resources[name]
        there = sum(mask for where, mask in resource.places if where >> node & 1)
        if not there:
            continue
        held = [h[name] for h in state.devices.entries.get(uid, {}).values() if name in h]
        mine = _union(resource.mask(one.ids) for one in held) & there
        busy = state.devices.busy.get(name, 0) & there & ~mine
        found.append(
            {
                "resource": name,
                "count": there.bit_count(),
                "pod": mine.bit_count(),
                "others": busy.bit_count(),
                "unhealthy": (there & ~resource.healthy & ~busy & ~mine).bit_count(),
            }
        )
    return found
