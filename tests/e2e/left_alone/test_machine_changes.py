"""A machine that is another one at the next start, under a real agent that decides only."""

import json
import subprocess
import sys

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

FOUR = "1s:1n:4c,mem=8Gi"
TWO = "1s:1n:2c,mem=4Gi"
SIX = "1s:1n:6c,mem=8Gi"


def on(agent, machine):
    agent.arguments = ["--runtime", "none", "--machine", machine]


@pytest.fixture
def agent():
    found = AgentProcess()
    on(found, FOUR)
    with found:
        yield found


def restart(agent, machine, *, wait=True):
    """Stops the agent and starts it on another machine; what it says then."""
    agent.stop()
    before = len(agent.said())
    on(agent, machine)
    agent.start(wait=wait)
    return lambda: agent.said()[before:]


def test_without_pods_it_starts_afresh_and_says_so(agent):
    said = restart(agent, TWO)
    agent.until(lambda: "The agent runs" in said(), "it to say where it is")
    assert "starts afresh" in said() and "CPUs: 0-3 at the last start, 0-1 now" in said()
    assert agent.apply(manifest("a", cpu=1)).status_code == 201


def test_pods_that_have_ended_hold_nothing_so_it_starts_afresh_and_still_shows_them(agent):
    agent.apply(manifest("big", cpu=1000))
    said = restart(agent, TWO)
    assert "starts afresh" in said()
    assert agent.phase("big") == "Failed"


def test_with_pods_that_lack_their_cpus_it_says_both_values_and_what_to_do(agent):
    agent.apply(manifest("a", cpu=3))
    said = restart(agent, TWO, wait=False)
    assert agent.process.wait(60) == 1
    assert "CPUs: 0-3 at the last start, 0-1 now" in said()
    assert "memory of NUMA node 0, total: 8 GiB at the last start, 4 GiB now" in said()
    assert "numalign state reset" in said() and "Traceback" not in said()
    on(agent, FOUR)
    agent.start()
    assert agent.phase("a") == "Running"


def test_cpus_that_came_or_went_beside_the_pods_are_taken_over_with_a_note(agent):
    agent.apply(manifest("a", cpu=1))
    own = agent.pod_list()["a"]["numalign"]["containers"]["c"]["cpus"]
    said = restart(agent, SIX)
    assert "CPUs: 0-3 at the last start, 0-5 now" in said()
    assert agent.phase("a") == "Running"
    assert agent.pod_list()["a"]["numalign"]["containers"]["c"]["cpus"] == own
    state = json.loads((agent.state / "cpu_manager_state").read_text())
    assert state["defaultCpuSet"].endswith("-5")


def test_a_second_up_starts_with_the_state_of_the_first_and_says_so_while_that_runs(agent):
    agent.stop()
    command = [sys.executable, "-m", "numalign", "up", "--listen", ""]
    command += ["--state-dir", str(agent.state)]
    agent.process = subprocess.Popen(command, stdout=agent.output, stderr=agent.output)
    agent.until(agent.answers, "the first to answer")
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode == 1
    assert "another agent runs with this state directory" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1
    assert agent.stop() == 0
    agent.process = subprocess.Popen(command, stdout=agent.output, stderr=agent.output)
    agent.until(agent.answers, "the next to answer")
    assert agent.stop() == 0
