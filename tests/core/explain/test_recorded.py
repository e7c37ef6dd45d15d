"""Refusals of the real kubelet: what is explained agrees with them, and what is said to help does.

A fixed part of them runs here; `python -m tests.core.explain.checks` runs all, as make e2e does.
"""

import itertools
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.core.explain import checks as explain_checks
from tests.core.explain.checks import cause_faults
from tests.core.explain.recorded_refusals import of_scenario
from tests.differential import generator
from tests.paths import CHECKOUT

from numalign.conformance.scenarios import prefer_lowest
from numalign.core.explain.explain import asked, explain
from numalign.core.kubelet.decisions import Broken
from numalign.core.settings import Version

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


def random_refusals(first_seed):
    focuses = [focus for focus in generator.FOCUSES if focus not in {"bad", generator.RESIZES}]
    for seed in itertools.count(first_seed):
        scenario = generator.scenario(seed, focuses[seed % len(focuses)])
        yield from of_scenario(scenario, list(Version)[seed % 2])


def test_random_refusals_name_a_true_cause():
    found = random_refusals(910_000)
    for name, host, pod, _ in itertools.islice(found, 400):
        case = asked(host, pod, preferred=prefer_lowest)
        if isinstance(case.verdict, Broken):
            continue
        why = explain(case, preferred=prefer_lowest)
        assert list(cause_faults(host, case, why)) == [], (name, why.sentence)
