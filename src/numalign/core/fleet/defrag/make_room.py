"""The fewest moves that let a pod in.

Sets of victims are tried by size on every host: with n moves, a host must take the pod once some of
its pods are gone, and those must have new places, for which again moves may be needed. Up to
``EXACT_MOVES`` all sets are tried, so that what is found is the least, or that it is known that
there is no smaller plan. Beyond, victims are taken one by one, the smallest that help first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from numalign.core.fleet.defrag.places import Move, Place, Places
from numalign.core.pod import Pod

EXACT_MOVES: Final = 2
MOVES_MAX: Final = 12
TRIES_MAX: Final = 60_000  # questions to hosts, before an exact search gives up


@dataclass(slots=True)
class Search:
    """One search: who may move, and how many questions are left."""

    movable: Collection[str]  # uids
    names: dict[str, str]
    tries: int = TRIES_MAX

    def is_over(self) -> bool:
        return self.tries <= 0


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """How to let a pod in; ``target`` None: no way was found."""

    target: str | None
    moves: tuple[Move, ...] = ()
    lower_bound: int = 0  # no plan has fewer moves


def room_for(fleet: Places, pod: Pod, search: Search) -> tuple[Places, RoomPlan]:
    """The fewest moves that let a pod in, and the fleet after them with the pod in its place."""
    for count in range(EXACT_MOVES + 1):
        found = _within(fleet, pod, count, search, frozenset())
        if found is not None:
            return found[0], RoomPlan(found[1], tuple(found[2]), count)
        if search.is_over():
            return _greedy(fleet, pod, search, lower_bound=count)
    return _greedy(fleet, pod, search, lower_bound=EXACT_MOVES + 1)


_Found = tuple[Places, str, list[Move]]


def _within(
    fleet: Places, pod: Pod, count: int, search: Search, closed: frozenset[str]
) -> _Found | None:
    """A plan of at most so many moves that uses no closed host."""
    if count == 0:
        return _direct(fleet, pod, search, closed)
    for place in fleet.values():
        if place.name in closed:
            continue
        for victims in _victims(place, pod, count, search):
            found = _emptied(fleet, place, pod, victims, count, search, closed)
            if found is not None:
                return found
            if search.is_over():
                return None
    return None


def _direct(fleet: Places, pod: Pod, search: Search, closed: frozenset[str]) -> _Found | None:
    for place in fleet.values():
        if place.name not in closed:
            search.tries -= 1
            if place.seat(pod) is not None:
                after = fleet.copy()
                if after.put(place.name, pod):
                    return after, place.name, []
    return None


def _victims(place: Place, pod: Pod, count: int, search: Search) -> Iterator[tuple[str, ...]]:
    """The sets of movable pods without which the host takes the pod, the smaller sets first."""
    if not _could_ever(place, pod, search):
        return
    movable = [uid for uid in place.state.pods if uid in search.movable]
    for size in range(1, count + 1):
        for chosen in combinations(movable, size):
            if search.is_over():
                return
            search.tries -= 1
            if place.without(chosen).seat(pod) is not None:
                yield chosen


def _could_ever(place: Place, pod: Pod, search: Search) -> bool:
    """Whether the host takes the pod once all that may move is gone."""
    search.tries -= 1
    movable = [uid for uid in place.state.pods if uid in search.movable]
    return bool(movable) and place.without(movable).seat(pod) is not None


def _emptied(
    fleet: Places,
    place: Place,
    pod: Pod,
    victims: tuple[str, ...],
    count: int,
    search: Search,
    closed: frozenset[str],
) -> _Found | None:
    """The fleet with the victims elsewhere and the pod in their place."""
    now, moves = fleet.copy(), []
    left = count - len(victims)
    for uid in victims:
        victim = place.state.pods[uid]
        found: _Found | None = None
        for extra in range(left + 1):
            found = _within(now, _arriving(victim), extra, search, closed | {place.name})
            if found is not None:
                left -= extra
                break
        if found is None:
            return None
        now, target, more = found
        now.take(place.name, uid)
        moves += [*more, Move(uid, search.names.get(uid, uid), place.name, target)]
    if not now.put(place.name, pod):
        return None
    return now, place.name, moves


def _arriving(pod: Pod) -> Pod:
    return replace(pod, uid=f"{pod.uid}-moved")


def _greedy(
    fleet: Places, pod: Pod, search: Search, *, lower_bound: int
) -> tuple[Places, RoomPlan]:
    """The shortest plan of one host that takes its pods away one by one, until the pod fits."""
    best: _Found | None = None
    search.tries = TRIES_MAX
    for place in fleet.values():
        found = _drained(fleet, place, pod, search, MOVES_MAX if best is None else len(best[2]) - 1)
        if found is not None and (best is None or len(found[2]) < len(best[2])):
            best = found
    if best is None:
        return fleet, RoomPlan(None, (), lower_bound)
    return best[0], RoomPlan(best[1], tuple(best[2]), lower_bound)


def _drained(fleet: Places, place: Place, pod: Pod, search: Search, most: int) -> _Found | None:
    if most < 1 or not _could_ever(place, pod, search):
        return None
    now = fleet.copy()
    moves: list[Move] = []
    order = sorted(
        (uid for uid in place.state.pods if uid in search.movable),
        key=lambda uid: (-_size(place.state.pods[uid], place), uid),
    )
    for uid in order:
        if len(moves) == most or search.is_over():
            return None
        found = _direct(now, _arriving(place.state.pods[uid]), search, frozenset({place.name}))
        if found is None:
            continue
        now, target, _ = found
        now.take(place.name, uid)
        moves.append(Move(uid, search.names.get(uid, uid), place.name, target))
        if now[place.name].seat(pod) is not None and now.put(place.name, pod):
            return now, place.name, moves
    return None


def _size(pod: Pod, place: Place) -> int:
    return place.rooms.asked(pod, "cpu")
