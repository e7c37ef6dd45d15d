"""What a host with a published placement may look like now.

A host publishes late. In between pods are bound to it, by us or by others, and pods go. The kubelet
has seen those changes or will see them, and not surely in our order: pods that arrive together are
admitted by age, and a pod may have ended before we hear of it. So a ledger keeps every state in
which the host may be, and a pod is placed only where each of them takes it and none of them then
refuses a pod that is already on its way. Where there are too many to tell, the host has to publish
first.

A ledger is a value; each event gives the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from numalign.core import host as hosts
from numalign.core.cluster.rebuild import Frame, Rebuilt
from numalign.core.decisions import Admitted
from numalign.core.host import HostState
from numalign.core.pod import Pod, Qos, Resources, qos_class
from numalign.core.situation import Verdict, verdict_on

STATES_MAX: Final = 8
SHAPES_PENDING_MANY: Final = 2  # of one shape more there are six orders, and soon too many
CELLS_MAX: Final = 32  # of the table over how many pods of each shape have come

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
class Table:
    """All ways in which some pods may have come, one after the other.

    Pods of one shape are alike, so only how many of each shape have come matters: a cell has the
    states after so many of them. One more pod leaves all cells as they are and adds new ones.
    """

    groups: tuple[tuple[Shape, tuple[Pod, ...]], ...]
    cells: Mapping[tuple[int, ...], tuple[HostState, ...]]
    refused: frozenset[str] = frozenset()

    @property
    def states(self) -> tuple[HostState, ...]:
        """The states after all of them."""
        return self.cells[tuple(len(pods) for _, pods in self.groups)]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The states after some pods came in any order, and which of them may be refused."""

    states: tuple[HostState, ...]
    refused: frozenset[str] = frozenset()
    table: Table | None = None  # where they come from, if nothing else has happened since


@dataclass(frozen=True, slots=True)
class Ledger:
    """One host: what it published, and what has happened since."""

    frame: Frame
    bases: tuple[HostState, ...]  # as published, less what is gone since
    pending: tuple[Pod, ...] = ()  # came since, and not published yet
    gone: frozenset[str] = frozenset()  # went while others were pending
    outcomes: Outcomes | None = None  # None: too many to tell

    @property
    def states(self) -> tuple[HostState, ...]:
        """The states in which the host may be; none if there are too many to tell."""
        return () if self.outcomes is None else self.outcomes.states


def opened(rebuilt: Rebuilt, pending: Iterable[Pod], gone: Iterable[str] = ()) -> Ledger:
    """The ledger of a host that has just published.

    Some pods are not in it yet, and some that are in it have gone since.
    """
    found = _told(Ledger(rebuilt.frame, (rebuilt.state,), tuple(pending)))
    for uid in gone:
        if uid in rebuilt.state.pods:
            found = went(found, uid)
    return found


def unsure(ledger: Ledger) -> Ledger:
    """The ledger of a host that must publish before more can be told."""
    return replace(ledger, outcomes=None)


def came(ledger: Ledger, pod: Pod) -> Ledger:
    """The ledger after one more pod was bound to the host."""
    after = replace(ledger, pending=(*ledger.pending, pod))
    before = ledger.outcomes
    if before is None:
        return after if ledger.pending else _told(after)
    if _is_placed(ledger.frame, pod):
        if before.table is not None:
            return replace(after, outcomes=_one_more(ledger.frame, before.table, pod))
        if not _is_alike(ledger.pending, pod):
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
    bases = tuple(replace(s, pods={**s.pods, pod.uid: pod}) for s in ledger.bases)
    return _told(replace(ledger, bases=bases))


def went(ledger: Ledger, uid: str) -> Ledger:
    """The ledger after a pod was deleted or has ended."""
    pending = tuple(pod for pod in ledger.pending if pod.uid != uid)
    if len(pending) < len(ledger.pending):
        # Whether it came at all, and before which others, only the host can tell.
        after = replace(ledger, pending=pending)
        return _told(after) if not pending else replace(after, outcomes=None)
    without = tuple(hosts.ended(state, uid) for state in ledger.bases)
    if not pending:
        return _told(replace(ledger, bases=without))
    bases = _distinct([*ledger.bases, *without])
    return _told(replace(ledger, bases=bases, gone=ledger.gone | {uid}))


def is_waiting_for(ledger: Ledger, pod: Pod) -> bool:
    """Whether another pod that the managers place is not published, and this one is such a pod."""
    frame = ledger.frame
    return _is_placed(frame, pod) and any(_is_placed(frame, other) for other in ledger.pending)


