"""``python -m bench.cluster``: every mode of our scheduler beside the stock one alone.

Ratios are to the stock scheduler's median in the same call. Pods pass several programs one after
the other, so where the cores are few or busy, the CPU time of each program per pod tells more.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from collections.abc import Sequence

from tests.real.kept import MissingError

from bench.cluster.runs import GATED, OURS, Mode, Run, Size, measured

ONE_CALL = ("filter",)
THREE_CALLS = ("filter", "prioritize", "bind")
MODES = (
    Mode("stock"),
    Mode("pre-place", ("--pre-place",), spec=GATED),
    Mode("one-call-exact", ("--extender",), ONE_CALL),
    Mode("one-call-common", ("--extender", "--level=upstream"), ONE_CALL),
    Mode("three-calls-exact", ("--extender", "--three-calls"), THREE_CALLS),
    Mode("three-calls-common", ("--extender", "--three-calls", "--level=upstream"), THREE_CALLS),
    Mode("standalone", ("--standalone",), has_stock=False, spec={"schedulerName": OURS}),
)
TARGETS = {  # of the stock scheduler's rate, and ms of our own CPU per pod
    "pre-place": (0.45, 1.5),
    "one-call-exact": (0.40, 1.0),
    "one-call-common": (0.45, 1.0),
    "standalone": (0.7, None),
}
STALLED_SECONDS = 60.0


def main() -> int:
    """Runs what was asked for and prints one line for each row."""
    options = _options()
    chosen = [mode for mode in MODES if mode.name in options.rows]
    size = Size(options.hosts, options.pods, options.seconds)
    try:
        if options.stalls:
            return _count_stalls(chosen, options.stalls, size)
        table(chosen, options.runs, size)
    except MissingError as missing:
        print(f"  not measured: {missing}")
    return 0


def table(modes: Sequence[Mode] = MODES, runs: int = 3, size: Size | None = None) -> None:
    """The rows one after the other, run by run, so that a busy moment harms all alike."""
    size = size or Size()
    print(f"\n{size.pods} pods over {size.hosts} hosts, real API server, medians of {runs}")
    print(f"  {os.cpu_count()} cores for all programs; load {os.getloadavg()[0]:.1f} before")
    found: dict[str, list[Run]] = {mode.name: [] for mode in modes}
    for number in range(runs):
        for mode in modes:
            found[mode.name].append(measured(mode, size))
            _say(f"    run {number + 1}, {mode.name}: {_short(found[mode.name][-1])}")
    stock = found.get("stock")
    rate = statistics.median(run.per_second for run in stock) if stock else None
    for name, of_row in found.items():
        print(_row(name, of_row, rate))
    print(f"  load {os.getloadavg()[0]:.1f} after")


def _row(name: str, runs: Sequence[Run], stock: float | None) -> str:
    rate = statistics.median(run.per_second for run in runs)
    ratio = rate / stock if stock and name != "stock" else None
    programs = {program: None for run in runs for program in run.cpu_ms}
    used = {p: statistics.median(run.cpu_ms.get(p, 0.0) for run in runs) for p in programs}
    left = sum(run.left for run in runs)
    wanted, own_ms = TARGETS.get(name, (None, None))
    missed = (
        (ratio is not None and wanted is not None and ratio < wanted)
        or (own_ms is not None and used[OURS] > own_ms)
        or left
    )
    shown = "" if ratio is None else f"{ratio:6.2f} of stock"
    target = "" if wanted is None else f" (target {wanted:.2f})"
    first = f"  {name:<20}{rate:8.0f} pods/s{shown}{target}{'  MISSED' if missed else ''}"
    second = ", ".join(f"{program} {ms:.2f}" for program, ms in used.items())
    total = f"      ms of CPU per pod: {sum(used.values()):.2f} ({second})"
    lost = f"\n      {left} pods had no host after {len(runs)} runs" if left else ""
    return f"{first}\n{total}{lost}"


def _count_stalls(modes: Sequence[Mode], runs: int, size: Size) -> int:
    """How many runs leave a pod without a host; these get a minute only."""
    size = Size(size.hosts, size.pods, STALLED_SECONDS)
    for mode in modes:
        stalled = 0
        for number in range(runs):
            run = measured(mode, size)
            stalled += bool(run.left)
            _say(f"    run {number + 1}, {mode.name}: {_short(run)}")
        print(f"  {mode.name}: pods left after {STALLED_SECONDS:g} s in {stalled} of {runs} runs")
    return 0


def _short(run: Run) -> str:
    own = f", ours {run.cpu_ms[OURS]:.2f} ms" if OURS in run.cpu_ms else ""
    memory = f", {run.memory_mb[OURS]:.0f} MB" if OURS in run.memory_mb else ""
    return f"{run.per_second:.0f} pods/s{own}{memory}, {run.left} left"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    names = [mode.name for mode in MODES]
    parser.add_argument("rows", nargs="*", default=names, help=f"of {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=3, help="of each row (3)")
    parser.add_argument("--hosts", type=int, default=Size().hosts, help="(500)")
    parser.add_argument("--pods", type=int, default=Size().pods, help="(1000)")
    parser.add_argument("--seconds", type=float, default=Size().seconds_max, help="at most (300)")
    parser.add_argument(
        "--stalls", type=int, default=0, help="so many runs of a minute: in how many is a pod left?"
    )
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in names]
    if unknown:
        parser.error(f"found {', '.join(unknown)}, expected rows of {', '.join(names)}")
    return options


if __name__ == "__main__":
    # Without this the programs of a control plane would outlive a run that is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
