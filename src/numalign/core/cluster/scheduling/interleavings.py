"""All states in which a host may be after pods came and went, in whichever order.

Pods of one class are alike, so it matters only how many of each class have come, and who has gone:
a table has a cell for each of these counts, with the states after so much has happened. One more
pod leaves all cells as they are and adds new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, Protocol

from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.verdict import Verdict, verdict_on
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod, Qos, Resources, qos_class

STATES_MAX: Final = 8
CELLS_MAX: Final = 32  # of a table
_COUNTS_MAX: Final = 1_024  # of the same table with the cells that no order leads to

PodClass = tuple[object, ...]


def class_of(pod: Pod) -> PodClass:
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
class Departure:
    """A pod that went, and the pods on their way then: it may have gone before or after them.

    ``pod`` only for one that was on its way itself: it may have come first, or never.
    """

    uid: str
    beside: frozenset[str] = frozenset()
    pod: Pod | None = None

    def among(self, pending: Iterable[str]) -> Departure:
        """The same as far as it matters for these pods."""
        beside = self.beside.intersection(pending)
        if beside == self.beside:
            return self
        return Departure(self.uid, beside, self.pod if beside else None)


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
    """Pods of one class, which are alike, after all pods that were gone before they were bound."""

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
        then, decided = verdict(self.frame, state, pod)
        return then, None if isinstance(decided, Admitted) else pod.uid


@dataclass(frozen=True, slots=True)
class _Departure:
    """One pod that goes; before that it may have to come, if the host ever sees it."""

    frame: Frame
    went: Departure

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
        return verdict(self.frame, state, self.went.pod)[0], None


# One more thing may have happened in each row.

_Kind = tuple[PodClass, Qos, frozenset[int]]  # pods that are alike, and whose going they wait for
_Cells = Mapping[_Counts, tuple[HostState, ...]]


@dataclass(frozen=True, slots=True)
class Table:
    """The states after each number of things that may have happened."""

    gone: tuple[Departure, ...]  # a row each, the first ones
    kinds: tuple[_Kind, ...]  # of the pods in each of the other rows
    rows: tuple[_Row, ...]
    cells: _Cells
    refused: frozenset[str] = frozenset()  # who may be refused on the way

    @property
    def states(self) -> tuple[HostState, ...]:
        return self.cells[tuple(row.size for row in self.rows)]


def table_of(
    frame: Frame, base: HostState, pods: Iterable[Pod], gone: Sequence[Departure]
) -> Table | None:
    """The table of these pods that come and go; None if there are too many states to tell."""
    start = base
    placed: list[Pod] = []
    for pod in pods:
        if is_placed(frame, pod):
            placed.append(pod)
        else:  # it does not change what managers decide, so its place in the order does not matter
            start = _noted(frame, start, pod)
    rows = tuple(_Departure(frame, one) for one in gone)
    empty = Table(tuple(gone), (), rows, {(0,) * len(rows): (start,)})
    table = _filled(empty, [range(row.size + 1) for row in rows])
    for pod in placed:
        if table is None:
            return None
        table = grown(frame, table, pod)
    return table


def grown(frame: Frame, table: Table, pod: Pod) -> Table | None:
    """The table with one more pod that the managers place; None if it gets too large."""
    first = len(table.gone)
    waits = frozenset(i for i, one in enumerate(table.gone) if pod.uid not in one.beside)
    kind = (class_of(pod), qos_class(pod, frame.host.settings), waits)
    kinds, rows, cells = table.kinds, list(table.rows), table.cells
    if kind in kinds:
        place = first + kinds.index(kind)
        row = rows[place]
        assert isinstance(row, _Arrivals), "the first rows are those of pods that go"
        rows[place] = _Arrivals(frame, (*row.pods, pod), waits, row.rows)
    else:
        place = len(rows)
        kinds = (*kinds, kind)
        rows.append(_Arrivals(frame, (pod,), waits, table.rows[:first]))
        cells = {(*counts, 0): states for counts, states in cells.items()}
    ranges = [range(row.size + 1) for row in rows]
    ranges[place] = range(rows[place].size, rows[place].size + 1)
    return _filled(Table(table.gone, kinds, tuple(rows), cells, table.refused), ranges)


def _filled(table: Table, ranges: Sequence[range]) -> Table | None:
    """The table with the cells of these counts, which are reached from those that it has."""
    rows = table.rows
    if prod(row.size + 1 for row in rows) > _COUNTS_MAX:
        return None
    cells = dict(table.cells)
    refused = set(table.refused)
    for counts in product(*ranges):
        if counts in cells:
            continue
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
            cells[counts] = distinct(found)
            if len(cells[counts]) > STATES_MAX or len(cells) > CELLS_MAX + 1:
                return None
    return Table(table.gone, table.kinds, rows, cells, frozenset(refused))


def verdict(frame: Frame, state: HostState, pod: Pod) -> tuple[HostState, Verdict]:
    """What the host says to one more pod, and its state then."""
    return verdict_on(frame.host, state, frame.totals, pod)


def is_placed(frame: Frame, pod: Pod) -> bool:
    """Whether the managers may give the pod anything."""
    if qos_class(pod, frame.host.settings) is Qos.GUARANTEED or pod.has_pod_level_resources:
        return True
    devices = frame.empty.devices
    return any(devices.is_device(name) for c in pod.in_order for name in c.limits)


def _noted(frame: Frame, state: HostState, pod: Pod) -> HostState:
    after, decided = verdict(frame, state, pod)
    return after if isinstance(decided, Admitted) else state


def distinct(states: Iterable[HostState]) -> tuple[HostState, ...]:
    """The states without repetitions."""
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
