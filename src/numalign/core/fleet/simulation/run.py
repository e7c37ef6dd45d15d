"""One run: the events of a fleet in the order of time. Every host decides with its managers.

Work arrives; the scheduler chooses a host; its kubelet admits or refuses; a refused pod is made
anew by its controller. A pod that no host takes waits until something leaves. Nothing here depends
on wall time or hash order: the same seed gives the same run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import numpy as np

from numalign.core.fleet.board import UNFIT, Board, Scores, first_best
from numalign.core.fleet.simulation.model import (
    Controllers,
    Job,
    Recreate,
    RunResult,
    SimHost,
)
from numalign.core.fleet.simulation.observing import Observer, mean_distance
from numalign.core.fleet.simulation.schedulers import Scheduler, record_of
from numalign.core.kubelet import host as kubelet
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.decisions import Admitted

RECREATE_SECONDS: Final = 1.0  # a controller sees the failed pod and makes another
BACK_OFF_SECONDS: Final = 10.0
BACK_OFF_SECONDS_MAX: Final = 300.0

Chance = Callable[[int], int]  # a number below the bound
Progress = Callable[[float], bool]  # gets the share that is done; True: stop now


class _Kind(IntEnum):
    """What happens first among things of the same moment."""

    END = 0
    PUBLISH = 1
    ARRIVE = 2
    RETRY = 3


class _State(IntEnum):
    ABSENT = 0
    WAITING = 1  # no host takes it
    BACKING_OFF = 2
    RUNNING = 3
    FINISHED = 4
    GIVEN_UP = 5


@dataclass(slots=True)
class Work:
    """One job on its way."""

    job: Job
    state: _State = _State.ABSENT
    refused: int = 0
    host: int = -1
    since: float = 0.0  # when it began to run

    @property
    def uid(self) -> str:
        """The name of its present pod: each attempt is a pod of its own."""
        return f"{self.job.name}-{self.refused}" if self.refused else self.job.name


@dataclass(slots=True)
class _Owner:
    """The pods of one controller: where they are, and which hosts refused them."""

    per_host: dict[int, int] = field(default_factory=dict)
    avoided: dict[int, None] = field(default_factory=dict)


class Simulation:
    """One run in progress."""

    def __init__(
        self,
        hosts: Sequence[SimHost],
        jobs: Sequence[Job],
        scheduler: Scheduler,
        controllers: Controllers,
        observer: Observer,
        chance: Chance,
    ) -> None:
        self.hosts = hosts
        self._scheduler = scheduler
        self._controllers = controllers
        self._observer = observer
        self._chance = chance
        self._board = Board(hosts)
        self.works = [Work(job) for job in jobs]
        self._events: list[tuple[float, int, int, int]] = []
        self._sequence = 0
        self._owners: dict[str, _Owner] = {}
        # Jobs that no host takes, by what they ask for; each group in the order of arrival.
        self._waiting: dict[tuple[int, str], list[int]] = {}
        self._unpublished: set[int] = set()
        self.now = 0.0
        self._arrived = 0
        self.there_before = sum(len(host.state.pods) for host in hosts)  # they stay
        self.result = RunResult("", scheduler.name, 0, jobs=len(jobs))
        for number, job in enumerate(jobs):
            self._push(job.at, _Kind.ARRIVE, number)

    def run(self, until: float = math.inf, progress: Progress | None = None) -> RunResult:
        """The whole run, or as far as a moment; its result."""
        self.advance(until, progress)
        self._observer.finish(self)
        return self.result

    def advance(self, until: float, progress: Progress | None = None) -> None:
        """Lets everything happen that happens until a moment."""
        while self._events and self._events[0][0] <= until:
            at, kind, _, number = heapq.heappop(self._events)
            self._observer.look(self, at)
            self.now = at
            match _Kind(kind):
                case _Kind.ARRIVE:
                    self._arrived += 1
                    self._try(number)
                    share = self._arrived / len(self.works)
                    if not self._arrived % 64 and progress and progress(share):
                        # Work that has not come yet counts for nothing.
                        self.result.is_complete = False
                        self.result.jobs = self._arrived
                        break
                case _Kind.RETRY:
                    if self.works[number].state is _State.BACKING_OFF:
                        self._try(number)
                case _Kind.END:
                    self._end(number)
                case _Kind.PUBLISH:
                    self._publish(number)
        self._count()

    def _push(self, at: float, kind: _Kind, number: int) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (at, int(kind), self._sequence, number))

    # Placing.

    def _try(self, number: int) -> None:
        work = self.works[number]
        chosen = self._choose(work.job)
        if chosen is None:
            work.state = _State.WAITING
            self._waiting.setdefault(self._key(work.job), []).append(number)
            return
        self._bind(number, chosen)

    def _key(self, job: Job) -> tuple[int, str]:
        has_rules = job.per_host_max or self._controllers.redeploy
        return id(job.pod), job.owner if has_rules else ""

    def _scores(self, job: Job) -> Scores:
        pod, score = job.pod, self._scheduler.score
        return self._board.scores(id(pod), lambda host: score(host, pod))

    def _choose(self, job: Job) -> int | None:
        scores = self._scores(job)
        closed = self._closed(job)
        if closed:
            scores = scores.copy()
            scores[closed] = UNFIT
        best = first_best(scores)
        if best is None or not self._scheduler.is_random_among_equals:
            return best
        equal = np.flatnonzero(scores == scores[best])
        return int(equal[self._chance(len(equal))])

    def _closed(self, job: Job) -> list[int]:
        """Hosts that a job must not go to, whatever room they have."""
        owner = self._owners.get(job.owner)
        if owner is None:
            return []
        full = job.per_host_max
        found = [h for h, count in owner.per_host.items() if full and count >= full]
        return [*found, *owner.avoided] if self._controllers.redeploy else found

    def _bind(self, number: int, chosen: int) -> None:
        work, host = self.works[number], self.hosts[chosen]
        job, result = work.job, self.result
        result.attempts += 1
        uid = work.uid
        pod = replace(job.pod, uid=uid, name=uid)
        after, verdict = verdict_on(host.frame.host, host.state, host.frame.totals, pod)
        host.state = kubelet.cleaned(host.frame.host, after)
        refused = refusal(verdict)
        if refused is not None:
            self._refused(number, chosen, refused[0])
            return
        assert isinstance(verdict, Admitted), "a pod is admitted or refused"
        self._changed(host)
        work.state, work.host, work.since = _State.RUNNING, chosen, self.now
        owner = self._owners.setdefault(job.owner, _Owner())
        owner.per_host[chosen] = owner.per_host.get(chosen, 0) + 1
        hints = [placement.hint for placement in verdict.placements]
        result.placed += 1
        result.aligned += all(hint.preferred or hint.nodes is None for hint in hints)
        result.distance_sum += mean_distance(host, verdict)
        result.waits.append(self.now - job.at)
        if job.seconds is not None:
            self._push(self.now + job.seconds, _Kind.END, number)

    def _changed(self, host: SimHost) -> None:
        host.room = host.rooms.room(host.state)
        self._board.changed(host.index)
        self._observer.changed(host.index)
        stale = self._scheduler.staleness_seconds
        if stale is not None and host.index not in self._unpublished:
            self._unpublished.add(host.index)
            self._push(self.now + stale, _Kind.PUBLISH, host.index)

    def _publish(self, index: int) -> None:
        host = self.hosts[index]
        self._unpublished.discard(index)
        host.record = record_of(host.name, host)
        self._board.changed(index)
        self._wake(index)

    # What goes wrong, and what ends.

    def _refused(self, number: int, chosen: int, reason: str) -> None:
        work, result = self.works[number], self.result
        result.refusals[reason] = result.refusals.get(reason, 0) + 1
        work.refused += 1
        result.refused_jobs += work.refused == 1
        result.refused_again += work.refused == 2
        controllers = self._controllers
        if controllers.redeploy:
            owner = self._owners.setdefault(work.job.owner, _Owner())
            owner.avoided[chosen] = None
        if controllers.recreate is Recreate.NEVER or work.refused >= controllers.attempts_max:
            work.state = _State.GIVEN_UP
            return
        work.state = _State.BACKING_OFF
        wait = RECREATE_SECONDS
        if controllers.redeploy or controllers.recreate is Recreate.BACK_OFF:
            doubled = BACK_OFF_SECONDS * 2.0 ** min(work.refused - 1, 16)
            wait = min(BACK_OFF_SECONDS_MAX, doubled)
        self._push(self.now + wait, _Kind.RETRY, number)

    def _end(self, number: int) -> None:
        work = self.works[number]
        host = self.hosts[work.host]
        job = work.job
        uid = work.uid
        assert uid in host.state.pods, f"{uid} ends on {host.name}, where it is not"
        host.state = kubelet.cleaned(host.frame.host, kubelet.ended(host.state, uid))
        work.state = _State.FINISHED
        owner = self._owners[job.owner]
        owner.per_host[work.host] -= 1
        if not owner.per_host[work.host]:
            del owner.per_host[work.host]
        # Something left a host that refused us: that is new information.
        for one in self._owners.values() if self._controllers.redeploy else ():
            one.avoided.pop(work.host, None)
        self._changed(host)
        self._wake(host.index)

    def _wake(self, index: int) -> None:
        """Places those who wait and whom a changed host would take, the oldest first."""
        while True:
            ready = [
                (numbers[0], key)
                for key, numbers in self._waiting.items()
                if self._takes(index, self.works[numbers[0]].job)
            ]
            if not ready:
                return
            _, key = min(ready)
            numbers = self._waiting[key]
            number = numbers[0]
            chosen = self._choose(self.works[number].job)
            if chosen is None:
                return
            numbers.pop(0)
            if not numbers:
                del self._waiting[key]
            self._bind(number, chosen)

    def _takes(self, index: int, job: Job) -> bool:
        if self._closed(job).count(index):
            return False
        return self._scheduler.score(self.hosts[index], job.pod) > UNFIT

    # The end.

    @property
    def waiting(self) -> int:
        return sum(len(numbers) for numbers in self._waiting.values())

    def _count(self) -> None:
        result = self.result
        counts = [0] * len(_State)
        for work in self.works:
            counts[work.state] += 1
        result.running = counts[_State.RUNNING]
        result.finished = counts[_State.FINISHED]
        result.given_up = counts[_State.GIVEN_UP]
        result.waiting = counts[_State.WAITING] + counts[_State.BACKING_OFF]
        result.ended_at = self.now


def conservation_problems(run: Simulation) -> Iterable[str]:
    """What must hold at every moment: each job in one state, no host over its machine."""
    result = run.result
    states = result.running + result.finished + result.given_up + result.waiting
    if states != result.jobs:
        yield f"{result.jobs} jobs, but {states} in a state"
    on_hosts = sum(len(host.state.pods) for host in run.hosts) - run.there_before
    if on_hosts != result.running:
        yield f"{result.running} run, but the hosts have {on_hosts}"
    for host in run.hosts:
        for name, left in host.room.total.items():
            if left < 0:
                yield f"{host.name} gives away {-left} of {name} that it does not have"
