"""Crashes of the agent and of a real containerd, and what others do to our containers."""

import os
import signal
import time

import pytest
from tests.apps.agent.processes import is_alive
from tests.e2e.cri_agent import CriAgent, pod

from numalign.core.values.sets import parse_list
from numalign.wire.grpc.cri_values import RunStatus

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, one to reserve and one to give"
    ),
]
FOREVER = "sleep 100000"
UNTIL_TOLD = "trap 'exit {code}' USR1; while :; do sleep 0.1; done"


def test_containers_outlive_kills_of_the_agent_and_are_taken_up_where_they_are(agent):
    agent.apply(pod("own", cpu=1, script=FOREVER))
    agent.apply(pod("shared", script=FOREVER))
    agent.until_phase("own", "Running")
    agent.until_phase("shared", "Running")
    before = _places(agent)
    for number in range(10):
        agent.kill()
        agent.start()
        agent.until_phase("own", "Running")
        assert _places(agent) == before, f"after kill {number}"
    assert len(agent.containers()) == 2


def _places(agent):
    return {p: (agent.pid(p), agent.value(p, "cpuset.cpus")) for p in agent.pod_list()}


def test_kills_in_the_middle_of_starts_and_stops_lose_nothing(agent):
    for number in range(10):
        agent.apply(pod(f"p{number}", cpu=None if number % 2 else 1, script=FOREVER))
        if number >= 2 and f"p{number - 2}" in agent.pod_list():
            agent.delete(f"p{number - 2}")
        time.sleep(0.11 * number % 0.5)
        agent.kill()
        agent.start()
        agent.until(lambda: _settled(agent), "everything to settle")
        _check(agent)
    for name in agent.pod_list():
        agent.delete(name)
    agent.until(lambda: not agent.pod_list() and not agent.sandboxes(), "all to be gone")
    agent.until(lambda: not agent.cgroups(), "the cgroups to be gone")


def _settled(agent):
    pods = agent.pod_list()
    known = {found["metadata"]["uid"] for found in pods.values()}
    running = all(found["status"]["phase"] in {"Running", "Failed"} for found in pods.values())
    quiet = not any(found["numalign"]["deleting"] for found in pods.values())
    return running and quiet and {one.uid for one in agent.sandboxes()} <= known


def _check(agent):
    """No CPU has two owners, and nothing runs that the agent does not know."""
    pods = agent.pod_list()
    taken = 0
    for name, found in pods.items():
        placed = found["numalign"]["containers"]
        if found["status"]["phase"] == "Running" and placed["c"]["exclusive"]:
            cpus = parse_list(agent.value(name, "cpuset.cpus"))
            assert cpus == parse_list(placed["c"]["cpus"])
            assert not cpus & taken
            taken |= cpus
    for name in [name for name, found in pods.items() if found["status"]["phase"] == "Running"]:
        if not pods[name]["numalign"]["containers"]["c"]["exclusive"]:
            assert not parse_list(agent.value(name, "cpuset.cpus")) & taken
    known = {found["metadata"]["uid"] for found in pods.values()}
    running = [c for c in agent.containers() if c.status is RunStatus.RUNNING]
    assert {c.uid for c in running} <= known
    assert len(running) == len({(c.uid, c.name) for c in running})


def test_an_exit_code_is_known_even_if_the_agent_was_away(agent):
    agent.apply(pod("a", script=UNTIL_TOLD.format(code=7), restartPolicy="Never"))
    agent.until_phase("a", "Running")
    pid = agent.pid("a")
    agent.kill()
    os.kill(pid, signal.SIGUSR1)
    agent.until(lambda: agent.containers()[0].status is RunStatus.EXITED, "its end")
    agent.start()
    agent.until_phase("a", "Failed")
    assert agent.status("a")["state"]["terminated"]["exitCode"] == 7


