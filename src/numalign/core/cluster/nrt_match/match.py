"""Filter and scores of the NodeResourceTopologyMatch plugin for one pod on one host.

This is the plain version: exact numbers, one host at a time. ``columns`` gives the same answers
for all hosts at once and asks here where amounts do not fit its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from numalign.core.cluster.nrt_match.least_nodes import least_nodes_score
from numalign.core.cluster.nrt_match.need import Amounts, PodNeed, Why, is_host_level, whole
from numalign.core.cluster.nrt_match.record import HostRecord, ZoneRecord
from numalign.core.cluster.publish.zones import POD, SINGLE_NUMA_NODE

SCORE_MAX: Final = 100
Free = dict[int, dict[str, int]]  # what is left in each NUMA node
Weights = Mapping[str, int]


class Strategy(StrEnum):
    """How hosts that take the pod are compared."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    BALANCED_ALLOCATION = "BalancedAllocation"
    LEAST_NUMA_NODES = "LeastNUMANodes"


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Whether the host takes the pod, and the NUMA node of each check that succeeded."""

    why: Why
    nodes: tuple[int, ...] = ()


def filtered(host: HostRecord, need: PodNeed) -> FilterResult:
    if need.passes_anywhere:
        return FilterResult(Why.FITS)
    if not host.is_fresh:
        return FilterResult(Why.STALE)
    if host.zones is None or host.config.policy != SINGLE_NUMA_NODE:
        return FilterResult(Why.FITS)
    free = {zone.node: dict(zone.available) for zone in host.zones}
    if host.config.scope == POD:
        node = _node_for(host, free, need, need.total)
        return FilterResult(Why.POD) if node is None else FilterResult(Why.FITS, (node,))
    return _by_container(host, free, need)


def _by_container(host: HostRecord, free: Free, need: PodNeed) -> FilterResult:
    nodes: list[int] = []
    for ask in need.asks:
        node = _node_for(host, free, need, ask.amounts)
        if node is None:
            return FilterResult(ask.why, tuple(nodes))
        nodes.append(node)
        if ask.is_app and node in free:
            _take(free[node], need, ask.amounts)
    return FilterResult(Why.FITS, tuple(nodes))


def _node_for(host: HostRecord, free: Free, need: PodNeed, amounts: Amounts) -> int | None:
    """The lowest NUMA node that can hold all of it; 0 if nothing binds it to a node."""
    left: set[int] | None = None
    for name, amount in amounts.items():
        if amount == 0:
            continue
        if name not in host.offered:
            return None
        listing = {node: own[name] for node, own in free.items() if name in own}
        if not listing and is_host_level(name):
            continue
        is_counted = need.counts(name)
        good = {node for node, has in listing.items() if not is_counted or has >= amount}
        left = good if left is None else left & good
        if not left:
            return None
    return 0 if left is None else min(left)


def _take(own: dict[str, int], need: PodNeed, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        if name in own and need.counts(name):
            own[name] -= amount


# Scores.


def score(host: HostRecord, need: PodNeed, strategy: Strategy, weights: Weights) -> int:
    """The score of one host, without regard to the filter."""
    if not need.is_guaranteed:
        return SCORE_MAX
    if not host.is_fresh or host.zones is None:
        return 0
    if strategy is Strategy.LEAST_NUMA_NODES:
        return least_nodes_score(host, need)
    if host.config.policy != SINGLE_NUMA_NODE:
        return 0
    by_zone = _ZONE_SCORES[strategy]
    sets = [need.total] if host.config.scope == POD else [ask.amounts for ask in need.asks]
    scores = [_lowest(by_zone, host.zones, amounts, weights) for amounts in sets]
    return sum(scores) // len(scores) if scores else 0


_ByZone = Callable[[ZoneRecord, Amounts, Weights], int]


def _lowest(
    by_zone: _ByZone, zones: Sequence[ZoneRecord], amounts: Amounts, weights: Weights
) -> int:
    """The smallest score of a zone that has any."""
    if not amounts:
        return 0
    return min((s for zone in zones if (s := by_zone(zone, amounts, weights)) > 0), default=0)


def _least_allocated(zone: ZoneRecord, amounts: Amounts, weights: Weights) -> int:
    return _weighted(zone, amounts, weights, lambda has, asks: (has - asks) * SCORE_MAX // has)


def _most_allocated(zone: ZoneRecord, amounts: Amounts, weights: Weights) -> int:
    return _weighted(zone, amounts, weights, lambda has, asks: asks * SCORE_MAX // has)


def _weighted(
    zone: ZoneRecord, amounts: Amounts, weights: Weights, part: Callable[[int, int], int]
) -> int:
    total = of = 0
    for name, amount in amounts.items():
        weight = weight_of(weights, name)
        of += weight
        has = zone.available.get(name, 0)
        if 0 < has >= amount:
            total += part(whole(has), whole(amount)) * weight
    return total // of


def weight_of(weights: Weights, name: str) -> int:
    """The weight of a resource: at least one, also where none is named."""
    return max(1, weights.get(name, 1))


def _balanced(zone: ZoneRecord, amounts: Amounts, _: Weights) -> int:
    parts = []
    for name, amount in amounts.items():
        has = whole(zone.available.get(name, 0))
        part = whole(amount) / has if has else 1.0
        if part > 1:
            return 0
        parts.append(part)
    return int((1 - variance(parts)) * SCORE_MAX)


def variance(parts: Sequence[float]) -> float:
    """The sample variance; nothing for a single number, where the plugin divides by zero."""
    count = len(parts)
    if count < 2:
        return 0.0
    mean = sum(parts) / count
    return sum((part - mean) * (part - mean) for part in parts) / (count - 1)


_ZONE_SCORES: Final[Mapping[Strategy, _ByZone]] = {
    Strategy.LEAST_ALLOCATED: _least_allocated,
    Strategy.MOST_ALLOCATED: _most_allocated,
    Strategy.BALANCED_ALLOCATION: _balanced,
}
