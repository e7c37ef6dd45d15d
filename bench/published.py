"""``python -m bench.published``: the simulation of a published experiment, for comparison.

"Beware of Fragmentation" (USENIX ATC 23) placed GPU-sharing pods on 1,213 hosts with six policies.
This prints what our engine makes of the same hosts and pods: means over the seeds of the allocated
and the fragmented share of all GPUs, by the share that was asked for so far. docs/simulation.md has
the published figures beside ours.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import random
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from numalign.core.errors import ConfigError, NumalignError, WireError
from numalign.core.fleet.gpu_sharing import experiment
from numalign.core.fleet.gpu_sharing.arrivals import Draws, arrivals, host_ranks
from numalign.core.fleet.gpu_sharing.hosts import GPU_MILLI, HostShape, SharedPod
from numalign.core.fleet.gpu_sharing.policies import NAMES, RANDOM
from numalign.wire.fleet.traces import openb

SEEDS_MAX = 1000
# Random cannot be matched run by run: its choices hang on the timing of threads in the original.
# So each seed is run with several streams of choices, and their mean is what is expected of it.
STREAMS = 3


@dataclass(frozen=True, slots=True)
class Inputs:
    """What all runs of one command share."""

    hosts: Sequence[HostShape]
    pods: Sequence[SharedPod]
    policy: str
    draws: dict[int, list[int]] | None  # by seed; None: Python's generator

    @property
    def capacity(self) -> int:
        return sum(host.gpus for host in self.hosts) * GPU_MILLI


def one_run(inputs: Inputs, seed: int) -> list[tuple[float, float]]:
    """Allocated and fragmented per cent in each bin."""
    draws = Draws(_numbers(inputs, seed))
    order = arrivals(inputs.pods, inputs.capacity, draws)
    ranks = host_ranks(len(inputs.hosts), draws)
    found = []
    for stream in range(STREAMS if inputs.policy == RANDOM else 1):
        chance = random.Random(f"choices of seed {seed}, stream {stream}").randrange
        run = experiment.run(inputs.hosts, inputs.pods, order, ranks, inputs.policy, chance)
        found.append(experiment.binned(run.samples, inputs.capacity))
    return [(_mean(bins, 0), _mean(bins, 1)) for bins in zip(*found, strict=True)]


def _mean(bins: Sequence[tuple[float, float]], part: int) -> float:
    return statistics.fmean(one[part] for one in bins)


def _numbers(inputs: Inputs, seed: int) -> Iterator[int]:
    if inputs.draws is None:
        source = random.Random(seed)
        return iter(lambda: source.getrandbits(32), -1)
    return iter(inputs.draws[seed])


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode()
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _draws(path: Path, seeds: Sequence[int]) -> dict[int, list[int]]:
    """The draws of each seed: one column per seed, one row per draw."""
    table = list(csv.reader(io.StringIO(_text(path))))
    head = table[0] if table else []
    found: dict[int, list[int]] = {}
    for seed in seeds:
        if str(seed) not in head:
            known = ", ".join(head)
            raise WireError(f"{path}: line 1: no column for seed {seed}; there are: {known}")
        column = head.index(str(seed))
        try:
            found[seed] = [int(row[column]) for row in table[1:]]
        except (ValueError, IndexError) as error:
            raise WireError(f"{path}: column {seed}: expected a number on every line") from error
    return found


def _seeds(text: str) -> list[int]:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not 0 <= last - first < SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected 42 or 42-51")
    return list(range(first, last + 1))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.published",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hosts", type=Path, required=True, help="CSV: sn,cpu_milli,…")
    parser.add_argument("--pods", type=Path, required=True, help="CSV: name,cpu_milli,…")
    parser.add_argument("--policy", choices=NAMES, required=True)
    parser.add_argument("--seeds", type=_seeds, default=_seeds("42-51"), help="42 or 42-51")
    parser.add_argument(
        "--draws",
        type=Path,
        help="CSV (.gz) with one column of 32-bit numbers per seed; without it Python's generator",
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the means as CSV."""
    options = _parsed(arguments)
    try:
        inputs = Inputs(
            openb.host_shapes(str(options.hosts), _text(options.hosts)),
            openb.shared_pods(str(options.pods), _text(options.pods)),
            options.policy,
            None if options.draws is None else _draws(options.draws, options.seeds),
        )
        if not inputs.capacity:
            raise ConfigError(f"{options.hosts}: found no GPU on any host, expected some")
        runs = _all_runs(inputs, options.seeds, max(1, options.jobs))
    except NumalignError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("arrived_percent,alloc_ratio_pct,frag_amount_pct")
    for arrived in experiment.BINS:
        allocated = statistics.fmean(found[arrived][0] for found in runs)
        fragment = statistics.fmean(found[arrived][1] for found in runs)
        print(f"{arrived},{allocated:.3f},{fragment:.3f}")
    return 0


def _all_runs(inputs: Inputs, seeds: list[int], jobs: int) -> list[list[tuple[float, float]]]:
    if jobs == 1 or len(seeds) == 1:
        return [one_run(inputs, seed) for seed in seeds]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(one_run, [inputs] * len(seeds), seeds))


if __name__ == "__main__":
    sys.exit(main())
