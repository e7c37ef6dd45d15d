"""Topology hints: on which sets of NUMA nodes a resource could be given.

A provider does not list its hints. A machine with 34 nodes would have 17 billion of them. It
describes them instead, as a HintSet: a *region* of sets that have enough (every larger set has
enough too) and a few *exact* sets that follow no such rule. The merge works on that description.

For each resource a provider answers one of three things, which Go tells apart by nil:
a HintSet, ANYWHERE (it does not care) or NOWHERE (no set of nodes will do).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from numalign.core.kubelet.topology.node_search import Need, least_set
from numalign.core.values.sets import mask_of


@dataclass(frozen=True, slots=True)
class Hint:
    """One set of NUMA nodes as a mask, or None for "no affinity", which is not the empty set."""

    nodes: int | None
    preferred: bool


class Affinity(Enum):
    """What a provider says of a resource when it names no NUMA nodes."""

    ANYWHERE = "anywhere"  # it does not care: any node will do
    NOWHERE = "nowhere"  # no set of nodes can hold the request


@dataclass(frozen=True, slots=True)
class Region:
    """All sets of nodes inside ``support`` that contain ``must`` and meet all needs."""

    support: int
    must: int
    needs: tuple[Need, ...]

    def contains(self, nodes: int) -> bool:
        if nodes & ~self.support or self.must & ~nodes:
            return False
        for need in self.needs:  # noqa: SIM110 a generator costs more than the loop here
            if not need.is_met(nodes):
                return False
        return True

    def singles(self) -> int:
        """The mask of nodes that are in the region on their own."""
        found = self.support
        if self.must:
            found &= self.must if self.must & (self.must - 1) == 0 else 0
        for need in self.needs:
            found &= need.singles(found)
        return found


@dataclass(frozen=True, slots=True)
class SocketRule:
    """Hints that touch exactly ``count`` sockets are preferred too (option align-by-socket)."""

    sockets: tuple[int, ...]  # the NUMA nodes of each socket, as masks
    count: int

    def holds(self, nodes: int) -> bool:
        """Whether the set touches just that many sockets."""
        return sum(1 for mask in self.sockets if mask & nodes) == self.count


@dataclass(frozen=True, slots=True)
class HintSet:
    """All hints of one resource. A hint is preferred if it has ``preferred_count`` nodes."""

    nodes: tuple[int, ...]  # the node ids that hints are made of, ascending
    preferred_count: int
    region: Region | None
    exact: frozenset[int] = frozenset()
    socket_rule: SocketRule | None = None

    def contains(self, nodes: int) -> bool:
        return nodes in self.exact or (self.region is not None and self.region.contains(nodes))

    def is_preferred(self, nodes: int) -> bool:
        """Whether this set of nodes, if it is a hint, is a preferred one."""
        if nodes.bit_count() == self.preferred_count:
            return True
        return self.socket_rule is not None and self.socket_rule.holds(nodes)

    def singles(self) -> int:
        """The mask of nodes that are a hint on their own."""
        found = 0 if self.region is None else self.region.singles()
        for mask in self.exact:
            if mask & (mask - 1) == 0:
                found |= mask
        return found

    def is_empty(self) -> bool:
        if self.exact:
            return False
        return self.region is None or not self.region.contains(self.region.support)

    def narrowest_count(self) -> int:
        """The number of nodes of the smallest hint; 0 if there is none."""
        counts = [mask.bit_count() for mask in self.exact]
        region = self.region
        if region is not None and region.contains(region.support):
            least = max(1, region.must.bit_count())
            most = min([region.support.bit_count(), *counts])
            for size in range(least, most + 1):
                if self._least_in_region(size, 0) is not None:
                    counts.append(size)
                    break
        return min(counts, default=0)

    def best(self, within: int = 0) -> Hint | None:
        """The best hint that contains ``within``: preferred, then fewest nodes, then least mask."""
        assert self.socket_rule is None, "only memory asks for this, and it knows no sockets"
        size = self.preferred_count
        preferred = self._least_of_size(size, within)
        if preferred is not None:
            return Hint(preferred, preferred=True)
        for other in range(max(1, within.bit_count()), len(self.nodes) + 1):
            mask = None if other == size else self._least_of_size(other, within)
            if mask is not None:
                return Hint(mask, preferred=False)
        return None

    def _least_of_size(self, size: int, within: int) -> int | None:
        found = [m for m in self.exact if m.bit_count() == size and not within & ~m]
        mask = self._least_in_region(size, within)
        if mask is not None:
            found.append(mask)
        return min(found, default=None)

    def _least_in_region(self, size: int, within: int) -> int | None:
        region = self.region
        if region is None or within & ~region.support:
            return None
        return least_set(size, region.support, must=region.must | within, needs=region.needs)

    def listed(self) -> Iterator[Hint]:
        """All hints in the kubelet's order: by size, then lexicographically. For small machines."""
        for size in range(1, len(self.nodes) + 1):
            for chosen in combinations(self.nodes, size):
                mask = mask_of(chosen)
                if self.contains(mask):
                    yield Hint(mask, self.is_preferred(mask))


ResourceHints = HintSet | Affinity
# What one provider says: None (no hints at all) or an answer per resource. An empty mapping
# means the same as None to the merge.
ProviderHints = Mapping[str, ResourceHints] | None
