"""Merging hints: the one set of NUMA nodes for all resources of a container or pod.

The kubelet takes one hint from each resource in every possible way, merges each combination by
AND, and keeps the best. A merged hint is preferred only if all its parts are preferred and name
the very same nodes. Its comparison is a total order, so the winner is a minimum:

1. preferred ones first: fewest nodes, then the least mask (or, with prefer-closest-numa-nodes,
   the smallest average distance before the mask);
2. otherwise, with B = the largest of "nodes of the narrowest hint" over all resources: exactly B
   nodes; else fewer, as many as possible; else more, as few as possible; then as in 1.

Here neither combinations nor sets are listed. A preferred winner must be a hint of every resource,
so it is searched for by size. For the rest, think of what a combination can leave out: each
resource whose hints form a region can leave out some nodes as long as it keeps enough, and a set
X is the AND of some combination if every node outside X is left out by at least one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numalign.core.kubelet.topology.hints import (
    Affinity,
    Hint,
    HintSet,
    ProviderHints,
    Region,
    ResourceHints,
)
from numalign.core.kubelet.topology.node_search import Distances, Need, least_set, walk
from numalign.core.values.sets import bits


def flattened(answers: Sequence[ProviderHints]) -> list[ResourceHints]:
    """One answer per resource; a provider without any does not care."""
    flat: list[ResourceHints] = []
    for answer in answers:
        if answer:
            flat += answer.values()
        else:
            flat.append(Affinity.ANYWHERE)
    return flat


@dataclass(frozen=True, slots=True)
class Merger:
    all_nodes: int
    distances: Distances | None = None  # with prefer-closest-numa-nodes

    def best(self, answers: Sequence[ResourceHints], *, only_preferred: bool = False) -> Hint:
        """The winner for best-effort and restricted.

        With ``only_preferred`` another winner is not worked out, only that there is no better.
        """
        sets = [answer for answer in answers if isinstance(answer, HintSet)]
        possible = Affinity.NOWHERE not in answers
        if not sets:
            return Hint(self.all_nodes, preferred=possible)
        if possible:
            preferred = self.preferred(sets)
            if preferred is not None:
                return Hint(preferred, preferred=True)
        if only_preferred:
            return Hint(self.all_nodes, preferred=False)
        nodes = self._not_preferred(sets)
        return Hint(self.all_nodes if nodes is None else nodes, preferred=False)

    def single(self, answers: Sequence[ResourceHints]) -> Hint:
        """The winner for single-numa-node: one node for all, or none."""
        if Affinity.NOWHERE in answers:
            return Hint(None, preferred=False)
        common = self.all_nodes
        cared = False
        for answer in answers:
            if isinstance(answer, HintSet):
                cared = True
                if answer.preferred_count == 1 or answer.socket_rule is not None:
                    singles = answer.singles()
                    common &= mask_where(singles, answer)
                else:
                    common = 0
        if not cared:
            return Hint(None, preferred=True)
        node = common & -common
        if not node:
            return Hint(None, preferred=False)
        # On a machine with one node the winner is "all nodes", which is shown as no affinity.
        return Hint(None if node == self.all_nodes else node, preferred=True)

    # Preferred winners.

    def preferred(self, sets: Sequence[HintSet]) -> int | None:
        """The best set of nodes that is a preferred hint of every resource."""
        for size in self._preferred_sizes(sets):
            found = self._preferred_of_size(sets, size)
            if found is not None:
                return found
        return None

    def _preferred_sizes(self, sets: Sequence[HintSet]) -> Sequence[int]:
        fixed = {s.preferred_count for s in sets if s.socket_rule is None}
        if len(fixed) > 1:
            return ()
        return tuple(fixed) if fixed else range(1, self.all_nodes.bit_count() + 1)

    def _preferred_of_size(self, sets: Sequence[HintSet], size: int) -> int | None:
        if size == 1 and self.distances is None:
            common = self.all_nodes
            for s in sets:
                common &= mask_where(s.singles(), s)
            return common & -common or None
        candidates = [
            mask
            for s in sets
            for mask in s.exact
            if mask.bit_count() == size and all(t.contains(mask) for t in sets)
        ]
        regions = [s.region for s in sets if s.region is not None]
        if len(regions) == len(sets):
            mask = self._least_common(regions, size, sets)
            if mask is not None:
                candidates.append(mask)
        candidates = [m for m in candidates if all(s.is_preferred(m) for s in sets)]
        return min(candidates, key=self.order, default=None)

    def _least_common(
        self, regions: Sequence[Region], size: int, sets: Sequence[HintSet]
    ) -> int | None:
        support, must = self.all_nodes, 0
        needs: list[Need] = []
        for region in regions:
            support &= region.support
            must |= region.must
            needs += region.needs
        return least_set(
            size,
            support,
            must=must,
            needs=needs,
            accept=lambda mask: all(s.is_preferred(mask) for s in sets),
            distances=self.distances,
        )

    # Winners that are not preferred.

    def _not_preferred(self, sets: Sequence[HintSet]) -> int | None:
        wanted = max(s.narrowest_count() for s in sets)
        shapes = _shapes(sets, self.all_nodes)
        most = self.all_nodes.bit_count()
        for size in (wanted, *range(wanted - 1, 0, -1), *range(wanted + 1, most + 1)):
            found = [self._least_reachable(shape, size) for shape in shapes]
            candidates = [mask for mask in found if mask is not None]
            if candidates:
                return min(candidates, key=self.order)
        return None

    def _least_reachable(self, shape: _Shape, size: int) -> int | None:
        count = shape.common.bit_count()
        if count < size:
            return None
        if count == size:
            return shape.common
        if not shape.regions:
            return None
        exclusion = _Exclusion(shape.regions)

        def feasible(chosen: int, still_open: int, more: int) -> bool:
            kept = chosen | still_open if more else chosen
            return exclusion.is_possible(shape.common & ~kept)

        return walk(size, shape.common, feasible, distances=self.distances)

    def order(self, mask: int) -> tuple[int, int, int]:
        """The mask comparison: fewest nodes, closest (where asked for), least mask."""
        distance = 0 if self.distances is None else distance_sum(mask, self.distances)
        return mask.bit_count(), distance, mask


def mask_where(singles: int, hints: HintSet) -> int:
    """Those single nodes that are preferred hints."""
    if hints.preferred_count == 1:
        return singles
    if hints.socket_rule is None:
        return 0
    return sum(1 << node for node in bits(singles) if hints.socket_rule.holds(1 << node))


def distance_sum(mask: int, distances: Distances) -> int:
    """The sum over all ordered pairs, each node with itself included.

    Only sets of equal size are compared, so the kubelet's average needs no division.
    """
    nodes = list(bits(mask))
    return sum(distances[a][b] for a in nodes for b in nodes)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Combinations that choose the same exact sets: what all share, and who may leave out more."""

    common: int
    regions: tuple[Region, ...]


