"""The fewest moves that let a pod in.

Plans of up to ``EXACT_MOVES`` moves are tried one and all, so that what is found is the least, or
that it is known that no plan is as small. Longer ones are found by resettling pods of one host,
each where it fits or where another one makes room, and leaving out each move that is not needed.

What is tried with two moves: two pods leave the host; or one does, and before it another one makes
room where it goes, and may come to the first host itself. Nothing else can help, as long as a pod
that leaves a host never stands in the way there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from numalign.core.cluster.scheduling.interleavings import class_of
from numalign.core.fleet.defrag.allowed import arrived
from numalign.core.fleet.defrag.places import Move, Place, Places
from numalign.core.pod import Pod

EXACT_MOVES: Final = 2
MOVES_MAX: Final = 12
DEEP_MOVES_MAX: Final = 6  # how long plans are tried that resettle a few pods of a host
SET_MAX: Final = 4  # pods that leave one host together, in longer plans
CHAIN_MAX: Final = 3  # moves to find a place for one of them
GREEDY_TRIES_MAX: Final = 40_000
TRIES_MAX: Final = 60_000  # questions to hosts, before an exact search gives up


@dataclass(slots=True)
class Search:
    """One search: who may move, and how many questions are left."""

    movable: Collection[str]  # uids
    names: dict[str, str]
    tries: int = TRIES_MAX
    # By class of a pod, in the fleet as it is at first: the hosts that would take it, and the pods
    # whose leaving would make room for it, with their hosts.
    takers: dict[object, list[str]] = field(default_factory=dict)
    making_room: dict[object, list[tuple[str, str]]] = field(default_factory=dict)

    def is_over(self) -> bool:
        return self.tries <= 0

    def move(self, place: Place, uid: str, target: str) -> Move:
        return Move(uid, self.names.get(uid, uid), place.name, target)

    def movable_on(self, place: Place) -> list[str]:
        return [uid for uid in place.state.pods if uid in self.movable]


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """How to let a pod in; ``target`` None: no way was found."""

    target: str | None
    moves: tuple[Move, ...] = ()
    lower_bound: int = 0  # no plan has fewer moves


_Found = tuple[Places, str, list[Move]]


def room_for(fleet: Places, pod: Pod, search: Search) -> tuple[Places, RoomPlan]:
    """The fewest moves that let a pod in, and the fleet after them with the pod in its place."""
    for count, tried in enumerate((_without_a_move, _by_one_move, _by_two_moves)):
        found = tried(fleet, pod, search)
        if found is not None:
            return found[0], RoomPlan(found[1], tuple(found[2]), count)
        if search.is_over():
            return _greedy(fleet, pod, search, lower_bound=count)
    return _greedy(fleet, pod, search, lower_bound=EXACT_MOVES + 1)


def _carried_out(fleet: Places, moves: Iterable[Move], target: str, pod: Pod) -> _Found | None:
    """The fleet after a plan, if all of it holds."""
    now, done = fleet.copy(), list(moves)
    if all(now.move(move) for move in done) and now.put(target, pod):
        return now, target, done
    return None


def _without_a_move(fleet: Places, pod: Pod, search: Search) -> _Found | None:
    for place in fleet.values():
        search.tries -= 1
        if fleet.may_take(place.name, pod):
            found = _carried_out(fleet, (), place.name, pod)
            if found is not None:
                return found
    return None


def _targets(fleet: Places, pod: Pod, origin: str, search: Search) -> list[str]:
    """The other hosts that would take a pod of this host, in the fleet as it is at first."""
    key = (class_of(pod), fleet.allowed.rules_of(pod.uid))
    if key not in search.takers:
        search.tries -= len(fleet.values())
        fresh = _arriving(pod)
        search.takers[key] = [p.name for p in fleet.values() if fleet.may_take(p.name, fresh)]
    return [name for name in search.takers[key] if name != origin]


def _arriving(pod: Pod) -> Pod:
    return replace(pod, uid=arrived(pod.uid))


def _emptied_by(
    fleet: Places, pod: Pod, size: int, search: Search
) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Hosts and so many movable pods of theirs without which they have room for the pod."""
    for place in fleet.values():
        if not fleet.allowed.ever(pod.uid, place.name):
            continue
        movable = search.movable_on(place)
        search.tries -= 1
        if not movable or place.without_all(movable).seat(pod) is None:
            continue
        for chosen in combinations(movable, size):
            if search.is_over():
                return
            search.tries -= 1
            left = place.without(chosen[0]) if size == 1 else place.without_all(chosen)
            if left.seat(pod) is not None:
                yield place, chosen


