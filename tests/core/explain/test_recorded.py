"""Refusals of the real kubelet: what is explained agrees with them, and what is said to help does.

A fixed part of them runs here; `python -m tests.core.explain.checks` runs all, as make e2e does.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.core.explain import checks as explain_checks
from tests.paths import CHECKOUT

PARTS = 160
SECONDS_MAX = 1200


def test_explanations_and_changes_hold_for_a_part_of_all_refusals():
    counts, faults = explain_checks.checked(3, PARTS)
    assert not faults, "\n".join(faults[:20])
    assert counts["refusals"] > 60
    assert counts["with a change"] / counts["refusals"] > 0.95
    for kind in ("request", "qos", "leave", "host"):
        assert counts[f"with a change: {kind}"]


@pytest.mark.e2e
@pytest.mark.seconds_max(SECONDS_MAX + 60)
def test_explanations_and_changes_hold_for_all_refusals():
    # A program of its own, since its workers must not be forks of a process with threads: those of
    # gRPC, which other tests leave, made such forks spin for ever.
    command = [sys.executable, "-m", "tests.core.explain.checks"]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS_MAX)
        finally:
            with suppress(ProcessLookupError):  # its workers too
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, out
