"""Pods that sit on more NUMA nodes than they need, and hosts where they would not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from numalign.core.cluster.scheduling.interleavings import class_of
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
    search = _Search(names)
    found: list[_Misaligned] = [
        (place.name, uid, pod)
        for place in fleet.values()
        for uid, pod in place.state.pods.items()
        if uid in movable and search.is_misaligned(place, pod)
    ]
    # The largest first: they have the fewest places.
    found.sort(key=lambda one: (-fleet[one[0]].rooms.asked(one[2], "cpu"), one[1]))
    left = found
    while left:
        # A pod that leaves makes room, which may help one that was not helped before.
        still = [one for one in left if not search.helped(now, one)]
        if len(still) == len(left):
            break
        left = still
    unhelped = tuple(names.get(uid, uid) for _, uid, _ in left)
    return Alignment(tuple(search.moves), len(found), unhelped)


@dataclass(slots=True)
class _Search:
    names: dict[str, str]
    moves: list[Move] = field(default_factory=list)
    _fewest: dict[tuple[int, object], int | None] = field(default_factory=dict)
    _closer: dict[tuple[str, object], tuple[Place, bool]] = field(default_factory=dict)

    def is_misaligned(self, place: Place, pod: Pod) -> bool:
        fewest = self.fewest(place, pod)
        return fewest is not None and _reach(place, place.state, pod) > fewest

    def fewest(self, place: Place, pod: Pod) -> int | None:
        """On how many NUMA nodes such a pod sits on the empty host."""
        frame = place.frame
        key = (id(frame), class_of(pod))
        if key not in self._fewest:
            fresh = replace(pod, uid="alone")
            state, verdict = verdict_on(frame.host, frame.empty, frame.totals, fresh)
            is_in = isinstance(verdict, Admitted)
            self._fewest[key] = _reach(place, state, fresh) if is_in else None
        return self._fewest[key]

    def helped(self, now: Places, one: _Misaligned) -> bool:
        """Moves a pod where it sits closer, if there is such a place."""
        origin, uid, pod = one
        for place in now.values():
            if place.name == origin or not self._sits_closer(now, place, pod):
                continue
            move = Move(uid, self.names.get(uid, uid), origin, place.name)
            if now.move(move):
                self.moves.append(move)
                return True
        return False

    def _sits_closer(self, now: Places, place: Place, pod: Pod) -> bool:
        if not now.allowed.ever(pod.uid, place.name):
            return False
        key = (place.name, class_of(pod))
        known = self._closer.get(key)
        if known is None or known[0] is not place:
            known = self._closer[key] = (place, self._is_closer(place, pod))
        return known[1]

    def _is_closer(self, place: Place, pod: Pod) -> bool:
        fresh = replace(pod, uid=arrived(pod.uid))
        seat = place.seat(fresh)
        fewest = self.fewest(place, pod)
        if seat is None or fewest is None:
            return False
        return seat.state is None or _reach(place, seat.state, fresh) <= fewest


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
