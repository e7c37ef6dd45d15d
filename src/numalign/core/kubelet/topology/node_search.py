"""Finding the best set of NUMA nodes of a given size, without listing all sets.

A machine with n nodes has 2**n sets of nodes. Everything that asks for one of them asks for
"at least so much of something", where a node adds what it has, so sets can be searched from the
highest node downwards, leaving a node out whenever the lower ones can still make up for it.
That meets candidate sets in ascending order of their masks: the first one found is the least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from numalign.core.values.sets import bits, mask_of

Distances = Sequence[Sequence[int]]  # by node id, both ways


@dataclass(frozen=True, slots=True)
class Need:
    """At least ``amount``, where each item counts once if any of its nodes is in the set.

    An item with one node is what that node has; an item with several is, for example, a
    device that is equally near to two nodes.
    """

    amount: int
    items: tuple[tuple[int, int], ...]  # (mask of nodes, weight), each mask once

    @property
    def is_additive(self) -> bool:
        """Whether every item is on one node, so that a node always adds the same."""
        for mask, _ in self.items:  # noqa: SIM110 a generator costs more than the loop here
            if mask & (mask - 1):
                return False
        return True

    def is_met(self, nodes: int) -> bool:
        total = 0
        for mask, weight in self.items:
            if mask & nodes:
                total += weight
        return total >= self.amount

    def singles(self, support: int) -> int:
        """The mask of nodes of the support that have enough on their own."""
        if self.amount <= 0:
            return support
        if self.is_additive:
            found = 0
            for mask, weight in self.items:
                if weight >= self.amount:
                    found |= mask
            return found & support
        return mask_of(node for node in bits(support) if self.is_met(1 << node))

    def is_reachable(self, size: int) -> bool:
        """Whether the largest items of so many nodes could be enough; quick, and no promise."""
        if not self.is_additive:
            return True
        weights = sorted([weight for _, weight in self.items], reverse=True)
        return sum(weights[:size]) >= self.amount

    def total(self, nodes: int) -> int:
        return sum(weight for mask, weight in self.items if mask & nodes)


# Whether a partly decided set (chosen, still open, how many more) can still succeed.
Feasible = Callable[[int, int, int], bool]
# Whether a complete set is acceptable.
Accept = Callable[[int], bool]


def fewest_nodes(needs: Sequence[Need], support: int, most: int) -> int:
    """The size of the smallest set of nodes that meets all needs; ``most`` if none is smaller."""
    if len(needs) == 1 and needs[0].is_additive:
        return _fewest_of_one(needs[0], most)
    for size in range(1, most):
        if least_set(size, support, must=0, needs=needs) is not None:
            return size
    return most


def _fewest_of_one(need: Need, most: int) -> int:
    amount = need.amount
    weights = sorted((weight for _, weight in need.items), reverse=True)
    for count, weight in enumerate(weights, start=1):
        amount -= weight
        if amount <= 0:
            return min(count, most)
    return most


def least_set(
    size: int,
    support: int,
    *,
    must: int,
    needs: Sequence[Need],
    accept: Accept | None = None,
    distances: Distances | None = None,
) -> int | None:
    """The least mask of ``size`` nodes of the support that contains ``must`` and meets all needs.

    With distances, the set with the smallest sum of distances, and of those the least mask.
    """
    if must & ~support or must.bit_count() > size or support.bit_count() < size:
        return None
    if any(not need.is_reachable(size) for need in needs):
        return None
    feasible = _enough(size, support, must, needs)
    return walk(size, support, feasible, accept=accept, distances=distances)


def _enough(size: int, support: int, must: int, needs: Sequence[Need]) -> Feasible:
    """A test that never refuses a set which could still be completed."""
    tops = [_top_sums(need, support, size) for need in needs]

    def feasible(chosen: int, still_open: int, more: int) -> bool:
        missing = must & ~chosen
        if missing & ~still_open or missing.bit_count() > more:
            return False
        count = still_open.bit_count()
        for need, top in zip(needs, tops, strict=True):
            if need.total(chosen) + top[count][more] < need.amount:
                return False
        return True

    return feasible


def _top_sums(need: Need, support: int, size: int) -> list[list[int]]:
    """For the i lowest nodes of the support and each j: the most that j of them can add."""
    best: list[int] = []  # the largest weights so far, descending
    sums = [[0] * (size + 1)]
    for node in bits(support):
        weight = sum(w for mask, w in need.items if mask >> node & 1)
        best.append(weight)
        best.sort(reverse=True)
        del best[size:]
        row = [0]
        for value in best:
            row.append(row[-1] + value)
        row += [row[-1]] * (size + 1 - len(row))
        sums.append(row)
    return sums


def walk(
    size: int,
    support: int,
    feasible: Feasible,
    *,
    accept: Accept | None = None,
    distances: Distances | None = None,
) -> int | None:
    """The best complete set under ``feasible`` and ``accept``, in ascending order of masks."""
    nodes = list(bits(support))
    if distances is None:
        return _first(nodes, size, support, feasible, accept)
    return _Closest(nodes, size, feasible, accept, distances).search(support)


def _first(
    nodes: list[int], size: int, support: int, feasible: Feasible, accept: Accept | None
) -> int | None:
    # Depth first, iteratively: (chosen, open nodes, how many more). Leaving out the highest open
    # node is tried before taking it, so sets are met in ascending order of their masks.
    stack = [(0, support, size)]
    while stack:
        chosen, still_open, more = stack.pop()
        if not feasible(chosen, still_open, more):
            continue
        if more == 0:
            if accept is None or accept(chosen):
                return chosen
            continue
        if still_open.bit_count() < more:
            continue
        high = 1 << still_open.bit_length() - 1
        rest = still_open ^ high
        stack.append((chosen | high, rest, more - 1))
        stack.append((chosen, rest, more))
    return None


class _Closest:
    """Branch and bound for the set with the smallest sum of distances."""

    def __init__(
        self,
        nodes: list[int],
        size: int,
        feasible: Feasible,
        accept: Accept | None,
        distances: Distances,
    ) -> None:
        self.size = size
        self.feasible = feasible
        self.accept = accept
        self.own = {a: distances[a][a] for a in nodes}
        self.pair = {(a, b): distances[a][b] + distances[b][a] for a in nodes for b in nodes}
        # For each node: the least sum of its distances to m others, for every m.
        self.least = {
            a: list(accumulate(sorted(self.pair[a, b] for b in nodes if b != a), initial=0))
            for a in nodes
        }
        self.best: int | None = None
        self.best_sum = 0

    def search(self, support: int) -> int | None:
        self._visit(0, 0, support, self.size)
        return self.best

    def _visit(self, chosen: int, total: int, still_open: int, more: int) -> None:
        if not self.feasible(chosen, still_open, more):
            return
        if self.best is not None and total + self._least_rest(chosen, still_open, more) >= (
            self.best_sum
        ):
            return  # equal is no better: sets met later have larger masks
        if more == 0:
            if self.accept is None or self.accept(chosen):
                self.best, self.best_sum = chosen, total
            return
        if still_open.bit_count() < more:
            return
        node = still_open.bit_length() - 1
        rest = still_open ^ 1 << node
        self._visit(chosen, total, rest, more)
        added = self.own[node] + sum(self.pair[node, other] for other in bits(chosen))
        self._visit(chosen | 1 << node, total + added, rest, more - 1)

    def _least_rest(self, chosen: int, still_open: int, more: int) -> int:
        """No completion adds less than this.

        A node that joins adds its distances to the chosen ones and, with each other one that
        joins, half of the distance between the two: at least half of its least distances.
        """
        if more == 0 or still_open.bit_count() < more:
            return 0
        members = list(bits(chosen))
        doubled = sorted(
            2 * (self.own[node] + sum(self.pair[node, other] for other in members))
            + self.least[node][more - 1]
            for node in bits(still_open)
        )
        return -(-sum(doubled[:more]) // 2)
