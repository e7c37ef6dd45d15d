"""The moves that lower F_numa most, one after the other: always the best next one.

What a pod's leaving gains on its host and what its coming costs on another one are kept by host, so
that after a move only the two hosts that it touched are asked again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from numalign.core.cluster.scheduling.interleavings import class_of
from numalign.core.fleet import measures
from numalign.core.fleet.defrag.allowed import arrived, original
from numalign.core.fleet.defrag.places import Move, Place, Places
from numalign.core.fleet.measures import Mix
from numalign.core.pod import Pod

GAIN_MIN: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Descent:
    moves: tuple[Move, ...]
    before: float  # F_numa of the fleet, in CPUs
    after: float
    least: float  # below which no plan of so many moves gets


def lowered(
    fleet: Places, movable: Collection[str], names: dict[str, str], mix: Mix, moves_max: int
) -> Descent:
    """At most so many moves, each the one that lowers F_numa most when its turn comes."""
    state = _State(fleet.copy(), movable, mix)
    before = state.total()
    moves: list[Move] = []
    while len(moves) < moves_max:
        found = state.best()
        if found is None:
            break
        uid, origin, target = found
        name = names.get(original(uid), uid)
        move = Move(uid, name, origin, target)
        if state.carry_out(move):
            moves.append(move)
        else:  # the managers know better than the amounts, or a rule between pods is in the way
            state.refused.add((uid, target))
    return Descent(tuple(moves), before, state.total(), state.least(before, moves_max))


_Kind = tuple[object, ...]


class _State:
    """The fleet in thought, with what each move would bring."""

    def __init__(self, fleet: Places, movable: Collection[str], mix: Mix) -> None:
        self.fleet = fleet
        self.refused: set[tuple[str, str]] = set()  # moves that cannot be carried out
        self._movable = movable
        self._mix = mix
        self._weight = measures.weight_of(mix, "cpu")
        self._amounts: dict[str, float] = {}
        self._gains: dict[str, dict[str, float]] = {}  # host -> pod -> what its leaving gains
        self._costs: dict[_Kind, dict[str, float]] = {}  # class -> host -> what its coming costs
        self._pods: dict[_Kind, Pod] = {}
        self._kinds: dict[str, _Kind] = {}
        for place in fleet.values():
            self._look(place)
        self._first_amounts = dict(self._amounts)

    def total(self) -> float:
        return sum(self._amounts.values())

    def least(self, before: float, moves_max: int) -> float:
        """A bound: so many moves touch twice as many hosts at most, and none gets below zero."""
        worst = sorted(self._first_amounts.values(), reverse=True)
        return before - sum(worst[: 2 * moves_max])

    def _amount(self, place: Place) -> float:
        bad = measures.useless(place.rooms, place.state, place.room, self._mix, "cpu")
        return bad / self._weight

    def _look(self, place: Place) -> None:
        """Works out anew what concerns one host."""
        amount = self._amounts[place.name] = self._amount(place)
        gains: dict[str, float] = {}
        for uid, pod in place.state.pods.items():
            if uid in self._movable:
                gains[uid] = amount - self._amount(place.without(uid))
                if uid not in self._kinds:
                    kind = self._kinds[uid] = (class_of(pod), self.fleet.allowed.rules_of(uid))
                    self._pods.setdefault(kind, replace(pod, uid=arrived(uid)))
        self._gains[place.name] = gains
        for asked, costs in self._costs.items():
            self._cost(asked, place, costs)

    def _cost(self, kind: _Kind, place: Place, costs: dict[str, float]) -> None:
        pod = self._pods[kind]
        costs.pop(place.name, None)
        seat = place.seat(pod) if self.fleet.allowed.ever(pod.uid, place.name) else None
        if seat is not None:
            after = replace(place, state=seat.state or place.state, room=seat.after)
            costs[place.name] = self._amount(after) - self._amounts[place.name]

    def _costs_of(self, kind: _Kind) -> dict[str, float]:
        if kind not in self._costs:
            costs = self._costs[kind] = {}
            for place in self.fleet.values():
                self._cost(kind, place, costs)
        return self._costs[kind]

    def best(self) -> tuple[str, str, str] | None:
        """The pod whose move lowers F_numa most, with its hosts; None if none does."""
        found: tuple[float, str, str, str] | None = None
        cheapest: dict[_Kind, list[tuple[float, str]]] = {}
        for origin, gains in self._gains.items():
            for uid, gain in gains.items():
                kind = self._kinds[uid]
                if kind not in cheapest:
                    costs = ((cost, name) for name, cost in self._costs_of(kind).items())
                    cheapest[kind] = sorted(costs)[: 2 + len(self.refused)]
                target = next(
                    (
                        (cost, name)
                        for cost, name in cheapest[kind]
                        if name != origin and (uid, name) not in self.refused
                    ),
                    None,
                )
                if target is None:
                    continue
                net = gain - target[0]
                if net > GAIN_MIN and (found is None or net > found[0] + GAIN_MIN):
                    found = (net, uid, origin, target[1])
        return None if found is None else found[1:]

    def carry_out(self, move: Move) -> bool:
        if not self.fleet.move(move):
            return False
        for name in (move.origin, move.target):
            self._look(self.fleet[name])
        return True