def _shapes(sets: Sequence[HintSet], all_nodes: int) -> list[_Shape]:
    # By the regions in use, what the combinations so far share. Only masks are multiplied: a host
    # whose amounts wrap around has all of its hints as exact sets.
    commons: dict[tuple[Region, ...], set[int]] = {(): {all_nodes}}
    for hints in sets:
        grown: dict[tuple[Region, ...], set[int]] = {}
        region = hints.region
        use_region = region is not None and region.contains(region.support)
        for regions, masks in commons.items():
            if hints.exact:
                grown.setdefault(regions, set()).update(
                    mask & exact for mask in masks for exact in hints.exact
                )
            if region is not None and use_region:
                grown.setdefault((*regions, region), set()).update(
                    mask & region.support for mask in masks
                )
        for masks in grown.values():
            masks.discard(0)
        commons = grown
    return [_Shape(mask, regions) for regions, masks in commons.items() for mask in masks]


class _Exclusion:
    """Whether nodes can be left out, each by at least one of several regions."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        self.known: dict[int, bool] = {0: True}
        self.is_additive = all(need.is_additive for r in regions for need in r.needs)

    def is_possible(self, nodes: int) -> bool:
        """Whether all these nodes can be left out together."""
        if nodes not in self.known:
            self.known[nodes] = self._decide(nodes)
        return self.known[nodes]

    def _decide(self, nodes: int) -> bool:
        if any(region.contains(region.support & ~nodes) for region in self.regions):
            return True
        if len(self.regions) == 1:
            return False
        return self._dealt_by_amount(nodes) if self.is_additive else self._dealt(nodes)

    def _dealt_by_amount(self, nodes: int) -> bool:
        """Deals the nodes out to the regions, where each node simply takes its weights away.

        Two ways of dealing that leave every region with the same amounts are alike, so only
        amounts are remembered.
        """
        order = [1 << node for node in bits(nodes)]
        spare = tuple(
            tuple(need.total(region.support) - need.amount for need in region.needs)
            for region in self.regions
        )
        weights = [
            [tuple(need.total(node) for need in region.needs) for node in order]
            for region in self.regions
        ]
        dead: set[tuple[int, tuple[tuple[int, ...], ...]]] = set()

        def dealt(index: int, left: tuple[tuple[int, ...], ...]) -> bool:
            if index == len(order):
                return True
            if (index, left) in dead:
                return False
            for i, region in enumerate(self.regions):
                if order[index] & region.must:
                    continue
                after = tuple(a - w for a, w in zip(left[i], weights[i][index], strict=True))
                if min(after, default=0) >= 0 and dealt(
                    index + 1, (*left[:i], after, *left[i + 1 :])
                ):
                    return True
            dead.add((index, left))
            return False

        return dealt(0, spare)

    def _dealt(self, nodes: int) -> bool:
        """The same where one item counts for several nodes: whole sets are remembered."""
        order = [1 << node for node in bits(nodes)]
        dead: set[tuple[int, tuple[int, ...]]] = set()

        def dealt(index: int, kept: tuple[int, ...]) -> bool:
            if index == len(order):
                return True
            if (index, kept) in dead:
                return False
            for i, region in enumerate(self.regions):
                smaller = kept[i] & ~order[index]
                if region.contains(smaller) and dealt(
                    index + 1, (*kept[:i], smaller, *kept[i + 1 :])
                ):
                    return True
            dead.add((index, kept))
            return False

        return dealt(0, tuple(region.support for region in self.regions))


def merged_lists(
    lists: Sequence[Sequence[Hint]], all_nodes: int, distances: Distances | None = None
) -> Hint:
    """The winner for explicit lists of hints, as another program may give them.

    Folds the distinct (mask, mask that all agree on, preferred) states list by list.
    """
    narrowest = [[h.nodes.bit_count() for h in hints if h.nodes is not None] for hints in lists]
    wanted = max((min(counts) for counts in narrowest if counts), default=0)
    states: set[tuple[int, int | None, bool]] = {(all_nodes, None, True)}
    for hints in lists:
        states = {_folded(state, hint) for state in states for hint in set(hints)}
    merger = Merger(all_nodes, distances)

    def rank(state: tuple[int, int | None, bool]) -> tuple[int, ...]:
        mask, _, preferred = state
        return (*_class(mask.bit_count(), wanted, preferred=preferred), *merger.order(mask))

    candidates = [state for state in states if state[0]]
    if not candidates:
        return Hint(all_nodes, preferred=False)
    mask, _, preferred = min(candidates, key=rank)
    return Hint(mask, preferred)


def _class(count: int, wanted: int, *, preferred: bool) -> tuple[int, int]:
    if preferred:
        return 0, 0
    return (1, wanted - count) if count <= wanted else (2, count - wanted)


def _folded(state: tuple[int, int | None, bool], hint: Hint) -> tuple[int, int | None, bool]:
    mask, agreed, preferred = state
    if hint.nodes is None:
        preferred = preferred and hint.preferred
        return mask, agreed if preferred else None, preferred
    preferred = preferred and hint.preferred and agreed in (None, hint.nodes)
    return mask & hint.nodes, hint.nodes if preferred else None, preferred


def single_node_lists(lists: Sequence[Sequence[Hint]], all_nodes: int) -> Hint:
    """The winner of single-numa-node for explicit lists of hints."""
    kept = [
        [h for h in hints if h.preferred and (h.nodes is None or h.nodes.bit_count() == 1)]
        for hints in lists
    ]
    best = merged_lists(kept, all_nodes)
    return Hint(None, best.preferred) if best.nodes == all_nodes else best
