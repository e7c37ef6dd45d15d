"""Choosing CPUs evenly over NUMA nodes (option distribute-cpus-across-numa).

For k = the fewest nodes that could do, and up: try every choice of k nodes, give each the same
number of CPUs (in groups of g: 1, or a whole core with full-pcpus-only), deal out the remainder,
and keep the choice that leaves the free CPUs of all nodes most even. Inside a node CPUs are packed.

Two defects of the original are part of its decisions:

- *Overwritten memory.* It remembers the best combination without copying it, and later ones are
  written over it. Of a remembered combination of k nodes the first p stay; the rest become those
  of the last combination generated with the same first p. See ``_kept_count``.
- *Endless loop.* With g > 1 and nodes whose free CPUs are no multiple of g, dealing out the
  remainder may never end. That is ``EndlessLoopError`` here; the safe fidelity goes on instead.

Nodes with the same number of free CPUs are alike, so of all combinations that differ only in alike
nodes just the first is looked at (``distinct``). An idle machine has one such combination of each
size, however many nodes it has.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from numalign.core.kubelet.cpu.pack import (
    PACKED,
    NotEnoughCpusError,
    Strategy,
    node_order,
    take_packed,
)
from numalign.core.kubelet.cpu.topology import CpuTopology

# More combinations than this, alike ones left out, are not looked at: the kubelet itself, which
# walks them all, would need hours.
COMBINATIONS_MAX: Final = 50_000


class EndlessLoopError(Exception):
    """The kubelet would never answer this request."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How to spread: the size of a group and which variants of the rules hold."""

    group: int = 1
    align_socket: bool = False  # align-by-socket, which only 1.37 honours here
    v1_37: bool = False
    safe: bool = False  # keep the best combination as it is, and never loop

    @property
    def strategy(self) -> Strategy:
        """How CPUs are packed inside one node."""
        return Strategy(only_free=True) if self.safe else PACKED


@dataclass(frozen=True, slots=True)
class _Choice:
    """A combination of nodes, by position in the order of nodes, and what it leads to."""

    nodes: tuple[int, ...]
    remainder: tuple[int, ...]  # which of them get the remaining groups, by position
    balance: float
    one_socket: bool = False


def take_distributed(topology: CpuTopology, available: int, count: int, how: Distribution) -> int:
    """The mask of ``count`` CPUs spread evenly over NUMA nodes."""
    if count % how.group:
        return take_packed(topology, available, count, how.strategy)
    if count < 1:
        return 0
    free = available & topology.all
    if count > free.bit_count():
        raise NotEnoughCpusError(
            "not enough cpus available to satisfy request: "
            f"requested={count}, available={available.bit_count()}"
        )
    search = _Search(topology, free, count, how)
    for k in range(search.fewest, search.most + 1):
        best = search.best_of_size(k)
        if best is not None:
            taken = search.allocate(best)
            if taken is not None:
                return taken
    return take_packed(topology, available, count, how.strategy)


