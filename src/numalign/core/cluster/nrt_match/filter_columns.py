"""Filter and use-based scores over columns: the rules of ``match``, for many hosts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from numalign.core.cluster.nrt_match.columns import (
    NOT_LISTED,
    Bools,
    Floats,
    Ints,
    Lines,
    Whys,
    unit_of,
)
from numalign.core.cluster.nrt_match.match import SCORE_MAX, Strategy, Weights, weight_of
from numalign.core.cluster.nrt_match.need import Amounts, Ask, PodNeed, Why, is_host_level, whole

ABSENT: Final = -1  # in a column of Why: no host in this slot
_LISTED: Final = NOT_LISTED // 2  # amounts above this are listed, whatever was taken off

Tables = Mapping[str, Ints]
Percents = npt.NDArray[np.uint8]


def filtered(lines: Lines, need: PodNeed) -> Whys:
    """Why each host is passed over, or that it takes the pod."""
    whys = np.full(lines.count, ABSENT, np.int8)
    whys[lines.is_present] = Why.FITS
    if need.passes_anywhere:
        return whys
    asked = lines.is_present & lines.has_zones & lines.is_single & ~lines.is_stale
    by_pod = asked & lines.is_pod_scope
    by_container = asked & ~lines.is_pod_scope
    if by_container.any():
        np.copyto(whys, _by_container(lines, need), where=by_container)
    if by_pod.any():
        fits = _fitting(lines, lines.amounts, need, need.total)[1]
        whys[by_pod & ~fits] = Why.POD
    whys[lines.is_present & lines.is_stale] = Why.STALE
    return whys


def _by_container(lines: Lines, need: PodNeed) -> Whys:
    whys = np.zeros(lines.count, np.int8)
    free: dict[str, Ints] = dict(lines.amounts)
    for number, ask in enumerate(need.asks):
        good, fits = _fitting(lines, free, need, ask.amounts)
        whys[~fits & (whys == Why.FITS)] = ask.why
        if ask.is_app:
            later = {name for other in need.asks[number + 1 :] for name in other.amounts}
            _take(free, need, ask, good, later)
    return whys


def _fitting(
    lines: Lines, free: Tables, need: PodNeed, amounts: Amounts
) -> tuple[Bools | None, Bools]:
    """The zones that can hold all of it (None: nothing binds it to a zone), and the hosts."""
    good: Bools | None = None
    fits = np.ones(lines.count, np.bool_)
    for name, nanos in amounts.items():
        if nanos == 0:
            continue
        if name not in lines.offered:
            return None, np.zeros(lines.count, np.bool_)
        fits &= lines.offered[name]
        if name not in free:
            if is_host_level(name):
                continue
            return None, np.zeros(lines.count, np.bool_)
        least = nanos // unit_of(name) if need.counts(name) else _LISTED
        has = free[name] >= least
        if is_host_level(name) and not lines.listed[name].all():
            has |= ~lines.listed[name]
        good = has if good is None else np.logical_and(good, has, out=good)
    if good is not None:
        fits &= np.logical_or.reduce(good, axis=0)
    return good, fits


def _take(
    free: dict[str, Ints],
    need: PodNeed,
    ask: Ask,
    good: Bools | None,
    later: set[str],
) -> None:
    """Takes the amounts off the lowest zone that can hold them, where it matters later."""
    taken = [
        (name, nanos // unit_of(name))
        for name, nanos in ask.amounts.items()
        if nanos and name in later and name in free and need.counts(name)
    ]
    if good is None or not taken:
        return
    # A difference with numbers is ten times faster than one that is held to a mask, and a mask is
    # better made to numbers once than in each product.
    chosen = first_of(good).astype(np.int64)
    for name, amount in taken:
        free[name] = free[name] - chosen * amount


def first_of(good: Bools) -> Bools:
    """For each host only the first of its good zones."""
    chosen = good.copy()
    waiting = ~good[0]
    for zone in range(1, len(good)):
        chosen[zone] &= waiting
        np.greater(waiting, good[zone], out=waiting)  # waiting and not good
    return chosen


# Scores.


def scored(lines: Lines, need: PodNeed, strategy: Strategy, weights: Weights) -> Ints:
    """The score of each host by use; LeastNUMANodes is in ``least_nodes_columns``."""
    if not need.is_guaranteed:
        return np.full(lines.count, SCORE_MAX, np.int64)
    scores = np.zeros(lines.count, np.int64)
    asked = lines.has_zones & lines.is_single & ~lines.is_stale
    by_pod = asked & lines.is_pod_scope
    by_container = asked & ~lines.is_pod_scope
    if by_container.any():
        sets = [ask.amounts for ask in need.asks]
        np.copyto(scores, _mean(lines, sets, strategy, weights), where=by_container)
    if by_pod.any():
        np.copyto(scores, _mean(lines, [need.total], strategy, weights), where=by_pod)
    return scores


def _mean(lines: Lines, sets: Sequence[Amounts], strategy: Strategy, weights: Weights) -> Ints:
    total = np.zeros(lines.count, np.int64)
    for amounts in sets:
        if not amounts:
            continue
        if strategy is Strategy.BALANCED_ALLOCATION:
            total += _balance(lines, amounts)
        else:
            is_most = strategy is Strategy.MOST_ALLOCATED
            total += _use(lines, amounts, weights, is_most=is_most)
    return total // max(1, len(sets))


def _use(lines: Lines, amounts: Amounts, weights: Weights, *, is_most: bool) -> Percents:
    """The smallest score of a zone that has any, by how much of it is asked for."""
    shape = (lines.depth, lines.count)
    share, fits = np.empty(shape), np.empty(shape, np.bool_)
    all_of_it = np.full(lines.count, float(SCORE_MAX))
    of = sum(weight_of(weights, name) for name in amounts)
    # The fewer bytes the sums have, the faster they are.
    total = np.zeros(shape, np.uint16 if of * SCORE_MAX < 2**16 else np.uint64)
    for name, nanos in amounts.items():
        if name not in lines.amounts:
            continue
        # A share of nothing is a share of infinity here, which is none.
        np.divide(whole(nanos) * SCORE_MAX, lines.values[name], out=share)
        if not is_most:
            np.ceil(share, out=share)
        percents = np.minimum(share, all_of_it, out=share).astype(np.uint8)
        if not is_most:
            np.subtract(SCORE_MAX, percents, out=percents)
        np.greater_equal(lines.amounts[name], max(1, nanos // unit_of(name)), out=fits)
        percents *= fits
        weight = weight_of(weights, name)
        total += percents if weight == 1 else percents.astype(total.dtype) * weight
    total //= of
    # One less than nothing is the highest number there is, so that nothing is never the least.
    least: Percents = np.minimum.reduce(total.astype(np.uint8) - np.uint8(1), axis=0)
    return least + np.uint8(1)


def _balance(lines: Lines, amounts: Amounts) -> Percents:
    """The smallest score of a zone that has any, by how even the asked shares of it are.

    That is the score of the zone where they are least even. A zone that could hold the amounts
    scores 50 at least: parts of one cannot lie further apart.
    """
    parts: list[Floats] = []
    possible = lines.is_zone.copy()
    for name, nanos in amounts.items():
        if name not in lines.amounts:
            parts.append(np.ones((lines.depth, lines.count)))
            continue
        # A share of nothing is all of it here.
        part = whole(nanos) / lines.values[name]
        part += lines.blanks[name]
        possible &= part <= 1
        parts.append(part)
    any_possible: Bools = np.logical_or.reduce(possible, axis=0)
    if len(parts) < 2:
        return any_possible * np.uint8(SCORE_MAX)
    squares = _squares(parts)
    squares *= possible
    variance: Floats = np.maximum.reduce(squares, axis=0) / (len(parts) - 1)
    return ((1 - variance) * SCORE_MAX).astype(np.uint8) * any_possible


def _squares(parts: Sequence[Floats]) -> Floats:
    """The sum of the squared distances from the mean; the tables are used up."""
    mean = parts[0] + parts[1]
    for part in parts[2:]:
        mean += part
    mean /= len(parts)
    for part in parts:
        np.subtract(part, mean, out=part)
        np.multiply(part, part, out=part)
    squares = parts[0]
    for part in parts[1:]:
        squares += part
    return squares
