"""The workflows cannot run here; they are what actionlint takes, and call what is there."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml
from tests.paths import CHECKOUT
from tests.real.actionlint import actionlint
from tests.real.kept import MissingError

WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yaml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_rights_and_calls_targets_that_are_there(path):
    found = yaml.safe_load(path.read_text())
    assert found["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z0-9-]+):", (CHECKOUT / "Makefile").read_text(), re.M))
    steps = [step for job in found["jobs"].values() for step in job.get("steps", ())]
    for step in steps:
        assert set(re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))) <= targets
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False
    for job in found["jobs"].values():
        for access in job.get("permissions", {}).values():
            assert access in {"read", "write"}


@pytest.mark.e2e
def test_actionlint_takes_the_workflows():
    try:
        program = actionlint()
    except MissingError as missing:
        pytest.skip(str(missing))
    subprocess.run([program, *WORKFLOWS], cwd=CHECKOUT, check=True)
