"""Which pod is next: by priority, then by the time it came; with back-off after a failure.

A pod is in one of three places: ready, backing off (it failed, but something has changed since), or
parked (no host takes it, and nothing has changed). Time comes in as an argument. Pods with
scheduling gates are not put in at all; that is for the caller, who knows when the gates are gone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

BACKOFF_SECONDS_FIRST: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 10.0
PARKED_SECONDS_MAX: Final = 300.0  # then a pod is tried again even if nothing was seen to change


def backoff_seconds(attempts: int) -> float:
    """How long a pod rests after so many failed attempts."""
    if attempts <= 0:
        return 0.0
    return min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_FIRST * (1 << min(attempts - 1, 10)))


@dataclass(slots=True)
class _Waiting:
    priority: int
    since: float
    attempts: int = 0
    ready_at: float = 0.0  # until then it backs off, also where events make it worth a try
    parked_at: float | None = None
    entry: int = 0  # only the newest entry of a pod in the heap counts


@dataclass(slots=True)
class Queue:
    """Pods that wait for a host, by uid. Owned and changed by one loop."""

    _pods: dict[str, _Waiting] = field(default_factory=dict)
    _heap: list[tuple[int, float, int, str]] = field(default_factory=list)
    _resting: list[tuple[float, int, str]] = field(default_factory=list)
    _entries: int = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def parked(self) -> int:
        """How many pods wait for a change."""
        return sum(1 for waiting in self._pods.values() if waiting.parked_at is not None)

    def add(self, uid: str, *, priority: int, now: float) -> None:
        """A pod that wants a host; one that is known keeps its place."""
        if uid in self._pods:
            self._pods[uid].priority = priority
            return
        waiting = self._pods[uid] = _Waiting(priority, now, ready_at=now)
        self._push(uid, waiting, now)

    def remove(self, uid: str) -> None:
        """A pod that is bound or gone."""
        self._pods.pop(uid, None)

    def changed(self, uid: str, now: float) -> None:
        """A pod was edited: it is tried at once, as a new one."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            waiting.attempts = 0
            waiting.parked_at = None
            waiting.ready_at = now
            self._push(uid, waiting, now)

    def pop(self, now: float) -> str | None:
        """The next pod to try; it stays known until it is removed, failed or parked."""
        while self._resting and self._resting[0][0] <= now:
            _, entry, uid = heapq.heappop(self._resting)
            waiting = self._pods.get(uid)
            if waiting is not None and waiting.entry == entry:
                waiting.parked_at = None
                self._push(uid, waiting, now)
        while self._heap:
            _, _, entry, uid = heapq.heappop(self._heap)
            waiting = self._pods.get(uid)
            if waiting is not None and waiting.entry == entry:
                return uid
        return None

    def take(self, uid: str) -> None:
        """A pod that is decided about out of turn: as if it had been popped."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            waiting.parked_at = None
            waiting.entry = self._next_entry()

    def park(self, uid: str, now: float) -> None:
        """No host takes it now: it waits for a change, and at the latest for five minutes."""
        waiting = self._failed(uid, now)
        if waiting is not None:
            waiting.parked_at = now
            self._rest(uid, waiting, now + PARKED_SECONDS_MAX)

    def back_off(self, uid: str, now: float) -> None:
        """An attempt went wrong (a bind was refused, say): once more after a rest."""
        waiting = self._failed(uid, now)
        if waiting is not None:
            waiting.parked_at = None
            self._rest(uid, waiting, waiting.ready_at)

    def wake(self, uids: Iterable[str] | None, now: float) -> int:
        """Something changed that may help these parked pods (None: all); how many there were."""
        names = list(self._pods) if uids is None else list(uids)
        count = 0
        for uid in names:
            waiting = self._pods.get(uid)
            if waiting is None or waiting.parked_at is None:
                continue
            count += 1
            waiting.parked_at = None
            if waiting.ready_at <= now:
                self._push(uid, waiting, now)
            else:
                self._rest(uid, waiting, waiting.ready_at)
        return count

    def next_at(self, now: float) -> float | None:
        """When the next pod may be tried; ``now`` if one is ready, None if nothing is to come."""
        while self._heap and not self._is_current(self._heap[0][3], self._heap[0][2]):
            heapq.heappop(self._heap)
        if self._heap:
            return now
        while self._resting and not self._is_current(self._resting[0][2], self._resting[0][1]):
            heapq.heappop(self._resting)
        return max(now, self._resting[0][0]) if self._resting else None

    def _is_current(self, uid: str, entry: int) -> bool:
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.entry == entry

    def _failed(self, uid: str, now: float) -> _Waiting | None:
        waiting = self._pods.get(uid)
        if waiting is None:
            return None
        waiting.attempts += 1
        waiting.ready_at = now + backoff_seconds(waiting.attempts)
        return waiting

    def _push(self, uid: str, waiting: _Waiting, now: float) -> None:
        assert waiting.ready_at <= now, "a pod that rests is not ready"
        waiting.entry = self._next_entry()
        heapq.heappush(self._heap, (-waiting.priority, waiting.since, waiting.entry, uid))

    def _rest(self, uid: str, waiting: _Waiting, until: float) -> None:
        waiting.entry = self._next_entry()
        heapq.heappush(self._resting, (until, waiting.entry, uid))

    def _next_entry(self) -> int:
        self._entries += 1
        return self._entries