def must_publish_soon(ledger: Ledger) -> bool:
    """Whether so much is pending that another pod is costly to decide about, if it is at all."""
    outcomes = ledger.outcomes
    if outcomes is None:
        return True
    return outcomes.table is not None and len(outcomes.table.groups) >= SHAPES_PENDING_MANY


def with_bases(ledger: Ledger, bases: tuple[HostState, ...], pending: tuple[Pod, ...]) -> Ledger:
    """A ledger of the same host that starts from other states: a what-if."""
    return _told(replace(ledger, bases=bases, pending=pending))


def checked(ledger: Ledger, pod: Pod) -> tuple[Verdict | None, tuple[HostState, ...]]:
    """What the host would say to one more pod, and the states after it.

    A verdict other than an admission is one that it may give. None: that is not known before the
    host publishes, or another pod that is on its way would be refused instead.
    """
    before = ledger.outcomes
    if before is None:
        if _is_placed(ledger.frame, pod):
            return None, ()
        before = Outcomes(ledger.bases[:1])  # whatever the others hold, it does not matter
    after: list[HostState] = []
    verdict: Verdict | None = None
    for state in before.states:
        then, verdict = _verdict(ledger.frame, state, pod)
        if not isinstance(verdict, Admitted):
            return verdict, ()
        after.append(then)
    if not _is_placed(ledger.frame, pod) or _is_alike(ledger.pending, pod):
        return verdict, tuple(after)
    if before.table is not None:
        outcomes = _one_more(ledger.frame, before.table, pod)
    else:
        outcomes = _outcomes(ledger.frame, ledger.bases, (*ledger.pending, pod))
    if outcomes is None or not outcomes.refused <= before.refused:
        return None, ()
    return verdict, _ended(outcomes.states, ledger.gone)


def _verdict(frame: Frame, state: HostState, pod: Pod) -> tuple[HostState, Verdict]:
    return verdict_on(frame.host, state, frame.totals, pod)


def _told(ledger: Ledger) -> Ledger:
    outcomes = _outcomes(ledger.frame, ledger.bases, ledger.pending)
    if outcomes is not None and ledger.gone:
        outcomes = Outcomes(_ended(outcomes.states, ledger.gone), outcomes.refused)
    return replace(ledger, outcomes=outcomes)


def _ended(states: Iterable[HostState], uids: Iterable[str]) -> tuple[HostState, ...]:
    found = list(states)
    for uid in uids:
        found = [hosts.ended(state, uid) for state in found]
    return _distinct(found)


def _outcomes(frame: Frame, bases: Sequence[HostState], pods: Iterable[Pod]) -> Outcomes | None:
    """All states after these pods came in any order; None if there are too many."""
    start = list(bases)
    placed: list[Pod] = []
    for pod in pods:
        if _is_placed(frame, pod):
            placed.append(pod)
        else:  # it changes no manager's mind, so its place in the order is all the same
            start = [_noted(frame, state, pod) for state in start]
    if len(start) > STATES_MAX:
        return None
    table = Table((), {(): tuple(start)})
    for pod in placed:
        grown = _grown(frame, table, pod)
        if grown is None:
            return None
        table = grown
    return Outcomes(table.states, table.refused, table)


def _one_more(frame: Frame, table: Table, pod: Pod) -> Outcomes | None:
    grown = _grown(frame, table, pod)
    return None if grown is None else Outcomes(grown.states, grown.refused, grown)


def _grown(frame: Frame, table: Table, pod: Pod) -> Table | None:
    """The table with one more pod that the managers place; None if it gets too large."""
    key = (*shape_of(pod), qos_class(pod, frame.host.settings))
    groups = list(table.groups)
    cells = dict(table.cells)
    place = next((i for i, (shape, _) in enumerate(groups) if shape == key), len(groups))
    if place == len(groups):
        groups.append((key, ()))
        cells = {(*counts, 0): states for counts, states in cells.items()}
    groups[place] = (key, (*groups[place][1], pod))
    refused = set(table.refused)
    lengths = [len(pods) for _, pods in groups]
    ranges = [range(length + 1) for length in lengths]
    ranges[place] = range(lengths[place], lengths[place] + 1)
    for counts in product(*ranges):
        if len(cells) > CELLS_MAX:
            return None
        found: list[HostState] = []
        for i, count in enumerate(counts):
            if not count:
                continue
            last = groups[i][1][count - 1]
            for state in cells[(*counts[:i], count - 1, *counts[i + 1 :])]:
                after, verdict = _verdict(frame, state, last)
                found.append(after)
                if not isinstance(verdict, Admitted):
                    refused.add(last.uid)
        cells[counts] = _distinct(found)
        if len(cells[counts]) > STATES_MAX:
            return None
    return Table(tuple(groups), cells, frozenset(refused))


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
