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

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from numalign.core.cluster.scheduling import interleavings
from numalign.core.cluster.scheduling.interleavings import Departure, Table, class_of, is_placed
from numalign.core.cluster.scheduling.rebuild import Frame, Rebuilt
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.verdict import Verdict
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod

ENDS_TRIED_MAX: Final = 16
ROWS_MANY: Final = 2  # of a table: with one more there are six orders, and soon too many


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The states after some pods came and went in any order, and which may be refused."""

    states: tuple[HostState, ...]
    refused: frozenset[str] = frozenset()
    table: Table | None = None  # where they come from, if nothing else has happened since


@dataclass(frozen=True, slots=True)
class Ledger:
    """One host: what it published, and what has happened since."""

    frame: Frame
    base: HostState  # as published, less what was gone before everything else
    pending: tuple[Pod, ...] = ()  # came since, and not published yet
    gone: tuple[Departure, ...] = ()  # went since, while some of those were on their way
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
    gone: Iterable[Departure] = (),
    doubtful: Iterable[str] = (),
) -> Ledger:
    """The ledger of a host that has just published.

    Some pods are not in it yet, and some that are in it have gone since.
    """
    waiting = tuple(pending)
    base = rebuilt.state
    left: list[Departure] = []
    for one in (one.among(pod.uid for pod in waiting) for one in gone):
        if one.beside and one.uid in base.pods:
            left.append(Departure(one.uid, one.beside))
        elif one.beside and one.pod is not None:
            left.append(one)
        else:
            base = hosts.ended(base, one.uid)
    return _told(Ledger(rebuilt.frame, base, waiting, tuple(left), frozenset(doubtful)))


def doubted(ledger: Ledger, uids: Iterable[str]) -> Ledger:
    """The ledger when changes may have been missed: these pods on their way may be anywhere."""
    return _told(replace(ledger, doubtful=frozenset(uids)))


def came(ledger: Ledger, pod: Pod) -> Ledger:
    """The ledger after one more pod was bound to the host."""
    after = replace(ledger, pending=(*ledger.pending, pod))
    before = ledger.outcomes
    if before is None:
        return after  # one more makes them no fewer
    if is_placed(ledger.frame, pod):
        if before.table is not None:
            return replace(after, outcomes=_one_more(ledger.frame, before.table, pod))
        if not _is_alike(ledger.pending, pod):
            return _told(after)
    states: list[HostState] = []
    refused = set(before.refused)
    for state in before.states:
        then, verdict = interleavings.verdict(ledger.frame, state, pod)
        states.append(then)
        if not isinstance(verdict, Admitted):
            refused.add(pod.uid)
    return replace(after, outcomes=Outcomes(interleavings.distinct(states), frozenset(refused)))


def _is_alike(pending: Iterable[Pod], pod: Pod) -> bool:
    """Whether the order among these pods makes no difference: all are of one class."""
    pod_class = class_of(pod)
    return all(class_of(other) == pod_class for other in pending)


def known_as(ledger: Ledger, pod: Pod) -> Ledger:
    """The ledger once the content of a published pod is known."""
    base = replace(ledger.base, pods={**ledger.base.pods, pod.uid: pod})
    return _told(replace(ledger, base=base))


def went(ledger: Ledger, uid: str) -> tuple[Ledger, Departure]:
    """The ledger after a pod was deleted or has ended, and what is to be remembered of that."""
    own = next((pod for pod in ledger.pending if pod.uid == uid), None)
    pending = tuple(pod for pod in ledger.pending if pod is not own)
    waiting = frozenset(pod.uid for pod in pending)
    base, gone = _settled(ledger, waiting)
    event = Departure(uid, waiting, own if waiting else None)
    if not waiting or (own is None and uid not in base.pods):
        base = hosts.ended(base, uid)
    else:
        gone = (*gone, event)
    return _told(replace(ledger, base=base, pending=pending, gone=gone)), event


def _settled(ledger: Ledger, waiting: Collection[str]) -> tuple[HostState, tuple[Departure, ...]]:
    """The base and who has gone, when only these pods are still on their way.

    One that went beside none of them is gone before everything else.
    """
    base = ledger.base
    gone = [one.among(waiting) for one in ledger.gone]
    for one in gone:
        if not one.beside:
            base = hosts.ended(base, one.uid)
    return base, tuple(one for one in gone if one.beside)


def is_waiting_for(ledger: Ledger, pod: Pod) -> bool:
    """Whether another pod that the managers place is not published, and this one is such a pod."""
    frame = ledger.frame
    return is_placed(frame, pod) and any(is_placed(frame, other) for other in ledger.pending)


def must_publish_soon(ledger: Ledger) -> bool:
    """Whether so much is pending that another pod is costly to decide about, if it is at all."""
    outcomes = ledger.outcomes
    if outcomes is None:
        return True
    return outcomes.table is not None and len(outcomes.table.rows) >= ROWS_MANY


def survives_exits(ledger: Ledger, pod: Pod) -> bool:
    """Whether the host would take the pod too if one of the others, or all, ended just before.

    More room may do harm only to a pod of several containers: the kubelet decides about one after
    the other, and the first may then go where the next has no place beside it.
    """
    if len(pod.in_order) == 1 or not ledger.states or not is_placed(ledger.frame, pod):
        return True
    state = ledger.states[0]
    others = [other.uid for other in state.pods.values() if is_placed(ledger.frame, other)]
    if len(others) > ENDS_TRIED_MAX:
        others = others[-ENDS_TRIED_MAX:]
    every = state
    for uid in others:
        every = hosts.ended(every, uid)
    ends = [every, *(hosts.ended(state, uid) for uid in others)] if others else []
    return all(
        isinstance(interleavings.verdict(ledger.frame, then, pod)[1], Admitted) for then in ends
    )


def without(ledger: Ledger, uids: Iterable[str]) -> Ledger:
    """The ledger if these pods were gone for sure: a what-if."""
    leaving = frozenset(uids)
    pending = tuple(pod for pod in ledger.pending if pod.uid not in leaving)
    base, gone = _settled(ledger, [pod.uid for pod in pending])
    for uid in leaving:
        base = hosts.ended(base, uid)
    return _told(replace(ledger, base=base, pending=pending, gone=gone))


def checked(ledger: Ledger, pod: Pod) -> tuple[Verdict | None, tuple[HostState, ...]]:
    """What the host would say to one more pod, and the states after it.

    A verdict other than an admission is one that it may give. None: that is not known before the
    host publishes, or another pod that is on its way would be refused instead.
    """
    before = ledger.outcomes
    if before is None:
        if is_placed(ledger.frame, pod):
            return None, ()
        before = Outcomes((ledger.base,))  # whatever the others hold, it does not matter
    after: list[HostState] = []
    verdict: Verdict | None = None
    for state in before.states:
        then, verdict = interleavings.verdict(ledger.frame, state, pod)
        if not isinstance(verdict, Admitted):
            return verdict, ()
        after.append(then)
    if not is_placed(ledger.frame, pod) or _is_alike(ledger.pending, pod):
        return verdict, tuple(after)
    if before.table is not None:
        outcomes = _one_more(ledger.frame, before.table, pod)
    else:
        pods = (*ledger.pending, pod)
        outcomes = _after(interleavings.table_of(ledger.frame, ledger.base, pods, ledger.gone))
    if outcomes is None or not outcomes.refused <= before.refused:
        return None, ()
    return verdict, outcomes.states


Held = Iterable[tuple[Pod, Collection[str]]]  # pods that room is held for, and who makes it


def takes(ledger: Ledger, pod: Pod, gone: Collection[str] = (), held: Held = ()) -> bool:
    """Whether the host would take a pod once others are gone, and still those it is held for.

    Each of those comes when the pods that make room for it are gone, which is after this one.
    """
    book = without(ledger, gone) if gone else ledger
    verdict, states = checked(book, pod)
    if not isinstance(verdict, Admitted):
        return False
    waiting = tuple(held)
    for after in states:
        state = after
        for other, leaving in waiting:
            for uid in leaving:
                state = hosts.ended(state, uid)
            state, verdict = interleavings.verdict(ledger.frame, state, other)
            if not isinstance(verdict, Admitted):
                return False
    return True


def _told(ledger: Ledger) -> Ledger:
    frame = ledger.frame
    if any(pod.uid in ledger.doubtful and is_placed(frame, pod) for pod in ledger.pending):
        return replace(ledger, outcomes=None)
    table = interleavings.table_of(ledger.frame, ledger.base, ledger.pending, ledger.gone)
    return replace(ledger, outcomes=_after(table))


def _one_more(frame: Frame, table: Table, pod: Pod) -> Outcomes | None:
    return _after(interleavings.grown(frame, table, pod))


def _after(table: Table | None) -> Outcomes | None:
    return None if table is None else Outcomes(table.states, table.refused, table)
