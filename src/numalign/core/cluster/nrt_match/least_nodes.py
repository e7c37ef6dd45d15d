"""LeastNUMANodes: how few NUMA nodes a pod could be spread over, and how close they are.

Sets of nodes are tried by size, and within a size by their average distance, then by position. That
order depends on the distances alone, so hosts with equal distances share it (``sets_of_size``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

from numalign.core.cluster.nrt_match.need import Amounts, PodNeed
from numalign.core.cluster.nrt_match.record import HostRecord, ZoneRecord
from numalign.core.cluster.publish.zones import POD

SCORE_MAX: Final = 100
UNKNOWN_DISTANCE: Final = 255
_DISTANCE_LIMIT: Final = 256  # sets that lie as far apart as this are never taken
_SETS_MAX: Final = 20_000  # of one size; enough for all sets of 16 nodes
_CACHE_SIZE: Final = 64  # distances x sizes

Distances = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeSetChoice:
    """Some NUMA nodes by position, and whether no set of this size lies closer together."""

    positions: tuple[int, ...]
    is_optimal: bool


def distances_of(zones: Sequence[ZoneRecord]) -> Distances:
    """The distances between the zones by position; 255 where none is given."""
    return tuple(
        tuple(zone.costs.get(other.node, UNKNOWN_DISTANCE) for other in zones) for zone in zones
    )


@lru_cache(_CACHE_SIZE)
def sets_of_size(distances: Distances, size: int) -> tuple[NodeSetChoice, ...]:
    """The sets of this many nodes in the order in which they are taken."""
    found: list[tuple[float, tuple[int, ...]]] = []
    for number, positions in enumerate(combinations(range(len(distances)), size)):
        if number >= _SETS_MAX:
            break
        total = sum(distances[i][j] for i in positions for j in positions)
        found.append((_single(total / size**2), positions))
    closest = min([UNKNOWN_DISTANCE, *(distance for distance, _ in found)])
    return tuple(
        NodeSetChoice(positions, distance == closest)
        for distance, positions in sorted(found)
        if distance < _DISTANCE_LIMIT
    )


def _single(number: float) -> float:
    """The nearest number of single precision."""
    single: float = struct.unpack("f", struct.pack("f", number))[0]
    return single


def least_nodes_score(host: HostRecord, need: PodNeed) -> int:
    zones = host.zones or ()
    distances = distances_of(zones)
    free = [dict(zone.available) for zone in zones]
    sets = [need.total] if host.config.scope == POD else [ask.amounts for ask in need.asks]
    most, is_optimal, is_asked = 0, True, False
    for amounts in sets:
        if not any(name in own for name in amounts for own in free):
            continue
        choice = _required(distances, free, amounts)
        if choice is None:
            return 0
        is_asked = True
        most = max(most, len(choice.positions))
        is_optimal = is_optimal and choice.is_optimal
        _drain([free[i] for i in choice.positions], amounts)
    if not is_asked:
        return SCORE_MAX
    return score_of(most, host.config.max_nodes, is_optimal=is_optimal)


def score_of(count: int, max_nodes: int, *, is_optimal: bool) -> int:
    unit = SCORE_MAX // max_nodes
    return SCORE_MAX - count * unit + (unit // 2 if is_optimal else 0)


def _required(
    distances: Distances, free: Sequence[dict[str, int]], amounts: Amounts
) -> NodeSetChoice | None:
    for choice in _choices(distances, free, amounts):
        nodes = [free[i] for i in choice.positions]
        if all(
            amount == 0 or sum(own[name] for own in nodes) >= amount
            for name, amount in amounts.items()
        ):
            return choice
    return None


def _choices(
    distances: Distances, free: Sequence[dict[str, int]], amounts: Amounts
) -> Iterator[NodeSetChoice]:
    """The sets whose every node lists every resource, of the sizes that could do at all."""
    listing = {i for i, own in enumerate(free) if all(name in own for name in amounts)}
    for size in range(1, len(listing) + 1):
        if any(
            sum(sorted(free[i][name] for i in listing)[-size:]) < amount
            for name, amount in amounts.items()
            if amount
        ):
            continue
        for choice in sets_of_size(distances, size):
            if listing.issuperset(choice.positions):
                yield choice


def _drain(nodes: Sequence[dict[str, int]], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        left = amount
        for own in nodes:
            part = min(own.get(name, 0), left)
            own[name] = own.get(name, 0) - part
            left -= part
