"""What admit and explain say to realistic workloads, on four machines, as a person has read it."""

import pytest
from tests.cli.workload_examples import MACHINES, PLACE, text_of
from tests.paths import CHECKOUT


@pytest.mark.parametrize("machine", MACHINES)
def test_answers_to_the_example_workloads_are_those_that_were_read(machine, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.setenv("COLUMNS", "100")
    kept = (PLACE / f"{machine}.txt").read_text()
    assert text_of(machine) == kept, (
        "read the change, then run python -m tests.cli.workload_examples"
    )
