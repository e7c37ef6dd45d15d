"""How broken up the free part of a fleet is. docs/fragmentation.md defines each measure.

A reference mix says which pods are expected. A host is filled with one class of the mix until its
kubelet refuses the next pod: what is idle then is useless to that class. The mean over the mix is
F_numa of the host, by resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from numalign.core.fleet import capacity
from numalign.core.fleet.rooms import Room, Rooms
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod

FRAGMENT_CPUS: Final = 16


@dataclass(frozen=True, slots=True)
class ReferencePod:
    name: str
    pod: Pod
    weight: int


Mix = Sequence[ReferencePod]


@dataclass(frozen=True, slots=True)
class Fragments:
    """Sums over hosts. Whole numbers, so that the order of adding does not matter."""

    idle: int = 0
    useless: int = 0  # times the weight of the mix
    weight: int = 1

    @property
    def expected(self) -> float:
        """F_numa: what a pod of the mix cannot use, in the unit of the resource."""
        return self.useless / self.weight

    @property
    def share(self) -> float:
        """F_numa by what is idle, 0 to 1."""
        return self.expected / self.idle if self.idle else 0.0


def useless(rooms: Rooms, state: HostState, room: Room, mix: Mix, resource: str) -> int:
    """What stays idle of a resource when a class fills the host, weighted and summed over the mix.

    Only classes that ask for the resource are asked about.
    """
    [found] = useless_of_each(rooms, state, room, mix, (resource,))
    return found


def useless_of_each(
    rooms: Rooms, state: HostState, room: Room, mix: Mix, resources: Sequence[str]
) -> list[int]:
    """The same for several resources, for which the host is filled only once."""
    return useless_by(lambda one: counted(rooms, state, room, one.pod), rooms, room, mix, resources)


def useless_by(
    count_of: Callable[[ReferencePod], int],
    rooms: Rooms,
    room: Room,
    mix: Mix,
    resources: Sequence[str],
) -> list[int]:
    """The same where it may be known already how many of each class fit."""
    idle = [room.idle(resource) for resource in resources]
    found = [0] * len(resources)
    if not any(idle):
        return found
    for one in mix:
        count: int | None = None
        for i, resource in enumerate(resources):
            asked = rooms.asked(one.pod, resource) if idle[i] else 0
            if asked:
                if count is None:
                    count = count_of(one)
                found[i] += one.weight * (idle[i] - asked * count)
    return found


def counted(rooms: Rooms, state: HostState, room: Room, pod: Pod) -> int:
    """How many pods like this one the host takes, by amounts where they decide."""
    found = rooms.count(room, pod)
    if found is not None:
        return found
    return capacity.filled(rooms.frame, state, pod).count


def weight_of(mix: Mix, resource: str) -> int:
    """The weight of the classes that ask for a resource, at least 1."""
    asking = (one.weight for one in mix if any(resource in c.limits for c in one.pod.containers))
    return sum(asking) or 1


def f_numa(hosts: Iterable[tuple[Rooms, HostState, Room]], mix: Mix, resource: str) -> Fragments:
    """F_numa of all these hosts together."""
    idle = bad = 0
    for rooms, state, room in hosts:
        idle += room.idle(resource)
        bad += useless(rooms, state, room, mix, resource)
    return Fragments(idle, bad, weight_of(mix, resource))


def stranded(rooms: Rooms, room: Room, mix: Mix, resource: str) -> int:
    """What is idle on NUMA nodes where no pod of the mix that asks for it could sit."""
    return sum(stranded_by_node(rooms, room, mix, resource))


def stranded_by_node(rooms: Rooms, room: Room, mix: Mix, resource: str) -> list[int]:
    """The same for each NUMA node, in their order."""
    asks = [rooms.ask(one.pod).of_node for one in mix]
    users = [amounts for amounts in asks if amounts is not None and amounts.get(resource)]
    if not users:
        return [0] * len(room.nodes)
    return [
        0
        if any(all(node.get(n, 0) >= a for n, a in own.items()) for own in users)
        else node.get(resource, 0)
        for node in room.nodes
    ]


def odd_cpus(room: Room) -> int:
    """The free CPUs of each NUMA node that are no whole multiple of 16."""
    return sum(node.get("cpu", 0) % FRAGMENT_CPUS for node in room.nodes)


def fragment_rate(rooms: Iterable[Room]) -> float:
    """The 16-core fragment rate: free CPUs beyond whole sixteens, by all free CPUs."""
    free = odd = 0
    for room in rooms:
        free += room.idle("cpu")
        odd += odd_cpus(room)
    return odd / free if free else 0.0


def largest_on_a_node(room: Room) -> int:
    """The CPUs of the largest container that one NUMA node could hold."""
    return max((node.get("cpu", 0) for node in room.nodes), default=0)