def _by_one_move(fleet: Places, pod: Pod, search: Search) -> _Found | None:
    for place, (uid,) in _emptied_by(fleet, pod, 1, search):
        for target in _targets(fleet, place.state.pods[uid], place.name, search):
            move = search.move(place, uid, target)
            found = _carried_out(fleet, [move], place.name, pod)
            if found is not None:
                return found
    return None


def _by_two_moves(fleet: Places, pod: Pod, search: Search) -> _Found | None:
    for place, (uid,) in _emptied_by(fleet, pod, 1, search):
        found = _by_a_chain(fleet, place, uid, pod, search)
        if found is not None:
            return found
        if search.is_over():
            return None
    for place, pair in _emptied_by(fleet, pod, 2, search):
        found = _both_elsewhere(fleet, place, pair, pod, search)
        if found is not None:
            return found
    return None


def _by_a_chain(fleet: Places, place: Place, uid: str, pod: Pod, search: Search) -> _Found | None:
    """Another pod makes room where the one goes that is in the way."""
    victim = place.state.pods[uid]
    for name, first in _making_room_for(fleet, _arriving(victim), search):
        if name == place.name:
            continue
        other = fleet[name]
        for target in _targets(fleet, other.state.pods[first], name, search):
            moves = [search.move(other, first, target), search.move(place, uid, name)]
            found = _carried_out(fleet, moves, place.name, pod)
            if found is not None:
                return found
        if search.is_over():
            return None
    return None


def _making_room_for(fleet: Places, pod: Pod, search: Search) -> list[tuple[str, str]]:
    key = (class_of(pod), fleet.allowed.rules_of(pod.uid))
    if key not in search.making_room:
        found = _emptied_by(fleet, pod, 1, search)
        search.making_room[key] = [(place.name, uid) for place, (uid,) in found]
    return search.making_room[key]


def _both_elsewhere(
    fleet: Places, place: Place, pair: tuple[str, ...], pod: Pod, search: Search
) -> _Found | None:
    """Two pods leave the host, in either order: where one goes may be where the other one could."""
    targets = {
        uid: list(_targets(fleet, place.state.pods[uid], place.name, search)) for uid in pair
    }
    for first, second in (pair, pair[::-1]):
        for one in targets[first]:
            for two in targets[second]:
                if search.is_over():
                    return None
                search.tries -= 1
                moves = [search.move(place, first, one), search.move(place, second, two)]
                found = _carried_out(fleet, moves, place.name, pod)
                if found is not None:
                    return found
    return None


# Longer plans.


def _greedy(
    fleet: Places, pod: Pod, search: Search, *, lower_bound: int
) -> tuple[Places, RoomPlan]:
    """The shortest plan that is found by resettling pods of one host, until the pod fits there."""
    best = _drained_host(fleet, pod, search)
    search.tries = GREEDY_TRIES_MAX
    for count in range(max(1, lower_bound), DEEP_MOVES_MAX + 1):
        if search.is_over() or (best is not None and len(best[2]) <= count):
            break
        found = _resettled_host(fleet, pod, search, count)
        if found is not None:
            best = _pruned(fleet, found, pod)
            break
    if best is None:
        return fleet, RoomPlan(None, (), lower_bound)
    return best[0], RoomPlan(best[1], tuple(best[2]), min(lower_bound, len(best[2])))


def _drained_host(fleet: Places, pod: Pod, search: Search) -> _Found | None:
    """The shortest plan by which the pods of a host leave one after the other, until it fits."""
    best: _Found | None = None
    search.tries = GREEDY_TRIES_MAX
    for place in fleet.values():
        movable = _useful_on(fleet, place, pod, search)
        for victims in (movable, movable[::-1]):
            most = MOVES_MAX if best is None else len(best[2]) - 1
            found = _drained(fleet, place, pod, victims, search, most)
            if found is not None:
                best = _pruned(fleet, found, pod)
        if search.is_over():
            break
    return best


