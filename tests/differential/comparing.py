"""Puts a scenario through the kubelet's own code and ours, and tells where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.differential import peer
from tests.differential.merging import Merged, merged

from numalign.conformance.scenarios import Replay, scenario
from numalign.core.kubelet.decisions import Broken
from numalign.core.settings import Version

# A choice among equals can fall the same way in a few runs; what differs is run again more often.
RUNS_SURE: Final = 24


@dataclass(frozen=True)
class Comparison:
    """One scenario: what was compared and what differs."""

    scenario: dict[str, Any]
    differences: tuple[str, ...]
    steps: int
    broken: str | None


def compare(
    binary: Path, scenarios: Sequence[dict[str, Any]], version: Version, *, runs: int = peer.RUNS
) -> list[Comparison]:
    """The differences of each scenario, where they stay when it is run more often."""
    found: list[Comparison] = []
    for one, result in zip(scenarios, peer.play(binary, scenarios, runs=runs), strict=True):
        comparison = _compared(one, merged(one, result), version)
        if comparison.differences and runs < RUNS_SURE:
            [comparison] = compare(binary, [one], version, runs=RUNS_SURE)
        found.append(comparison)
    return found


def _compared(one: dict[str, Any], real: Merged, version: Version) -> Comparison:
    line = deepcopy(real.line)
    differences = scenario(line, version)
    if not differences and real.broken and "real_code_defects" not in line["expected"]:
        differences = _unbroken(one, real, version)
    return Comparison(one, tuple(differences), len(real.line["expected"]["steps"]), real.broken)


def _unbroken(one: dict[str, Any], real: Merged, version: Version) -> list[str]:
    """Where the real code hangs or crashes, ours has to say so."""
    replay = Replay(one, version)
    done = len(real.line["expected"]["steps"])
    for step in one["steps"][:done]:
        replay.step(step)
    outcome = replay.step(one["steps"][done])
    if any(isinstance(decision, Broken) for _, decision in outcome):
        return []
    text = real.broken_text[:300]
    return [f"step {done}: the kubelet's code ends in a {real.broken} ({text}); ours: {outcome}"]
