"""What a host with a published placement may look like now.

A host publishes late. In between pods are bound to it, by us or by others, and pods go. The kubelet
has seen those changes or will see them, and not surely in our order: pods that arrive together are
admitted by age, and a pod may have ended before we hear of it. One order is sure: a pod that went
before another one was bound is gone when the kubelet decides about that one. So a ledger keeps
every state in which the host may be, and a pod is placed only where each of them takes it and none
of them then refuses a pod that is already on its way. Where there are too many to tell, the host
has to publish first.

A ledger is a value; each event gives the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final, Protocol

from numalign.core import host as hosts
from numalign.core.cluster.rebuild import Frame, Rebuilt
from numalign.core.decisions import Admitted
from numalign.core.host import HostState
from numalign.core.pod import Pod, Qos, Resources, qos_class
from numalign.core.situation import Verdict, verdict_on

STATES_MAX: Final = 8
CELLS_MAX: Final = 32  # of the table over how many pods of each shape have come, and who has gone
ENDS_TRIED_MAX: Final = 16
_COUNTS_MAX: Final = 1_024  # of the same table with the cells that no order leads to

Shape = tuple[object, ...]


def shape_of(pod: Pod) -> Shape:
    """The same for pods that every host decides about alike."""

    def amounts(found: Resources | None) -> tuple[tuple[str, int], ...] | None:
        if found is None:
            return None
        return tuple(sorted((name, q.nanos) for name, q in found.items()))

    containers = tuple(
        (c.is_init, c.is_restartable, amounts(c.requests), amounts(c.limits)) for c in pod.in_order
    )
    own = (amounts(pod.requests), amounts(pod.limits), amounts(pod.overhead))
    return (containers, own, pod.qos)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The states after some pods came and went in any order, and which may be refused."""

    states: tuple[HostState, ...]
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Went:
    """A pod that went, and the pods on their way then: it may have gone before or after them.

    ``pod`` only for one that was on its way itself: it may have come first, or never.
    """

    uid: str
    beside: frozenset[str] = frozenset()
    pod: Pod | None = None

    def among(self, pending: Iterable[str]) -> Went:
        """The same as far as it matters for these pods."""
        beside = self.beside.intersection(pending)
        if beside == self.beside:
            return self
        return Went(self.uid, beside, self.pod if beside else None)


@dataclass(frozen=True, slots=True)
class Ledger:
    """One host: what it published, and what has happened since."""

    frame: Frame
    base: HostState  # as published, less what was gone before everything else
    pending: tuple[Pod, ...] = ()  # came since, and not published yet
    gone: tuple[Went, ...] = ()  # went since, while some of those were on their way
    # Pods on their way before which others may have come and gone that we never heard of.
    doubtful: frozenset[str] = frozenset()
    outcomes: Outcomes | None = None  # None: too many to tell

    @property
    def states(self) -> tuple[HostState, ...]:
        """The states in which the host may be; none if there are too many to tell."""
        return () if self.outcomes is None else self.outcomes.states


def opened(
    rebuilt: Rebuilt,
    pending: Iterable[Pod],
    gone: Iterable[Went] = (),
    doubtful: Iterable[str] = (),
) -> Ledger:
    """The ledger of a host that has just published.

    Some pods are not in it yet, and some that are in it have gone since.
    """
    waiting = tuple(pending)
    base = rebuilt.state
    left: list[Went] = []
    for one in (one.among(pod.uid for pod in waiting) for one in gone):
        if one.beside and one.uid in base.pods:
            left.append(Went(one.uid, one.beside))
        elif one.beside and one.pod is not None:
            left.append(one)
        else:
            base = hosts.ended(base, one.uid)
    return _told(Ledger(rebuilt.frame, base, waiting, tuple(left), frozenset(doubtful)))


def doubted(ledger: Ledger) -> Ledger:
    """The ledger when changes may have been missed: what is on its way may be anywhere."""
    return _told(replace(ledger, doubtful=frozenset(pod.uid for pod in ledger.pending)))


def came(ledger: Ledger, pod: Pod) -> Ledger:
    """The ledger after one more pod was bound to the host."""
    after = replace(ledger, pending=(*ledger.pending, pod))
    before = ledger.outcomes
    if before is None:
        return after  # one more makes them no fewer
    if _is_placed(ledger.frame, pod) and not _is_alike(ledger.pending, pod):
        return _told(after)
    states: list[HostState] = []
    refused = set(before.refused)
    for state in before.states:
        then, verdict = _verdict(ledger.frame, state, pod)
        states.append(then)
        if not isinstance(verdict, Admitted):
            refused.add(pod.uid)
    return replace(after, outcomes=Outcomes(_distinct(states), frozenset(refused)))


def _is_alike(pending: Iterable[Pod], pod: Pod) -> bool:
    """Whether the order among these pods makes no difference: all have one shape."""
    shape = shape_of(pod)
    return all(shape_of(other) == shape for other in pending)


