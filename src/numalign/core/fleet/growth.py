"""How much F_numa grows on a host when a pod comes: the scoring ``fragmentation``.

Each resource counts by what a NUMA node has of it, so that a GPU that becomes useless weighs as
much as the CPUs beside it. Scores are whole numbers on purpose: hosts that are nearly equal must be
equal, so that the first of them fills up before the next one is begun.
"""

from __future__ import annotations

import math
from typing import Final

from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.fleet import measures
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Room, Rooms
from numalign.core.kubelet.host import HostState

SCORE_MAX: Final = 100
# One point of the score is about a hundredth of a NUMA node that becomes useless.
GRADIENT: Final = 4.0
_FRAMES_MAX: Final = 512


class Growth:
    """The scoring for one reference mix."""

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        names = sorted({name for one in mix for c in one.pod.containers for name in c.limits})
        self._counted = [name for name in names if name == "cpu" or "/" in name]
        self._weights = [measures.weight_of(mix, name) for name in self._counted]
        self._rooms: dict[int, Rooms] = {}

    def amount(self, rooms: Rooms, state: HostState, room: Room) -> float:
        """F_numa of a host, in NUMA nodes."""
        bad = measures.useless_of_each(rooms, state, room, self._mix, self._counted)
        whole = rooms.node_capacity
        found = 0.0
        for name, weight, part in zip(self._counted, self._weights, bad, strict=True):
            if part:
                found += part / weight / whole[name]
        return found

    def score(self, before: float, after: float) -> int:
        """0 to 100, 50 where F_numa stays as it is."""
        return int(SCORE_MAX / (1 + math.exp((after - before) * GRADIENT)))

    def of_states(self, frame: Frame, before: HostState, after: HostState) -> int:
        """The score of a host that goes from one state to another."""
        rooms = self._rooms.get(id(frame))
        if rooms is None or rooms.frame is not frame:
            if len(self._rooms) >= _FRAMES_MAX:
                self._rooms.clear()
            rooms = self._rooms[id(frame)] = Rooms(frame)
        first, then = (self.amount(rooms, s, rooms.room(s)) for s in (before, after))
        return self.score(first, then)
