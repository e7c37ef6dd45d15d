"""The ranking of a report in sentences: what each scheduler and each change of settings costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from numalign.apps.simulator.report.summary import AS_IS, Row, ranked


@dataclass(frozen=True, slots=True)
class _Differences:
    """Between two rows, as far as they are large enough to be told."""

    worse: tuple[str, ...]
    better: tuple[str, ...]


def words(found: Sequence[Row]) -> list[str]:
    """The best, what the other schedulers cost against it, and what each variant changes."""
    whole = [row for row in ranked(found) if row.is_whole]
    parts = [
        f"{row.label} is left out of the comparison: {row.jobs} pods had come."
        for row in found
        if not row.is_whole
    ]
    if not whole:
        return ["No run came to an end, so nothing is compared.", *parts]
    best = whole[0]
    said = [
        f"{best.label} does best: {_placed(best)}, {_refusals(best)}, and {_useless(best)} of what "
        "is idle is useless to the reference mix."
    ]
    as_is = [row for row in whole if row.variant == AS_IS]
    said += _grouped((row.label, _against(row, as_is[0])) for row in as_is[1:])
    changed = (row for row in whole if row.variant != AS_IS)
    by_scheduler = {row.scheduler: row for row in as_is}
    said += _grouped(
        (row.label, _changed(row, by_scheduler[row.scheduler]))
        for row in changed
        if row.scheduler in by_scheduler
    )
    return [*said, *parts]


def _grouped(said: Iterable[tuple[str, str]]) -> list[str]:
    """Those of whom the same is to be said in one sentence."""
    by_text: dict[str, list[str]] = {}
    for label, text in said:
        by_text.setdefault(text, []).append(label)
    return [f"{_listed(labels)}: {text}." for text, labels in by_text.items()]


def _against(row: Row, best: Row) -> str:
    found = _differences(row, best)
    if not found.worse:
        return f"as good as {best.label}"
    return f"{_listed(found.worse)} than with {best.label}" + _but(found.better)


def _changed(row: Row, before: Row) -> str:
    found = _differences(row, before)
    if not found.worse and not found.better:
        return "no difference that is told here"
    if not found.worse:
        return f"{_listed(found.better)} than as it is"
    return f"{_listed(found.worse)} than as it is" + _but(found.better)


def _but(better: Sequence[str]) -> str:
    return f", but {_listed(better)}" if better else ""


def _differences(row: Row, other: Row) -> _Differences:
    def mean(name: str) -> float:
        return row.values[name].mean - other.values[name].mean

    worse: list[str] = []
    better: list[str] = []

    def tell(amount: float, least: float, more: str, less: str) -> None:
        if abs(amount) >= least:
            (worse if amount > 0 else better).append(more if amount > 0 else less)

    pods = round(mean("unplaced") * row.jobs)
    tell(pods, 1, f"{pods} more pods without a place", f"{-pods} fewer pods without a place")
    count = mean("refusals")
    again = row.values["refused_again"].mean
    times = f"{abs(count):.0f}"
    more = f"{times} more refusals ({again:.0f} pods refused more than once)"
    tell(count, 0.5, more, f"{times} fewer refusals")
    apart = -mean("aligned") * 100
    tell(
        apart,
        0.05,
        f"{apart:.1f} % more of the pods on more NUMA nodes than they need",
        f"{-apart:.1f} % fewer of the pods on more NUMA nodes than they need",
    )
    useless = mean("f_numa_cpu_share") * 100
    tell(
        useless,
        0.1,
        f"{useless:.1f} points more of the idle CPUs useless",
        f"{-useless:.1f} points fewer of the idle CPUs useless",
    )
    wait = mean("wait_mean")
    tell(
        wait,
        1,
        f"{wait:.0f} s longer to a place on average",
        f"{-wait:.0f} s shorter to a place on average",
    )
    return _Differences(tuple(worse), tuple(better))


def _placed(row: Row) -> str:
    missing = row.values["unplaced"].mean * row.jobs
    if round(missing) == 0:
        return f"all {row.jobs} pods placed"
    return f"{row.jobs - round(missing)} of {row.jobs} pods placed"


def _refusals(row: Row) -> str:
    count = row.values["refusals"].mean
    return "no refusal" if count < 0.5 else f"{count:.0f} refusals"


def _useless(row: Row) -> str:
    return f"{row.values['f_numa_cpu_share'].mean * 100:.1f} %"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
