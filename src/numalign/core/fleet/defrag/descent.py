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
from numalign.core.fleet.defrag.places import Move, Place, Places
from numalign.core.fleet.measures import Mix
from numalign.core.pod import Pod

GAIN_MIN: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Descent:
    moves: tuple[Move, ...]
    before: float  # F_numa of the fleet, in CPUs
    after: float


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
        name = names.get(uid.removesuffix("-moved"), uid)
        if not state.carry_out(Move(uid, name, origin, target)):
            break  # the managers know better than the amounts: nothing more is promised
        moves.append(Move(uid, name, origin, target))
    return Descent(tuple(moves), before, state.total())


class _State:
    """The fleet in thought, with what each move would bring."""

    def __init__(self, fleet: Places, movable: Collection[str], mix: Mix) -> None:
        self.fleet = fleet
        self._movable = movable
        self._mix = mix
        self._weight = measures.weight_of(mix, "cpu")
        self._amounts: dict[str, float] = {}
        self._gains: dict[str, dict[str, float]] = {}  # host -> pod -> what its leaving gains
        self._costs: dict[tuple[object, ...], dict[str, float]] = {}  # class -> host -> cost
        self._pods: dict[tuple[object, ...], Pod] = {}
        self._classes: dict[str, tuple[object, ...]] = {}
        for place in fleet.values():
            self._look(place)

    def total(self) -> float:
        return sum(self._amounts.values())

    def _amount(self, place: Place) -> float:
        bad = measures.useless(place.rooms, place.state, place.room, self._mix, "cpu")
        return bad / self._weight

    def _look(self, place: Place) -> None:
        """Works out anew what concerns one host."""
        amount = self._amounts[place.name] = self._amount(place)
        gains: dict[str, float] = {}
        for uid, pod in place.state.pods.items():
            if uid in self._movable:
                gains[uid] = amount - self._amount(place.without([uid]))
                if uid not in self._classes:
                    kind = self._classes[uid] = class_of(pod)
                    self._pods.setdefault(kind, pod)
        self._gains[place.name] = gains
        for kind, costs in self._costs.items():
            self._cost(kind, place, costs)

    def _cost(self, kind: tuple[object, ...], place: Place, costs: dict[str, float]) -> None:
        seat = place.seat(self._pods[kind])
        costs.pop(place.name, None)
        if seat is not None:
            after = replace(place, state=seat.state or place.state, room=seat.after)
            costs[place.name] = self._amount(after) - self._amounts[place.name]

    def _costs_of(self, kind: tuple[object, ...]) -> dict[str, float]:
        if kind not in self._costs:
            costs = self._costs[kind] = {}
            for place in self.fleet.values():
                self._cost(kind, place, costs)
        return self._costs[kind]

    def best(self) -> tuple[str, str, str] | None:
        """The pod whose move lowers F_numa most, with its hosts; None if none does."""
        found: tuple[float, str, str, str] | None = None
        cheapest: dict[tuple[object, ...], list[tuple[float, str]]] = {}
        for origin, gains in self._gains.items():
            for uid, gain in gains.items():
                kind = self._classes[uid]
                if kind not in cheapest:
                    costs = self._costs_of(kind)
                    cheapest[kind] = sorted((cost, name) for name, cost in costs.items())[:2]
                target = next((c for c in cheapest[kind] if c[1] != origin), None)
                if target is None:
                    continue
                net = gain - target[0]
                if net > GAIN_MIN and (found is None or net > found[0] + GAIN_MIN):
                    found = (net, uid, origin, target[1])
        return None if found is None else found[1:]

    def carry_out(self, move: Move) -> bool:
        if not self.fleet.move(move):
            return False
        arrived = f"{move.pod}-moved"
        self._classes[arrived] = self._classes[move.pod]
        for name in (move.origin, move.target):
            self._look(self.fleet[name])
        return True
