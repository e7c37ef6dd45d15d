"""The real kubelet code on the same inputs, in the same run."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.peers.build import PeerError, build, run

INPUTS = Path(__file__).parent / "inputs"
LIMIT_SECONDS = 20.0  # a row that takes longer is shown as such


def minima(seconds: float) -> dict[str, float]:
    """The least time of each row in microseconds; empty where the Go code cannot be run."""
    binary = build()
    if binary is None:
        print("the real Go code is not run beside ours: it could not be built", file=sys.stderr)
        return {}
    paths = sorted([*INPUTS.glob("admit-*.json"), *INPUTS.glob("fill-*.json")])
    print(f"running the real Go code on {len(paths)} inputs", file=sys.stderr)
    try:
        rows = run(binary, paths, mode="memory", seconds=seconds, limit=LIMIT_SECONDS)
    except PeerError as error:
        print(f"the real Go code failed: {error}", file=sys.stderr)
        return {}
    return {
        name: LIMIT_SECONDS * 1e6 if row.work is None else row.work.seconds_min * 1e6
        for name, row in rows.items()
    }