class _Search:
    """The search for the best combination of one request."""

    def __init__(self, topology: CpuTopology, free: int, count: int, how: Distribution) -> None:
        self.topology = topology
        self.how = how
        self.count = count
        self.order = node_order(topology, free)
        self.free_cpus = [mask & free for _, mask in self.order]
        self.free = [cpus.bit_count() for cpus in self.free_cpus]
        self.alike: list[Hashable] = [
            (count, self._sockets_of([x]) if how.align_socket else None)
            for x, count in enumerate(self.free)
        ]
        groups = -(-topology.cpu_count // how.group)
        per_node = -(-groups // topology.node_count)
        wanted = -(-count // how.group)
        self.fewest = -(-wanted // per_node)
        self.most = min(wanted, len(self.order))
        self._seen: dict[tuple[int, ...], tuple[tuple[int, ...], float] | None] = {}

    def best_of_size(self, k: int) -> _Choice | None:
        """The combination of k nodes that the original ends up with, memory faults included."""
        best: _Choice | None = None
        for seen, nodes in enumerate(distinct(self.alike, k)):
            if seen == COMBINATIONS_MAX:
                if self.how.safe:
                    break
                raise EndlessLoopError(
                    f"choosing {k} of {len(self.order)} NUMA nodes evenly means walking "
                    f"{math.comb(len(self.order), k)} combinations"
                )
            candidate = self._evaluate(nodes)
            if candidate is not None and self._is_better(candidate, best):
                best = candidate
                if best.balance == 0 and (not self.how.align_socket or best.one_socket):
                    return self._as_remembered(best, stopped=True)
        return None if best is None else self._as_remembered(best, stopped=False)

    def _as_remembered(self, best: _Choice, *, stopped: bool) -> _Choice:
        """The choice after later combinations were written over the original's memory of it.

        Those that begin alike follow one another: up to the one with the highest nodes, or just
        the next one if the walk stopped there.
        """
        count, k = len(self.order), len(best.nodes)
        keep = k if self.how.safe else _kept_count(k)
        last = best.nodes[:keep] + tuple(range(count - (k - keep), count))
        if stopped:
            following = _successor(best.nodes, count)
            last = following if following[:keep] == best.nodes[:keep] else best.nodes
        return _Choice(last, best.remainder, best.balance)

    def _is_better(self, candidate: _Choice, best: _Choice | None) -> bool:
        best_one_socket = best is not None and best.one_socket
        if self.how.align_socket and candidate.one_socket != best_one_socket:
            return candidate.one_socket
        return candidate.balance < (math.inf if best is None else best.balance)

    def _evaluate(self, nodes: tuple[int, ...]) -> _Choice | None:
        pattern = tuple(self.free[x] for x in nodes)
        if pattern not in self._seen:
            self._seen[pattern] = self._evaluate_pattern(nodes, pattern)
        found = self._seen[pattern]
        if found is None:
            return None
        places, balance = found
        one_socket = self.how.align_socket and len(self._sockets_of(nodes)) <= 1
        return _Choice(nodes, tuple(nodes[i] for i in places), balance, one_socket)

    def _evaluate_pattern(
        self, nodes: tuple[int, ...], pattern: tuple[int, ...]
    ) -> tuple[tuple[int, ...], float] | None:
        group, count = self.how.group, self.count
        if sum(pattern) < count or sum(f // group * group for f in pattern) < count:
            return None
        share = count // len(nodes) // group * group
        if self.how.align_socket:
            share = min(share, *(f // group * group for f in pattern))
        elif min(pattern) < share:
            return None
        after = list(self.free)
        for x in nodes:
            after[x] -= share
        rest = count - share * len(nodes)
        if rest == 0:
            return (), spread(after)
        return self._best_remainder(nodes, after, rest)

    def _best_remainder(
        self, nodes: tuple[int, ...], after: list[int], rest: int
    ) -> tuple[tuple[int, ...], float] | None:
        """Which nodes should get the remaining groups, by place in the combination."""
        eligible = [i for i, x in enumerate(nodes) if after[x] >= self.how.group]
        values = [after[nodes[i]] for i in eligible]
        best: tuple[int, ...] = ()
        best_balance = math.inf
        for size in range(len(eligible), 0, -1):
            keep = size if self.how.safe else _kept_count(size)
            for chosen in distinct(values, size):
                if sum(values[j] for j in chosen) < rest:
                    continue
                dealt = self._dealt([values[j] for j in chosen], rest)
                if dealt is None:
                    continue
                left = list(after)
                for j, value in zip(chosen, dealt, strict=True):
                    left[nodes[eligible[j]]] = value
                balance = spread(left)
                if balance < best_balance:
                    # There is no stop here: the last combination that begins alike always comes.
                    last = range(len(eligible) - (size - keep), len(eligible))
                    best = tuple(eligible[j] for j in (*chosen[:keep], *last))
                    best_balance = balance
        return (best, best_balance) if best else None

    def _dealt(self, left: list[int], rest: int) -> list[int] | None:
        """What is left on each node after dealing out the remainder, round by round."""
        group = self.how.group
        while rest > 0:
            progress = False
            for i, free in enumerate(left):
                if rest == 0:
                    break
                if free >= group:
                    left[i] = free - group
                    rest -= group
                    progress = True
            if not progress:
                if self.how.safe:
                    return None
                raise EndlessLoopError(_ENDLESS)
        return left

    def _sockets_of(self, nodes: Sequence[int]) -> tuple[int, ...]:
        cpus = 0
        for x in nodes:
            cpus |= self.order[x][1]
        return tuple(socket for socket, mask in self.topology.sockets.items() if mask & cpus)

    def allocate(self, choice: _Choice) -> int | None:
        """Takes the CPUs; NotEnoughCpusError where the accounts of the original do not add up."""
        group = self.how.group
        share = self.count // len(choice.nodes) // group * group
        if self.how.v1_37:
            share = min(share, *(self.free[x] // group * group for x in choice.nodes))
        taken = 0
        for x in choice.nodes:
            taken |= self._packed(x, taken, share)
        rest = self.count - share * len(choice.nodes)
        while rest > 0:
            before = rest
            for x in choice.remainder:
                if rest == 0:
                    break
                if (self.free_cpus[x] & ~taken).bit_count() < group:
                    continue
                taken |= self._packed(x, taken, group)
                rest -= group
            if rest == before:
                if self.how.safe:
                    return None
                raise EndlessLoopError(_ENDLESS)
        missing = self.count - taken.bit_count()
        if missing:
            kind = "not enough" if missing > 0 else "too many"
            raise NotEnoughCpusError(
                f"accounting error, {kind} CPUs allocated, remaining: {missing}"
            )
        return taken

    def _packed(self, x: int, taken: int, count: int) -> int:
        try:
            return take_packed(self.topology, self.free_cpus[x] & ~taken, count, self.how.strategy)
        except NotEnoughCpusError:
            return 0  # as in the original: the accounts are checked at the end


_ENDLESS: Final = (
    "free CPUs that are no whole cores can not be dealt out in whole cores, "
    "and the kubelet would try forever"
)


def distinct(alike: Sequence[Hashable], size: int) -> Iterator[tuple[int, ...]]:
    """The combinations of positions in lexicographic order, of alike ones only the first.

    Two combinations are alike if their positions carry the same keys, each as often. The first
    of them takes the earliest positions of each key, so a position is only ever taken after all
    earlier ones with its key.
    """
    rank: list[int] = []
    seen: dict[Hashable, int] = {}
    for key in alike:
        rank.append(seen.get(key, 0))
        seen[key] = rank[-1] + 1
    taken = dict.fromkeys(seen, 0)
    chosen: list[int] = []

    def grow(start: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) == size:
            yield tuple(chosen)
            return
        for position in range(start, len(alike) - (size - len(chosen)) + 1):
            key = alike[position]
            if taken[key] == rank[position]:
                chosen.append(position)
                taken[key] += 1
                yield from grow(position + 1)
                taken[key] -= 1
                chosen.pop()

    return grow(0)


def _successor(chosen: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The next combination in lexicographic order; the same one if it is the last."""
    k = len(chosen)
    for i in range(k - 1, -1, -1):
        if chosen[i] < count - (k - i):
            first = chosen[i] + 1
            return (*chosen[:i], *range(first, first + k - i))
    return chosen


def _kept_count(k: int) -> int:
    """How many elements of a remembered combination of size k survive.

    The original's slices grow by doubling. An element behind the last doubling is shared with
    the combinations generated later: for 2**j < k <= 2**(j+1) the first 2**j + 1 stay.
    """
    return k if k < 3 else (1 << (k - 1).bit_length() - 1) + 1


def spread(values: Sequence[int]) -> float:
    """The standard deviation, with the original's rounding to three decimals on the way."""
    mean = _round3(sum(values) / len(values))
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return _round3(math.sqrt(variance))


def _round3(value: float) -> float:
    scaled = value * 1000
    floor = math.floor(scaled)
    return (floor + 1 if scaled - floor >= 0.5 else floor) / 1000
