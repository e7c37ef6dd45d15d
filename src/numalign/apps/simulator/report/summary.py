"""The runs of a scenario summed up: a row for each variant and scheduler, ranked."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from numalign.core.fleet.simulation.model import RunResult

AS_IS: Final = "as-is"  # the settings of the scenario, without a variant
SETTLED: Final = 0.5  # samples before this share of the run are the filling of an empty fleet


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over the seeds."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """One scheduler in one variant."""

    variant: str
    scheduler: str
    seeds: int
    jobs: int
    values: dict[str, Spread]
    refusals: dict[str, int]  # by reason, of all seeds
    is_whole: bool = True  # False: at least one run was interrupted, so nothing compares with it

    @property
    def label(self) -> str:
        name = self.scheduler if self.variant == AS_IS else f"{self.variant}: {self.scheduler}"
        return name if self.is_whole else f"{name} (interrupted)"


def rows(results: Sequence[RunResult]) -> list[Row]:
    """A row for each variant and scheduler, in the order of the scenario."""
    groups: dict[tuple[str, str], list[RunResult]] = {}
    for result in results:
        groups.setdefault((result.variant, result.scheduler), []).append(result)
    return [_row(*key, found) for key, found in groups.items()]


def ranked(found: Sequence[Row]) -> list[Row]:
    """The best first: most placed, fewest refusals, most sit close together, least fragmented."""
    return sorted(
        found,
        key=lambda row: (
            not row.is_whole,
            round(row.values["unplaced"].mean, 4),
            round(row.values["refusals"].mean, 2),
            round(1 - row.values["aligned"].mean, 4),
            round(row.values["f_numa_cpu_share"].mean, 4),
        ),
    )


def _row(variant: str, scheduler: str, runs: Sequence[RunResult]) -> Row:
    single: dict[str, Callable[[RunResult], float]] = {
        "unplaced": lambda r: 1 - r.placed / r.jobs if r.jobs else 0.0,
        "refusals": lambda r: float(sum(r.refusals.values())),
        "refused_jobs": lambda r: float(r.refused_jobs),
        "refused_again": lambda r: float(r.refused_again),
        "given_up": lambda r: float(r.given_up),
        "wait_mean": lambda r: statistics.fmean(r.waits) if r.waits else 0.0,
        "wait_p95": lambda r: percentile(r.waits, 95),
        "wait_max": lambda r: max(r.waits, default=0.0),
        "aligned": lambda r: r.aligned / r.placed if r.placed else 0.0,
        "distance": lambda r: r.distance_sum / r.placed if r.placed else 0.0,
    }
    values = {name: Spread.of([value(run) for run in runs]) for name, value in single.items()}
    for name in _sampled(runs):
        assert name not in values, f"{name} is measured over time and counted at the end"
        values[name] = Spread.of([_settled(run, name) for run in runs])
    refusals: dict[str, int] = {}
    for run in runs:
        for reason, count in sorted(run.refusals.items()):
            refusals[reason] = refusals.get(reason, 0) + count
    is_whole = all(run.is_complete for run in runs)
    return Row(variant, scheduler, len(runs), runs[0].jobs, values, refusals, is_whole)


def _sampled(runs: Sequence[RunResult]) -> list[str]:
    return list(runs[0].samples[0].values) if all(run.samples for run in runs) else []


def _settled(run: RunResult, name: str) -> float:
    """The mean of a measure once the fleet has filled up."""
    late = run.samples[int(len(run.samples) * SETTLED) :]
    return statistics.fmean(sample.values[name] for sample in late)


def percentile(values: Sequence[float], per_cent: int) -> float:
    """The value below which so many per cent are, by nearest rank."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * per_cent // 100) - 1))]
