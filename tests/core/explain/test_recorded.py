"""Refusals of the real kubelet: what is explained agrees with them, and what is said to help does.

A fixed part of them runs here; `python -m tests.core.explain_checks` runs all, as make e2e does.
"""

import pytest
from tests.core.explain import checks as explain_checks

PARTS = 160


def test_explanations_and_changes_hold_for_a_part_of_all_refusals():
    counts, faults = explain_checks.checked(3, PARTS)
    assert not faults, "\n".join(faults[:20])
    assert counts["refusals"] > 60
    assert counts["with a change"] / counts["refusals"] > 0.95
    for kind in ("request", "qos", "leave", "host"):
        assert counts[f"with a change: {kind}"]


@pytest.mark.e2e
def test_explanations_and_changes_hold_for_all_refusals(capsys):
    assert explain_checks.main() == 0, capsys.readouterr().out
