"""An unprivileged user of the same host against a real agent of root: uid 65534 gets nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess
from tests.paths import CHECKOUT
from tests.sockets import make_short_directory

from numalign.adapters.local.paths import trial_directory
from numalign.adapters.local.private import check_private

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else"),
]

STRANGER = 65534


def as_stranger(command):
    """Runs a command as a user without rights."""
    ids = {"user": STRANGER, "group": STRANGER, "extra_groups": []}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **ids)


@pytest.mark.parametrize("command", ["agent", "up"])
def test_a_state_directory_that_a_stranger_made_first_is_not_used(command):
    root = make_short_directory("nu-")
    root.chmod(0o1777)
    state = root / "state"
    plant = f"mkdir -m 700 {state} && umask 077 && echo known-to-me > {state}/api-token"
    as_stranger(["sh", "-c", plant])
    numalign = [sys.executable, "-m", "numalign", command, "--state-dir", str(state)]
    found = subprocess.run(
        [*numalign, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    subprocess.run(["rm", "-r", str(root)], check=True)
    assert found.returncode == 2, found.stderr
    assert "uid 65534" in found.stderr
    assert found.stderr.count("\n") == 1, "one clear line"


def test_up_and_make_run_never_live_in_a_place_that_others_can_make_first():
    assert trial_directory() == Path("/var/lib/numalign/up")
    check_private(trial_directory().parents[1])
    made = subprocess.run(
        ["make", "-n", "run"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert '--state-dir ".run"' in made.stdout


def test_a_planted_socket_hears_nothing_from_a_client():
    with AgentProcess() as agent:
        os.chown(agent.state / "agent.sock", STRANGER, STRANGER)
        command = [sys.executable, "-m", "numalign", "get", "pods"]
        found = subprocess.run(
            [*command, "--socket", str(agent.state / "agent.sock")],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (found.returncode, found.stdout) == (2, "")
        assert "uid 65534" in found.stderr
