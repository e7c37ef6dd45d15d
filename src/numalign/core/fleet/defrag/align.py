"""Pods that sit on more NUMA nodes than they need, and hosts where they would not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from numalign.core.fleet.defrag.allowed import arrived
from numalign.core.fleet.defrag.places import Move, Place, Places
from numalign.core.kubelet.admission.admission import placements
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted, Placement
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod
from numalign.core.values.sets import mask_of


@dataclass(frozen=True, slots=True)
class Alignment:
    moves: tuple[Move, ...]
    misaligned: int  # pods that could sit closer; each needs a move of its own
    unhelped: tuple[str, ...]  # those for whom no host was found


_Misaligned = tuple[str, str, Pod]  # host, uid


def aligned(fleet: Places, movable: Collection[str], names: dict[str, str]) -> Alignment:
    """A move for each misaligned pod that some host would take closer together."""
    now = fleet.copy()
    moves: list[Move] = []
    found: list[_Misaligned] = [
        (place.name, uid, pod)
        for place in fleet.values()
        for uid, pod in place.state.pods.items()
        if uid in movable and _is_misaligned(place, pod)
    ]
    # The largest first: they have the fewest places.
    found.sort(key=lambda one: (-fleet[one[0]].rooms.asked(one[2], "cpu"), one[1]))
    left = found
    while left:
        # A pod that leaves makes room, which may help one that was not helped before.
        still = [one for one in left if not _helped(now, one, names, moves)]
        if len(still) == len(left):
            break
        left = still
    unhelped = tuple(names.get(uid, uid) for _, uid, _ in left)
    return Alignment(tuple(moves), len(found), unhelped)


def _helped(now: Places, one: _Misaligned, names: dict[str, str], moves: list[Move]) -> bool:
    origin, uid, pod = one
    target = _closer(now, pod, origin)
    if target is None:
        return False
    move = Move(uid, names.get(uid, uid), origin, target)
    if not now.move(move):
        return False
    moves.append(move)
    return True


def _is_misaligned(place: Place, pod: Pod) -> bool:
    fewest = _fewest(place, pod)
    return fewest is not None and _reach(place, place.state, pod) > fewest


def _fewest(place: Place, pod: Pod) -> int | None:
    """On how many NUMA nodes the pod sits on the empty host."""
    frame = place.frame
    fresh = replace(pod, uid="alone")
    state, verdict = verdict_on(frame.host, frame.empty, frame.totals, fresh)
    return _reach(place, state, fresh) if isinstance(verdict, Admitted) else None


def _reach(place: Place, state: HostState, pod: Pod) -> int:
    return sum(_nodes(place, state, p).bit_count() for p in placements(state, pod))


def _nodes(place: Place, state: HostState, placed: Placement) -> int:
    nodes = place.frame.host.cpu_topology.nodes_of(placed.cpus or 0)
    for block in placed.memory:
        nodes |= mask_of(block.nodes)
    for resource, ids in placed.devices.items():
        for device in ids:
            nodes |= mask_of(state.devices.resources[resource].nodes_of.get(device, ()))
    return nodes


def _closer(fleet: Places, pod: Pod, origin: str) -> str | None:
    """The first host that would take the pod on as few NUMA nodes as it needs."""
    fresh = replace(pod, uid=arrived(pod.uid))
    for place in fleet.values():
        if place.name == origin or not fleet.may_take(place.name, fresh):
            continue
        after, verdict = verdict_on(place.frame.host, place.state, place.frame.totals, fresh)
        if isinstance(verdict, Admitted):
            fewest = _fewest(place, pod)
            if fewest is not None and _reach(place, after, fresh) <= fewest:
                return place.name
    return None