def known_as(ledger: Ledger, pod: Pod) -> Ledger:
    """The ledger once the content of a published pod is known."""
    base = replace(ledger.base, pods={**ledger.base.pods, pod.uid: pod})
    return _told(replace(ledger, base=base))


def went(ledger: Ledger, uid: str) -> tuple[Ledger, Went]:
    """The ledger after a pod was deleted or has ended, and what is to be remembered of that."""
    own = next((pod for pod in ledger.pending if pod.uid == uid), None)
    pending = tuple(pod for pod in ledger.pending if pod is not own)
    waiting = frozenset(pod.uid for pod in pending)
    gone = [one.among(waiting) for one in ledger.gone]
    base = ledger.base
    for one in gone:
        if not one.beside:
            base = hosts.ended(base, one.uid)
    event = Went(uid, waiting, own if waiting else None)
    if not waiting or (own is None and uid not in base.pods):
        base = hosts.ended(base, uid)
    else:
        gone.append(event)
    left = tuple(one for one in gone if one.beside)
    return _told(replace(ledger, base=base, pending=pending, gone=left)), event


def is_waiting_for(ledger: Ledger, pod: Pod) -> bool:
    """Whether another pod that the managers place is not published, and this one is such a pod."""
    frame = ledger.frame
    return _is_placed(frame, pod) and any(_is_placed(frame, other) for other in ledger.pending)


def is_steady(ledger: Ledger, pod: Pod) -> bool:
    """Whether the host would take the pod too if one of the others, or all, ended just before.

    More room may do harm only to a pod of several containers: the kubelet decides about one after
    the other, and the first may then go where the next has no place beside it.
    """
    if len(pod.in_order) == 1 or not ledger.states or not _is_placed(ledger.frame, pod):
        return True
    state = ledger.states[0]
    others = [other.uid for other in state.pods.values() if _is_placed(ledger.frame, other)]
    if len(others) > ENDS_TRIED_MAX:
        others = others[-ENDS_TRIED_MAX:]
    every = state
    for uid in others:
        every = hosts.ended(every, uid)
    ends = [every, *(hosts.ended(state, uid) for uid in others)] if others else []
    return all(isinstance(_verdict(ledger.frame, then, pod)[1], Admitted) for then in ends)


def without(ledger: Ledger, uids: Iterable[str]) -> Ledger:
    """The ledger if these pods were gone for sure: a what-if."""
    leaving = frozenset(uids)
    base = ledger.base
    for uid in leaving:
        base = hosts.ended(base, uid)
    pending = tuple(pod for pod in ledger.pending if pod.uid not in leaving)
    gone = [one.among(pod.uid for pod in pending) for one in ledger.gone]
    left = tuple(one for one in gone if one.beside)
    return _told(replace(ledger, base=base, pending=pending, gone=left))


def checked(ledger: Ledger, pod: Pod) -> tuple[Verdict | None, tuple[HostState, ...]]:
    """What the host would say to one more pod, and the states after it.

    A verdict other than an admission is one that it may give. None: that is not known before the
    host publishes, or another pod that is on its way would be refused instead.
    """
    before = ledger.outcomes
    if before is None:
        if _is_placed(ledger.frame, pod):
            return None, ()
        before = Outcomes((ledger.base,))  # whatever the others hold, it does not matter
    after: list[HostState] = []
    verdict: Verdict | None = None
    for state in before.states:
        then, verdict = _verdict(ledger.frame, state, pod)
        if not isinstance(verdict, Admitted):
            return verdict, ()
        after.append(then)
    if not _is_placed(ledger.frame, pod) or _is_alike(ledger.pending, pod):
        return verdict, tuple(after)
    outcomes = _outcomes(ledger.frame, ledger.base, (*ledger.pending, pod), ledger.gone)
    if outcomes is None or not outcomes.refused <= before.refused:
        return None, ()
    return verdict, outcomes.states


def _verdict(frame: Frame, state: HostState, pod: Pod) -> tuple[HostState, Verdict]:
    return verdict_on(frame.host, state, frame.totals, pod)


def _told(ledger: Ledger) -> Ledger:
    frame = ledger.frame
    if any(pod.uid in ledger.doubtful and _is_placed(frame, pod) for pod in ledger.pending):
        return replace(ledger, outcomes=None)
    outcomes = _outcomes(ledger.frame, ledger.base, ledger.pending, ledger.gone)
    return replace(ledger, outcomes=outcomes)


# All orders.

_Counts = tuple[int, ...]  # how much of each row has happened
_Then = tuple[HostState, str | None]  # a state, and who was refused on the way to it


