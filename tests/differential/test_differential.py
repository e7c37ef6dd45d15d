"""The kubelet's own code and ours decide the same about random scenarios."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.differential import peer
from tests.differential.comparing import compare
from tests.differential.generator import FOCUSES, RESIZES, scenario
from tests.real.kept import MissingError

from numalign.core.settings import Version

pytestmark = pytest.mark.e2e

COUNT_VARIABLE = "NUMALIGN_DIFFERENTIAL"
COUNT = int(os.environ.get(COUNT_VARIABLE, "60"))
DIFFERENCES_SHOWN = 3


def built(version: Version) -> Path:
    """The program that runs the kubelet's own code, or the end of the test."""
    try:
        return peer.build(version)
    except MissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("focus", [focus for focus in FOCUSES if focus != RESIZES])
def test_random_scenarios_have_the_decisions_of_the_real_code(focus: str) -> None:
    """Every step of every seed, and the state files at the end."""
    check(Version.V1_36, focus)


@pytest.mark.parametrize("focus", [RESIZES, "podlevel", "distribute"])
def test_what_changed_in_1_37_has_the_decisions_of_the_real_code(focus: str) -> None:
    """The areas in which 1.37 decides in another way than 1.36."""
    check(Version.V1_37, focus)


def check(version: Version, focus: str) -> None:
    """Compares the first seeds of a focus."""
    seeds = range(1, 1 + max(1, COUNT // len(FOCUSES)))
    found = compare(built(version), [scenario(seed, focus) for seed in seeds], version)
    wrong = [
        f"seed {one.scenario['id']}: {text[:2000]}"
        for one in found
        for text in one.differences[:DIFFERENCES_SHOWN]
    ]
    assert not wrong, "\n".join(wrong)
