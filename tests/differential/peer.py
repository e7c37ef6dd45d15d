"""Asks the kubelet's own managers, in a Go program that imports the published module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.paths import MANAGERS
from tests.real.go_program import go_program
from tests.real.kept import output

from numalign.core.settings import Version

SCENARIO_SECONDS_MAX: Final = 30
RUNS: Final = 4
VERSION_FLAGS: Final[Mapping[Version, Sequence[str]]] = {
    Version.V1_36: (),
    Version.V1_37: ("-modfile=go-1.37.mod", "-tags=k137"),
}


def build(version: Version) -> Path:
    """The program with the managers of a Kubernetes version."""
    return go_program(
        f"kubelet-replay-{version}", MANAGERS, "./replay", flags=VERSION_FLAGS[version]
    )


def play(
    binary: Path, scenarios: Sequence[Mapping[str, Any]], *, runs: int = RUNS
) -> list[dict[str, Any]]:
    """What happened to each scenario: its events, and whether it hung or crashed."""
    lines = "".join(json.dumps(scenario) + "\n" for scenario in scenarios)
    options = ["-runs", str(runs), "-limit", f"{SCENARIO_SECONDS_MAX}s"]
    text = output(
        ["nice", binary, *options],
        text_in=lines,
        # The program stops each scenario by itself, and a child may need a moment to tell why.
        seconds_max=len(scenarios) * 2 * SCENARIO_SECONDS_MAX,
    )
    return [json.loads(line) for line in text.splitlines()]
