"""LeastNUMANodes over columns: the rules of ``least_nodes``, for hosts with equal distances.

Nearly every container fits one NUMA node, so that case is done for all hosts together; only the
hosts that need more are looked at set by set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from numalign.core.cluster.nrt_match.columns import NOT_LISTED, Bools, Ints, Lines, unit_of
from numalign.core.cluster.nrt_match.least_nodes import SCORE_MAX, Distances, sets_of_size
from numalign.core.cluster.nrt_match.need import Amounts, PodNeed

ZONES_MAX: Final = 8  # hosts with more zones are asked one by one
_LISTED: Final = NOT_LISTED // 2  # amounts above this are listed, whatever was taken off


def scored(
    lines: Lines, need: PodNeed, known: Sequence[Distances], wanted: Bools
) -> tuple[Ints, Bools]:
    """The score of each wanted host, and which of them must be asked one by one."""
    if not need.is_guaranteed:
        return np.full(lines.count, SCORE_MAX, np.int64), np.zeros(lines.count, np.bool_)
    scores = np.zeros(lines.count, np.int64)
    left = np.zeros(lines.count, np.bool_)
    asked = lines.is_present & lines.has_zones & ~lines.is_stale
    for is_pod, sets in ((False, [a.amounts for a in need.asks]), (True, [need.total])):
        here = asked & (lines.is_pod_scope == is_pod)
        for number in np.unique(lines.distances[here]).tolist():
            alike = np.flatnonzero(here & (lines.distances == number))
            if len(known[number]) > ZONES_MAX:
                left[alike] = True
            else:
                hosts = _Alike(lines, alike, known[number])
                scores[alike] = hosts.score(sets, wanted[alike])
    return scores, left & wanted


class _Alike:
    """Hosts with the same distances, while one pod is tried on them."""

    def __init__(self, lines: Lines, hosts: Ints, distances: Distances) -> None:
        depth = len(distances)
        part: Any = slice(None) if len(hosts) == lines.count else hosts
        self.distances = distances
        self.free = {name: table[:depth, part] for name, table in lines.amounts.items()}
        self.is_own: set[str] = set() if isinstance(part, slice) else set(self.free)
        self.listed = {name: column[part] for name, column in lines.listed.items()}
        self.units = SCORE_MAX // lines.max_nodes[part]
        self.count = len(hosts)
        self.shape = (depth, self.count)

    def score(self, sets: Sequence[Amounts], fits: Bools) -> Ints:
        """The score for these amounts, one set after the other, where they still fit."""
        any_asked = np.zeros(self.count, np.bool_)
        is_optimal = np.ones(self.count, np.bool_)
        most = np.zeros(self.count, np.int64)
        for number, amounts in enumerate(sets):
            asked = np.zeros(self.count, np.bool_)
            for name in amounts:
                if name in self.listed:
                    asked |= self.listed[name]
            any_asked |= asked
            later = {name for other in sets[number + 1 :] for name in other}
            size, optimal = self._required(asked & fits, amounts, later)
            fits &= ~asked | (size > 0)
            is_optimal &= optimal | (size == 0)
            np.maximum(most, size, out=most)
        scores = SCORE_MAX - most * self.units + np.where(is_optimal, self.units // 2, 0)
        return np.where(any_asked, np.where(fits, scores, 0), SCORE_MAX)

    def _required(self, waiting: Bools, amounts: Amounts, later: set[str]) -> tuple[Ints, Bools]:
        """How many zones each waiting host gives (0: none), and whether none lie closer.

        What is given is taken off, as far as it matters later.
        """
        size = np.zeros(self.count, np.int64)
        optimal = np.zeros(self.count, np.bool_)
        if any(name not in self.free for name in amounts):
            return size, optimal  # no zone lists all of it
        wanted = {n: nanos // unit_of(n) for n, nanos in amounts.items()}
        chosen = self._single(waiting, wanted, optimal)
        is_single = np.logical_or.reduce(chosen, axis=0)
        size[is_single] = 1
        drained = {name: wanted[name] for name in wanted if name in later and wanted[name]}
        for name in drained:
            self._make_own(name)
        rest = np.flatnonzero(waiting & ~is_single)
        if rest.size:
            self._several(rest, wanted, size, optimal, drained)
        if drained:
            given = chosen.astype(np.int64)  # once, and not in each product
            for name, amount in drained.items():
                self.free[name] -= given * amount
        return size, optimal

    def _single(self, waiting: Bools, wanted: Mapping[str, int], optimal: Bools) -> Bools:
        """The one zone that each waiting host gives, if one will do."""
        good = np.broadcast_to(waiting, self.shape).copy()
        for name, amount in wanted.items():
            good &= self.free[name] >= (amount or _LISTED)
        left = np.ones(self.count, np.bool_)
        chosen = np.zeros(self.shape, np.bool_)
        for choice in sets_of_size(self.distances, 1):
            (zone,) = choice.positions
            here = np.logical_and(good[zone], left, out=chosen[zone])
            np.greater(left, here, out=left)  # left and not here
            if choice.is_optimal:
                optimal |= here
        return chosen

    def _several(
        self,
        hosts: Ints,
        wanted: Mapping[str, int],
        size: Ints,
        optimal: Bools,
        drained: Mapping[str, int],
    ) -> None:
        """The same for hosts that need more than one zone; writes size, optimal and free."""
        own = np.ones((self.shape[0], hosts.size), np.bool_)
        for name in wanted:
            own &= self.free[name][:, hosts] > _LISTED
        wanted = {name: amount for name, amount in wanted.items() if amount}
        # Zones that do not list everything give nothing, so they cannot make a set large enough.
        tables = {name: np.where(own, self.free[name][:, hosts], 0) for name in wanted}
        possible = np.ones(hosts.size, np.bool_)
        for name, amount in wanted.items():
            possible &= tables[name].sum(axis=0) >= amount
        for count in range(2, self.shape[0] + 1):
            if not possible.any():
                return
            kept = np.flatnonzero(possible)
            hosts, own, possible = hosts[kept], own[:, kept], possible[kept]
            tables = {name: table[:, kept] for name, table in tables.items()}
            for choice in sets_of_size(self.distances, count):
                rows = list(choice.positions)
                fit = possible & np.logical_and.reduce(own[rows], axis=0)
                for name, amount in wanted.items():
                    fit &= tables[name][rows].sum(axis=0) >= amount
                if fit.any():
                    size[hosts[fit]] = count
                    optimal[hosts[fit]] = choice.is_optimal
                    self._drain(hosts[fit], rows, drained)
                    possible &= ~fit

    def _drain(self, hosts: Ints, zones: Sequence[int], amounts: Mapping[str, int]) -> None:
        for name, amount in amounts.items():
            table = self.free[name]
            left = np.full(hosts.size, amount)
            for zone in zones:
                part = np.minimum(table[zone, hosts], left)
                table[zone, hosts] -= part
                left -= part

    def _make_own(self, name: str) -> None:
        if name not in self.is_own:
            self.free[name] = self.free[name].copy()
            self.is_own.add(name)
