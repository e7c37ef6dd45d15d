"""Where numalign and hwloc differ on a machine, aspect by aspect.

What hwloc does not show at all (CPUs and nodes that its options hide) is one difference; the
other aspects are then compared on what both show.
"""

from __future__ import annotations

from tests.wire.machine.hwloc_view import View
from tests.wire.machine.locality import near_cpus

from numalign.core.machine.machine import Machine

ASPECTS = (
    "cpus",
    "nodes",
    "CPUs of nodes",
    "memory of nodes",
    "packages",
    "cores",
    "caches",
    "distances",
    "devices",
    "places of devices",
)


def differences(machine: Machine, view: View) -> dict[str, str]:
    """The aspects in which the two differ, with what each says."""
    found = {}
    for aspect, (ours, theirs) in _sides(machine, view).items():
        if ours != theirs:
            found[aspect] = f"numalign has {_only(ours, theirs)}, hwloc has {_only(theirs, ours)}"
    assert set(found) <= set(ASPECTS)
    return found


def _sides(machine: Machine, view: View) -> dict[str, tuple[object, object]]:
    common = machine.online.mask & view.cpus
    nodes = [node for node in machine.nodes if node.id in view.nodes]
    return {
        "cpus": (machine.online.mask, view.cpus),
        "nodes": ({node.id for node in machine.nodes}, set(view.nodes)),
        "CPUs of nodes": (
            {node.id: near_cpus(machine, node.id).mask & common for node in nodes},
            {node.id: view.nodes[node.id][0] for node in nodes},
        ),
        "memory of nodes": (
            {n.id: _rounded(n.memory_bytes, *view.nodes[n.id][1]) for n in nodes},
            {n.id: view.nodes[n.id][1][0] for n in nodes},
        ),
        "packages": _packages(machine, view, common),
        "cores": _cores(machine, view, common),
        "caches": _caches(machine, view, common),
        "distances": _distances(machine, view),
        "devices": _devices(machine, view),
        "places of devices": _device_places(machine, view),
    }


def _rounded(ours: int, shown: int, unit: int) -> int:
    """Our number, or the one shown where that is ours in hwloc's coarser unit."""
    return shown if abs(ours - shown) < unit or ours == shown else ours


def _packages(machine: Machine, view: View, common: int) -> tuple[object, object]:
    numbered = None not in view.packages.values()
    ours = {cpus.mask & common: number for number, cpus in machine.sockets.items()}
    ours.pop(0, None)
    theirs = {cpus: number for cpus, number in view.packages.items() if cpus}
    return (ours, theirs) if numbered else (set(ours), set(theirs))


def _cores(machine: Machine, view: View, common: int) -> tuple[object, object]:
    ids = {cpu.core: cpu.core_id for cpu in machine.cpus}
    ours = {cpus.mask & common: ids[core] for core, cpus in machine.cores.items()}
    ours.pop(0, None)
    return ours, view.cores


def _caches(machine: Machine, view: View, common: int) -> tuple[object, object]:
    shown = {(level, kind, cpus): (size, unit) for level, kind, cpus, size, unit in view.caches}
    with_instruction = any(kind == "Instruction" for _, kind, _ in shown)
    ours = {}
    for cache in machine.caches:
        key = (cache.level, cache.kind.value, cache.cpus.mask & common)
        if key[2] and (with_instruction or key[1] != "Instruction"):
            ours[key] = _rounded(cache.size_bytes, *shown.get(key, (0, 1)))
    return ours, {key: size for key, (size, _) in shown.items() if key[2]}


def _distances(machine: Machine, view: View) -> tuple[object, object]:
    ids = [node.id for node in machine.nodes if node.id in view.nodes]
    if len(ids) < 2:
        return {}, {}
    pairs = {(a, b): machine.distance(a, b) for a in ids for b in ids}
    known = {pair: value for pair, value in pairs.items() if value is not None}
    return known, {pair: v for pair, v in view.distances.items() if set(pair) <= set(ids)}


def _devices(machine: Machine, view: View) -> tuple[object, object]:
    # hwloc shows only what it finds important, so ours are looked up by its addresses.
    ours = {
        device.address: (device.class_code >> 8, device.vendor_id, device.device_id)
        for device in machine.devices
        if device.address in view.devices
    }
    bridges = {address for address, found in view.devices.items() if found[0] >> 8 == 0x06}
    theirs = {a: found[:3] for a, found in view.devices.items() if a not in bridges}
    return ours, theirs


def _device_places(machine: Machine, view: View) -> tuple[object, object]:
    cpus = {node.id: near_cpus(machine, node.id).mask for node in machine.nodes}
    everything = machine.online.mask
    ours = {
        device.address: everything if device.node is None else cpus[device.node]
        for device in machine.devices
        if device.address in view.devices
    }
    return ours, {address: view.devices[address][3] for address in ours}


def _only(one: object, other: object) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        text = str({key: one[key] for key in one if one[key] != other.get(key, object())})
    elif isinstance(one, set | frozenset) and isinstance(other, set | frozenset):
        text = str(sorted(one - other))
    else:
        text = hex(one) if isinstance(one, int) else str(one)
    return text if len(text) < 300 else f"{text[:300]}..."
