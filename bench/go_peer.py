"""The kubelet's own managers, in a Go program that reads the same inputs in the same run."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.paths import MANAGERS
from tests.real.go_program import go_program
from tests.real.kept import CommandError, MissingError, output

INPUTS = Path(__file__).parent / "inputs"
LIMIT_SECONDS = 20.0  # a row that takes longer is shown as such
# What a row may take beyond its own limit: starting the program, and clearing up after it.
SPARE_SECONDS = 10.0


def minima(seconds: float) -> dict[str, float]:
    """The least time of each row in microseconds; empty where the Go code cannot be run."""
    try:
        binary = go_program("kubelet-bench", MANAGERS, "./bench")
        paths = sorted([*INPUTS.glob("admit-*.json"), *INPUTS.glob("fill-*.json")])
        print(f"running the real Go code on {len(paths)} inputs", file=sys.stderr)
        limits = ["-seconds", f"{seconds:.3f}", "-limit", f"{LIMIT_SECONDS:.3f}s"]
        lines = output(
            [binary, "-mode", "memory", *limits, *paths],
            seconds_max=len(paths) * (LIMIT_SECONDS + SPARE_SECONDS),
        ).splitlines()
    except (CommandError, MissingError) as error:
        print(f"the real Go code is not run beside ours: {error}", file=sys.stderr)
        return {}
    rows = [json.loads(line) for line in lines]
    return {row["row"]: _least(row) for row in rows if "row" in row}  # the first names versions


def _least(row: Mapping[str, Any]) -> float:
    if row.get("timeout"):
        return LIMIT_SECONDS * 1e6
    times: list[int] = row.get("admit_ns") or row["total_ns"]
    return min(times) / 1e3
