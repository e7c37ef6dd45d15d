"""The kubelet's own code and ours decide the same about random scenarios."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.differential import peer
from tests.differential.comparing import compare
from tests.differential.generator import FOCUSES, scenario

from numalign.core.settings import Version

pytestmark = pytest.mark.e2e

COUNT_VARIABLE = "NUMALIGN_DIFFERENTIAL"
COUNT = int(os.environ.get(COUNT_VARIABLE, "60"))
DIFFERENCES_SHOWN = 3


@pytest.fixture(scope="module")
def binary() -> Path:
    """The program that runs the kubelet's own code."""
    try:
        return peer.build()
    except peer.PeerMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("focus", FOCUSES)
def test_random_scenarios_have_the_decisions_of_the_real_code(binary: Path, focus: str) -> None:
    """Every step of every seed, and the state files at the end."""
    seeds = range(1, 1 + max(1, COUNT // len(FOCUSES)))
    found = compare(binary, [scenario(seed, focus) for seed in seeds], Version.V1_36)
    wrong = [
        f"seed {one.scenario['id']}: {text[:2000]}"
        for one in found
        for text in one.differences[:DIFFERENCES_SHOWN]
    ]
    assert not wrong, "\n".join(wrong)
