"""Taking times and printing them as a table of ratios."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Times:
    """What one measurement gave, in microseconds."""

    least: float
    median: float
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: ours, the recorded Go figure, and Go in this very run."""

    name: str
    ours: Times
    go_recorded_us: float | None = None
    go_now_us: float | None = None
    target: float | None = None  # how many times faster than the recorded figure we want to be
    limit_us: float | None = None  # or an absolute limit
    note: str = ""


def measured(action: Callable[[], object], *, seconds: float = 0.5, least: int = 5) -> Times:
    """The times of an action, repeated for a while with the garbage collector off."""
    samples: list[float] = []
    gc.collect()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        while len(samples) < least or time.perf_counter() < end:
            start = time.perf_counter()
            action()
            samples.append((time.perf_counter() - start) * 1e6)
    finally:
        gc.enable()
    return times_of(samples)


def times_of(samples: list[float]) -> Times:
    """The summary of samples in microseconds."""
    return Times(min(samples), statistics.median(samples), len(samples))


def show(title: str, rows: Iterable[Row]) -> int:
    """Prints a table; the number of rows that miss their target."""
    print(f"\n{title}")
    head = f"  {'row':<52}{'min':>10}{'median':>10}{'Go min':>10}{'ratio':>13}"
    print(head + f"{'Go now':>11}{'ratio':>10}{'target':>9}")
    missed = 0
    for row in rows:
        ratio = None if row.go_recorded_us is None else row.go_recorded_us / row.ours.least
        now = None if row.go_now_us is None else row.go_now_us / row.ours.least
        ok = _is_met(row, ratio)
        missed += not ok
        target = f"{row.target:g}x" if row.target else ""
        if row.limit_us is not None:
            target = f"<{text(row.limit_us)}"
        print(
            f"  {row.name:<52}{text(row.ours.least):>10}{text(row.ours.median):>10}"
            f"{text(row.go_recorded_us):>10}{_times(ratio):>13}{text(row.go_now_us):>11}"
            f"{_times(now):>10}{target:>9}{'' if ok else '  MISSED'}{row.note and '  ' + row.note}"
        )
    return missed


def _is_met(row: Row, ratio: float | None) -> bool:
    if row.limit_us is not None and row.ours.median > row.limit_us:
        return False
    return row.target is None or ratio is None or ratio >= row.target


def text(microseconds: float | None) -> str:
    """A duration in the unit that fits."""
    if microseconds is None:
        return "-"
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} us"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x"
