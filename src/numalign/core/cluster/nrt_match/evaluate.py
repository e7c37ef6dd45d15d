"""One pod against all hosts by the common rules: who takes it, and with which score.

What was found for a pod is kept: for the next pod with the same needs only hosts that have changed
since are looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from numalign.core.cluster.nrt_match import filter_columns, least_nodes_columns, match
from numalign.core.cluster.nrt_match.columns import (
    AMOUNT_LIMIT,
    Bools,
    Columns,
    Ints,
    Lines,
    Slots,
    Whys,
    unit_of,
)
from numalign.core.cluster.nrt_match.filter_columns import ABSENT
from numalign.core.cluster.nrt_match.match import Strategy, Weights
from numalign.core.cluster.nrt_match.need import Amounts, PodNeed, Why

_NEEDS_KEPT_MAX: Final = 64
_CELLS_AT_ONCE: Final = 80_000
_WEIGHTS_MAX: Final = 2**30  # sums of weighted scores stay exact


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the filter and a strategy say of one pod on every host, by slot."""

    whys: Whys  # Why, or ABSENT where there is no host
    scores: Ints

    @property
    def fitting(self) -> Bools:
        # As a plain number: numpy asks an enumeration many questions.
        fitting: Bools = self.whys == int(Why.FITS)
        return fitting


def evaluated(
    columns: Columns,
    need: PodNeed,
    strategy: Strategy,
    weights: Weights,
    slots: Slots | None = None,
    *,
    scores_all: bool = False,
) -> Evaluation:
    """The evaluation of these slots (in their order) or of all.

    Only hosts that take the pod get a score, unless ``scores_all``.
    """
    if slots is not None:
        return _part(columns, need, strategy, weights, slots, scores_all=scores_all)
    # More at once is no faster, and less of it stays in the processor's cache.
    step = max(1, _CELLS_AT_ONCE // columns.depth)
    parts = [
        _part(columns, need, strategy, weights, slice(start, start + step), scores_all=scores_all)
        for start in range(0, columns.size, step)
    ]
    if not parts:
        return Evaluation(np.zeros(0, np.int8), np.zeros(0, np.int64))
    return Evaluation(
        np.concatenate([part.whys for part in parts]),
        np.concatenate([part.scores for part in parts]),
    )


def _part(
    columns: Columns,
    need: PodNeed,
    strategy: Strategy,
    weights: Weights,
    slots: Slots | slice,
    *,
    scores_all: bool,
) -> Evaluation:
    if not _is_plain_need(need, weights):
        return _one_by_one(columns, need, strategy, weights, slots)
    lines = columns.lines(slots)
    whys = filter_columns.filtered(lines, need)
    wanted = np.ones(lines.count, np.bool_) if scores_all else whys == Why.FITS
    if np.count_nonzero(wanted) * 2 > lines.count:
        scores = _scored(columns, lines, need, strategy, weights, wanted)
    else:
        scores = np.zeros(lines.count, np.int64)
        here = np.flatnonzero(wanted)
        some = columns.lines(here + slots.start if isinstance(slots, slice) else slots[here])
        every = np.ones(len(here), np.bool_)
        scores[here] = _scored(columns, some, need, strategy, weights, every)
    for position, record in columns.odd_among(slots):
        whys[position] = match.filtered(record, need).why
        scores[position] = match.score(record, need, strategy, weights)
    return Evaluation(whys, scores)


def _scored(
    columns: Columns,
    lines: Lines,
    need: PodNeed,
    strategy: Strategy,
    weights: Weights,
    wanted: Bools,
) -> Ints:
    if strategy is not Strategy.LEAST_NUMA_NODES:
        return filter_columns.scored(lines, need, strategy, weights)
    scores, left = least_nodes_columns.scored(lines, need, columns.distances_known(), wanted)
    for position in np.flatnonzero(left).tolist():
        record = columns.record(int(lines.slots[position]))
        if record is not None:
            scores[position] = match.score(record, need, strategy, weights)
    return scores


def _is_plain_need(need: PodNeed, weights: Weights) -> bool:
    """Whether a pod can be compared in columns at all."""
    return (
        _is_plain(need.total)
        and all(_is_plain(ask.amounts) for ask in need.asks)
        and all(weight < _WEIGHTS_MAX for weight in weights.values())
    )


def _is_plain(amounts: Amounts) -> bool:
    return all(
        nanos % unit_of(name) == 0 and 0 <= nanos < AMOUNT_LIMIT * unit_of(name)
        for name, nanos in amounts.items()
    )


def _one_by_one(
    columns: Columns,
    need: PodNeed,
    strategy: Strategy,
    weights: Weights,
    slots: Slots | slice,
) -> Evaluation:
    listed = columns.numbers(slots).tolist()
    whys = np.full(len(listed), ABSENT, np.int8)
    scores = np.zeros(len(listed), np.int64)
    for position, slot in enumerate(listed):
        record = columns.record(slot)
        if record is not None:
            whys[position] = match.filtered(record, need).why
            scores[position] = match.score(record, need, strategy, weights)
    return Evaluation(whys, scores)


@dataclass(slots=True)
class _Known:
    whys: Whys
    scores: Ints
    seen: int  # how many changes of the columns it takes into account


class Evaluator:
    """Evaluations by one strategy that follow the changes of the columns."""

    def __init__(self, columns: Columns, strategy: Strategy, weights: Weights) -> None:
        self._columns = columns
        self._strategy = strategy
        self._weights = dict(weights)
        self._known: dict[tuple[object, ...], _Known] = {}

    def evaluated(self, need: PodNeed) -> Evaluation:
        """The evaluation of all slots as they are now; it must not be kept."""
        columns = self._columns
        known = self._known.pop(need.key, None)
        now = columns.change_count
        changed = columns.changed_since(known.seen) if known is not None else None
        if known is None or changed is None or len(known.whys) != columns.size:
            fresh = evaluated(columns, need, self._strategy, self._weights)
            known = _Known(fresh.whys, fresh.scores, now)
        elif changed:
            slots = np.array(sorted(changed), np.intp)
            part = evaluated(columns, need, self._strategy, self._weights, slots)
            known.whys[slots] = part.whys
            known.scores[slots] = part.scores
            known.seen = now
        self._known[need.key] = known  # the last one in is the last one out
        if len(self._known) > _NEEDS_KEPT_MAX:
            del self._known[next(iter(self._known))]
        return Evaluation(known.whys, known.scores)
