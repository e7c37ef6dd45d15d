"""A fleet whose pods can be moved in thought, each move proven by the managers of both hosts.

A pod is moved in one order only: its new host takes it while it still runs on the old one, then it
leaves the old one. So there is room at every moment, and nobody waits for a place without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.fleet.capacity import FleetHost
from numalign.core.fleet.defrag.allowed import Allowed, arrived, original
from numalign.core.fleet.rooms import Room, Rooms, Seat
from numalign.core.kubelet import host as kubelet
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a plan."""

    pod: str  # uid
    name: str  # namespace/name
    origin: str
    target: str


@dataclass(slots=True)
class Place:
    """One host now, in thought."""

    name: str
    rooms: Rooms
    state: HostState
    room: Room
    _without: dict[str, Place] = field(default_factory=dict, init=False, repr=False)

    @property
    def frame(self) -> Frame:
        return self.rooms.frame

    def seat(self, pod: Pod) -> Seat | None:
        return self.rooms.seat(self.state, self.room, pod)

    def without(self, uid: str) -> Place:
        """The host if this pod had left; kept, since many ask."""
        if uid not in self._without:
            self._without[uid] = self.without_all([uid])
        return self._without[uid]

    def without_all(self, uids: Iterable[str]) -> Place:
        """The host if these pods had left."""
        state = self.state
        for uid in uids:
            state = kubelet.ended(state, uid)
        state = kubelet.cleaned(self.frame.host, state)
        return Place(self.name, self.rooms, state, self.rooms.room(state))


class Places:
    """All hosts in thought. A copy shares what does not change."""

    def __init__(
        self,
        hosts: Mapping[str, Place],
        allowed: Allowed | None = None,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        self._hosts = dict(hosts)
        self.allowed = allowed or Allowed()
        self._moved = dict(moved or {})  # where pods went, and those that were let in

    @classmethod
    def of(cls, fleet: Iterable[FleetHost], allowed: Allowed | None = None) -> Places:
        kept: dict[int, Rooms] = {}
        found: dict[str, Place] = {}
        for host in fleet:
            rooms = kept.setdefault(id(host.frame), Rooms(host.frame))
            state = kubelet.cleaned(host.frame.host, host.state)
            found[host.name] = Place(host.name, rooms, state, rooms.room(state))
        return cls(found, allowed)

    def __getitem__(self, name: str) -> Place:
        return self._hosts[name]

    def values(self) -> list[Place]:
        return list(self._hosts.values())

    def copy(self) -> Places:
        return Places(self._hosts, self.allowed, self._moved)

    def may_take(self, name: str, pod: Pod) -> bool:
        """Whether the pod may go there by its rules, and the host has room for it now."""
        if not self.allowed.ever(pod.uid, name) or self._hosts[name].seat(pod) is None:
            return False
        return self.allowed.now(pod.uid, name, self._moved)

    def put(self, target: str, pod: Pod) -> bool:
        """Lets a host take a pod; False, and nothing changes, where rules or managers refuse."""
        place = self._hosts[target]
        if not self.allowed.now(pod.uid, target, self._moved):
            return False
        frame = place.frame
        after, verdict = verdict_on(frame.host, place.state, frame.totals, pod)
        if not isinstance(verdict, Admitted):
            return False
        state = kubelet.cleaned(frame.host, after)
        self._hosts[target] = Place(target, place.rooms, state, place.rooms.room(state))
        self._moved[original(pod.uid)] = target
        return True

    def take(self, origin: str, uid: str) -> None:
        self._hosts[origin] = self._hosts[origin].without(uid)

    def move(self, move: Move) -> bool:
        """Carries a move out in thought: taken first, left afterwards."""
        pod = self._hosts[move.origin].state.pods.get(move.pod)
        if pod is None or move.origin == move.target:
            return False
        if not self.put(move.target, replace(pod, uid=arrived(pod.uid))):
            return False
        self.take(move.origin, move.pod)
        return True


def first_refused(fleet: Places, moves: Iterable[Move]) -> Move | None:
    """The first move of a plan that would fail in this order; None if all of it holds."""
    now = fleet.copy()
    moved: dict[str, str] = {}
    for move in moves:
        uid = moved.get(move.pod, move.pod)
        if not now.move(replace(move, pod=uid)):
            return move
        moved[move.pod] = arrived(uid)
    return None