def test_what_no_state_knows_is_removed_and_what_is_others_is_left(agent, runtime):
    with CriAgent(runtime) as other:
        other.apply(pod("other", script=FOREVER))
        other.until_phase("other", "Running")
        agent.apply(pod("a", script=FOREVER))
        agent.until_phase("a", "Running")
        agent.kill()
        for path in agent.state.glob("*"):
            if path.is_file() and path.name != "agent.lock":
                path.unlink()
        agent.start()
        agent.until(lambda: not agent.sandboxes() and not agent.cgroups(), "the orphan to be gone")
        assert len(other.sandboxes()) == 1
        assert other.phase("other") == "Running"


def test_containers_outlive_the_runtime_and_the_agent_hears_of_what_happened(agent, runtime):
    agent.apply(pod("stays", cpu=1, script=FOREVER))
    agent.apply(pod("ends", script=UNTIL_TOLD.format(code=5), restartPolicy="Never"))
    agent.until_phase("stays", "Running")
    agent.until_phase("ends", "Running")
    pid, ending = agent.pid("stays"), agent.pid("ends")
    runtime.end(signal.SIGKILL)
    started = time.monotonic()
    agent.apply(pod("waits", script=FOREVER))
    assert agent.request("GET", "/healthz").status_code == 200
    assert time.monotonic() - started < 2, "the agent must not wait for the runtime"
    agent.until(lambda: agent.waiting("waits").get("reason") == "RuntimeUnavailable", "the reason")
    os.kill(ending, signal.SIGUSR1)
    agent.until(lambda: not is_alive(ending), "the container to end without its runtime")
    runtime.start()
    agent.until_phase("ends", "Failed")
    # containerd itself may not know the code of what ended without it, and says 255 then.
    [ended] = [c for c in agent.containers() if c.uid == agent.uid("ends")]
    report = agent.asked(lambda client: client.report(ended.id))
    assert report.exit_code in {5, 255}
    assert agent.status("ends")["state"]["terminated"]["exitCode"] == report.exit_code
    agent.until_phase("waits", "Running")
    assert agent.status("waits")["restartCount"] == 0
    assert agent.phase("stays") == "Running"
    assert agent.pid("stays") == pid
    assert is_alive(pid)
    agent.delete("stays")
    agent.until(lambda: "stays" not in agent.pod_list(), "the pod to be gone")


def test_a_pod_that_is_deleted_while_the_runtime_is_away_ends_when_it_is_back(agent, runtime):
    agent.apply(pod("a", script=FOREVER))
    agent.until_phase("a", "Running")
    runtime.end(signal.SIGKILL)
    agent.delete("a")
    time.sleep(1)
    assert "a" in agent.pod_list()
    runtime.start()
    agent.until(lambda: not agent.pod_list() and not agent.sandboxes(), "the pod to be gone")


def test_a_container_that_somebody_removes_is_started_again(agent):
    agent.apply(pod("a", script=FOREVER))
    agent.until_phase("a", "Running")
    [container] = agent.containers()
    agent.asked(lambda client: client.remove(container.id))
    agent.until(lambda: agent.status("a")["restartCount"] == 1, "it to be seen")
    agent.until(lambda: "running" in agent.status("a")["state"], "the next run")


def test_a_sandbox_that_somebody_ends_is_made_anew(agent):
    agent.apply(pod("a", script=FOREVER))
    agent.until_phase("a", "Running")
    [sandbox] = agent.sandboxes()
    agent.asked(lambda client: client.stop_sandbox(sandbox.id))
    agent.until(lambda: agent.status("a")["restartCount"] >= 1, "it to be seen")
    agent.until(lambda: "running" in agent.status("a")["state"], "the next run")
    [fresh] = [one for one in agent.sandboxes() if one.is_ready]
    assert (fresh.id != sandbox.id, fresh.attempt) == (True, 1)


def test_a_socket_where_nobody_answers_is_told_with_what_was_tried(runtime):
    agent = CriAgent(runtime)
    try:
        agent.arguments[3] = str(agent.root / "nobody.sock")
        agent.start(wait=False)
        assert agent.process.wait(60) != 0
        assert "nobody.sock: not there" in agent.said()
        assert "Traceback" not in agent.said()
    finally:
        agent.clean_up()
