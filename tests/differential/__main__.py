"""Hunts for differences: ``python -m tests.differential --count 2000 --seed 1``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.differential import peer
from tests.differential.comparing import Comparison, compare
from tests.differential.generator import FOCUSES, scenario

from numalign.core.settings import Version

BATCH = 10
PROGRESS = 200
TEXT_SHOWN = 1000
DIFFERENCES_SHOWN = 4


def main() -> int:
    """Runs the seeds that the command line names; fails where something differs."""
    options = _options()
    binary = options.binary or peer.build(options.kubernetes)
    seeds = range(options.seed, options.seed + options.count)
    batches = [seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH)]

    def work(batch: range) -> list[Comparison]:
        return compare(
            binary,
            [scenario(seed, options.focus) for seed in batch],
            options.kubernetes,
            runs=options.runs,
        )

    scenarios = steps = failed = broken = 0
    begun = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for results in pool.map(work, batches):
            for one in results:
                scenarios += 1
                steps += one.steps
                broken += one.broken is not None
                if one.differences:
                    failed += 1
                    _show(one, options.save)
            if sys.stderr.isatty() or scenarios % PROGRESS < BATCH:
                elapsed = time.monotonic() - begun
                progress = f"{scenarios} scenarios, {steps} steps, {failed} differ"
                sys.stderr.write(f"{progress}, {elapsed:.0f} s\n")
    counts = f"{scenarios} scenarios, {steps} steps, {broken} broke the real code"
    _say(f"{options.focus}: {counts}, {failed} differ")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="number of scenarios")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--focus", choices=FOCUSES, default="general")
    parser.add_argument("--runs", type=int, default=peer.RUNS, help="runs of the real code each")
    parser.add_argument("--kubernetes", type=Version, choices=list(Version), default=Version.V1_36)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--binary", type=Path, help="a built program, instead of building it")
    parser.add_argument("--save", type=Path, help="directory for the scenarios that differ")
    return parser.parse_args()


def _show(one: Comparison, save: Path | None) -> None:
    _say(f"seed {one.scenario['id']}:")
    for text in one.differences[:DIFFERENCES_SHOWN]:
        _say(f"    {text[:TEXT_SHOWN]}")
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / f"{one.scenario['id']}.json").write_text(json.dumps(one.scenario))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


sys.exit(main())