class _Row(Protocol):
    """Things that happen on the host one after the other; how many of them is all that matters."""

    @property
    def size(self) -> int: ...

    def is_possible(self, counts: _Counts) -> bool:
        """Whether the next thing may happen when so much of the other rows has."""

    def steps(self, count: int) -> Iterable[int]:
        """After how many things this many may be reached at once."""

    def after(self, state: HostState, count: int) -> _Then:
        """The state once so many things have happened, from the one before."""


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """Pods of one shape, which are alike, after all pods that were gone before they were bound."""

    frame: Frame
    pods: Sequence[Pod]
    waits_for: frozenset[int]  # rows with one pod each that must be gone
    rows: Sequence[_Row]

    @property
    def size(self) -> int:
        return len(self.pods)

    def is_possible(self, counts: _Counts) -> bool:
        return all(counts[row] == self.rows[row].size for row in self.waits_for)

    def steps(self, count: int) -> Iterable[int]:
        return (count - 1,)

    def after(self, state: HostState, count: int) -> _Then:
        pod = self.pods[count - 1]
        then, verdict = _verdict(self.frame, state, pod)
        return then, None if isinstance(verdict, Admitted) else pod.uid


@dataclass(frozen=True, slots=True)
class _Departure:
    """One pod that goes; before that it may have to come, if the host ever sees it."""

    frame: Frame
    went: Went

    @property
    def size(self) -> int:
        return 1 if self.went.pod is None else 2

    def is_possible(self, counts: _Counts) -> bool:
        del counts
        return True

    def steps(self, count: int) -> Iterable[int]:
        return range(count)  # one that the host never saw has gone without having come

    def after(self, state: HostState, count: int) -> _Then:
        if count == self.size:
            return hosts.ended(state, self.went.uid), None
        assert self.went.pod is not None, "only a pod that was on its way comes first"
        # If it is refused nobody is hurt: it is gone already.
        return _verdict(self.frame, state, self.went.pod)[0], None


def _outcomes(
    frame: Frame, base: HostState, pods: Sequence[Pod], gone: Sequence[Went]
) -> Outcomes | None:
    """All states after these pods came and went in any order; None if there are too many."""
    start = base
    placed: list[Pod] = []
    for pod in pods:  # those that change no manager's mind come first: their order is all the same
        if _is_placed(frame, pod):
            placed.append(pod)
        else:
            start = _noted(frame, start, pod)
    rows = _rows(frame, placed, gone)
    if prod(row.size + 1 for row in rows) > _COUNTS_MAX:
        return None
    refused: set[str] = set()
    cells: dict[_Counts, tuple[HostState, ...]] = {(0,) * len(rows): (start,)}
    for counts in _counts(rows):
        found: list[HostState] = []
        for number, row in enumerate(rows):
            for count in row.steps(counts[number]) if counts[number] else ():
                before = (*counts[:number], count, *counts[number + 1 :])
                if not row.is_possible(before):
                    continue
                for state in cells.get(before, ()):
                    then, uid = row.after(state, counts[number])
                    found.append(then)
                    if uid is not None:
                        refused.add(uid)
        if found:
            cells[counts] = _distinct(found)
            if len(cells[counts]) > STATES_MAX or len(cells) > CELLS_MAX + 1:
                return None
    return Outcomes(cells[tuple(row.size for row in rows)], frozenset(refused))


def _rows(frame: Frame, placed: Sequence[Pod], gone: Sequence[Went]) -> list[_Row]:
    rows: list[_Row] = [_Departure(frame, one) for one in gone]
    alike: dict[tuple[Shape, Qos, frozenset[int]], list[Pod]] = {}
    for pod in placed:
        waits = frozenset(i for i, one in enumerate(gone) if pod.uid not in one.beside)
        key = (shape_of(pod), qos_class(pod, frame.host.settings), waits)
        alike.setdefault(key, []).append(pod)
    departures = tuple(rows)
    rows += [_Arrivals(frame, pods, key[2], departures) for key, pods in alike.items()]
    return rows


def _counts(rows: Sequence[_Row]) -> Iterator[_Counts]:
    """Every cell but the first, each after those that it is reached from."""
    every = product(*(range(row.size + 1) for row in rows))
    next(every)
    return every


def _is_placed(frame: Frame, pod: Pod) -> bool:
    """Whether the managers may give the pod anything."""
    if qos_class(pod, frame.host.settings) is Qos.GUARANTEED or pod.has_pod_level_resources:
        return True
    devices = frame.empty.devices
    return any(devices.is_device(name) for c in pod.in_order for name in c.limits)


def _noted(frame: Frame, state: HostState, pod: Pod) -> HostState:
    after, verdict = _verdict(frame, state, pod)
    return after if isinstance(verdict, Admitted) else state


def _distinct(states: Iterable[HostState]) -> tuple[HostState, ...]:
    found: list[HostState] = []
    for state in states:
        if not any(_is_same(state, other) for other in found):
            found.append(state)
    return tuple(found)


def _is_same(one: HostState, other: HostState) -> bool:
    return (
        one.cpu.shared == other.cpu.shared
        and one.cpu.entries == other.cpu.entries
        and one.pods.keys() == other.pods.keys()
        and one.memory.machine == other.memory.machine
        and one.memory.entries == other.memory.entries
        and one.devices.in_use == other.devices.in_use
        and one.devices.entries.keys() == other.devices.entries.keys()
        and one.gone == other.gone
    )