def _useful_on(fleet: Places, place: Place, pod: Pod, search: Search) -> list[str]:
    """The pods that may leave, the largest first; none where the pod would not fit even then."""
    movable = search.movable_on(place)
    search.tries -= 1
    if not movable or not fleet.allowed.ever(pod.uid, place.name):
        return []
    if place.without_all(movable).seat(pod) is None:
        return []
    pods, rooms = place.state.pods, place.rooms
    return sorted(movable, key=lambda uid: (-rooms.asked(pods[uid], "cpu"), uid))


def _drained(
    fleet: Places, place: Place, pod: Pod, victims: Iterable[str], search: Search, most: int
) -> _Found | None:
    now, moves = fleet.copy(), list[Move]()
    for uid in victims:
        if len(moves) >= most or search.is_over():
            return None
        settled = next(_settled(now, place, uid, 1, search, frozenset()), None)
        if settled is None:
            continue
        now, more = settled
        moves += more
        if now.may_take(place.name, pod) and now.put(place.name, pod):
            return now, place.name, moves
    return None


def _resettled_host(fleet: Places, pod: Pod, search: Search, count: int) -> _Found | None:
    """A plan of so many moves by which a few pods of a host find other places."""
    for place in fleet.values():
        movable = _useful_on(fleet, place, pod, search)
        needed: list[set[str]] = []
        for size in range(1, min(count, SET_MAX) + 1):
            for victims in combinations(movable, size):
                if search.is_over():
                    return None
                if any(one.issubset(victims) for one in needed):
                    continue
                search.tries -= 1
                if place.without_all(victims).seat(pod) is None:
                    continue
                needed.append(set(victims))
                found = _resettled(fleet, place, pod, victims, search, count)
                if found is not None:
                    return found
    return None


def _resettled(
    fleet: Places, place: Place, pod: Pod, victims: tuple[str, ...], search: Search, most: int
) -> _Found | None:
    """All of these pods elsewhere and the new one in their place, with at most so many moves."""
    if not victims:
        now = fleet.copy()
        return (now, place.name, []) if now.put(place.name, pod) else None
    first, *others = victims
    left = min(CHAIN_MAX, most - len(others))
    for now, moves in _settled(fleet, place, first, left, search, frozenset()):
        found = _resettled(now, place, pod, tuple(others), search, most - len(moves))
        if found is not None:
            return found[0], found[1], [*moves, *found[2]]
        if search.is_over():
            return None
    return None


def _settled(
    fleet: Places, place: Place, uid: str, most: int, search: Search, closed: frozenset[str]
) -> Iterator[tuple[Places, list[Move]]]:
    """The fleet with a pod on another host: on one that takes it, the fullest first, or on one
    where another pod makes room, which takes more moves."""
    fresh = _arriving(place.state.pods[uid])
    others = sorted(fleet.values(), key=lambda one: (one.room.idle("cpu"), one.name))
    others = [one for one in others if one.name != place.name and one.name not in closed]
    for other in others:
        search.tries -= 1
        if fleet.may_take(other.name, fresh):
            now = fleet.copy()
            if now.move(search.move(place, uid, other.name)):
                yield now, [search.move(place, uid, other.name)]
    closed |= {place.name}
    for other in others if most > 1 else ():
        for first in search.movable_on(other):
            if search.is_over():
                return
            search.tries -= 1
            if other.without(first).seat(fresh) is None:
                continue
            for now, moves in _settled(fleet, other, first, most - 1, search, closed):
                if now.move(search.move(place, uid, other.name)):
                    yield now, [*moves, search.move(place, uid, other.name)]


def _pruned(fleet: Places, found: _Found, pod: Pod) -> _Found:
    """The plan without the moves that it does not need, tried from the first one on."""
    number = 0
    while number < len(found[2]):
        fewer = [move for i, move in enumerate(found[2]) if i != number]
        shorter = _carried_out(fleet, fewer, found[1], pod)
        if shorter is None:
            number += 1
        else:
            found = shorter
    return found
