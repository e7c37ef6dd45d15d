"""Manifests that are changed, put back and renamed under a real agent; ``apply`` does the same."""

import contextlib
import json
import os
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to reserve, and one"),
]

# All CPUs but the reserved one: nobody else fits beside it.
ALL = max(1, len(os.sched_getaffinity(0)) - 1)
# Ends only when it may, however long this machine takes for what a test does meanwhile.
SLOW = "trap 'until test -e {gate}; do sleep 0.05; done; exit 0' TERM; while :; do sleep 0.05; done"


@pytest.fixture
def agent():
    with AgentProcess() as found:
        yield found


def own(agent, name="own", *, mark="1", **more):
    """A pod with all CPUs, which takes its time to end."""
    command = ("sh", "-c", SLOW.format(gate=agent.root / "gate"), mark)
    found = manifest(name, cpu=ALL, command=command, terminationGracePeriodSeconds=25)
    return {**found, "metadata": {"name": name, **more}}


def let_end(agent):
    """Pods that are asked to end do so from now on."""
    (agent.root / "gate").touch()


class Files:
    """Manifests in the directory."""

    def __init__(self, agent):
        self.agent = agent

    def put(self, pod, name="own.json"):
        hidden = self.agent.pods / ".hidden"
        hidden.write_text(json.dumps(pod))
        hidden.rename(self.agent.pods / name)


class Applied:
    """``numalign apply``."""

    def __init__(self, agent):
        self.agent = agent

    def put(self, pod, name="own.json"):
        del name
        answer = self.agent.request("POST", "/pods?apply=true", content=json.dumps(pod))
        assert answer.status_code < 300, answer.text


@pytest.fixture(params=[Files, Applied], ids=["files", "apply"])
def way(request, agent):
    return request.param(agent)


def marks(agent):
    """What runs: name of the pod -> last word of its command, as the kernel has it."""
    found = {}
    names = {pod["metadata"]["uid"]: name for name, pod in agent.pod_list().items()}
    for (uid, _), pid in agent.records().items():
        with contextlib.suppress(OSError):  # it may end while we look
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            # A process between two programs, or one that has ended, has an empty line.
            if len(words) > 1:
                found[names.get(uid)] = words[-2].decode()
    return found


def is_ending(agent):
    pods = agent.request("GET", "/pods").json()["items"]
    return any(pod["numalign"]["deleting"] for pod in pods)


def statuses(agent):
    pods = agent.request("GET", "/pods").json()["items"]
    return {pod["status"].get("reason", "") for pod in pods}


def wanted(agent):
    """Last words of the commands of all pods that the agent knows, running or not."""
    pods = agent.request("GET", "/pods").json()["items"]
    return {pod["spec"]["containers"][0]["command"][-1] for pod in pods}


def test_a_changed_pod_with_cpus_of_its_own_waits_for_the_old_one_and_then_runs(way, agent):
    way.put(own(agent))
    agent.until(lambda: marks(agent) == {"own": "1"}, "the first")
    way.put(own(agent, mark="2"))
    agent.until(lambda: is_ending(agent), "the first to be ending")
    agent.until(lambda: wanted(agent) == {"1", "2"}, "the second to wait")
    assert statuses(agent) == {"", "WaitingForPredecessor"}
    let_end(agent)
    agent.until(lambda: marks(agent) == {"own": "2"} and agent.phase("own") == "Running", "it")


def test_a_pod_put_back_within_the_grace_period_comes_back(way, agent):
    way.put(own(agent))
    agent.until(lambda: marks(agent) == {"own": "1"}, "the first")
    way.put(own(agent, mark="2"))
    agent.until(lambda: is_ending(agent), "the first to be ending")
    agent.until(lambda: wanted(agent) == {"1", "2"}, "the second to wait")
    way.put(own(agent))
    agent.until(lambda: wanted(agent) == {"1"}, "the change to be taken back")
    assert is_ending(agent), "it was put back within the grace period"
    let_end(agent)
    agent.until(
        lambda: not is_ending(agent) and marks(agent) == {"own": "1"}, "the first to be back"
    )
    agent.until(lambda: agent.phase("own") == "Running", "the agent to see it")


def test_a_changed_pod_of_one_uid_is_replaced_also_with_other_containers(way, agent):
    way.put(own(agent, uid="u-1"))
    agent.until(lambda: marks(agent) == {"own": "1"}, "the first")
    changed = own(agent, uid="u-1", mark="2")
    changed["spec"]["containers"][0]["name"] = "other"
    let_end(agent)
    way.put(changed)
    agent.until(lambda: marks(agent) == {"own": "2"} and agent.phase("own") == "Running", "it")
    assert agent.pod_list()["own"]["metadata"]["uid"] == "u-1"


def test_a_restart_while_a_pod_of_one_uid_is_replaced_loses_neither(way, agent):
    way.put(own(agent, uid="u-1"))
    agent.until(lambda: marks(agent) == {"own": "1"}, "the first")
    changed = own(agent, uid="u-1", mark="2")
    changed["spec"]["containers"][0]["name"] = "other"
    way.put(changed)
    agent.until(lambda: is_ending(agent), "the first to be ending")
    agent.kill()
    let_end(agent)
    agent.start()
    agent.until(lambda: marks(agent) == {"own": "2"} and agent.phase("own") == "Running", "it")


def test_another_pod_in_the_same_file_waits_for_the_one_before_it(agent):
    files = Files(agent)
    files.put(own(agent, "a"))
    agent.until(lambda: marks(agent) == {"a": "1"}, "the first")
    let_end(agent)
    files.put(own(agent, "b", mark="2"))
    agent.until(lambda: marks(agent) == {"b": "2"} and agent.phase("b") == "Running", "the second")


def test_a_renamed_file_keeps_a_pod_with_a_uid_and_replaces_one_without(agent):
    files = Files(agent)
    files.put(own(agent, "a", uid="u-1"))
    agent.until(lambda: marks(agent) == {"a": "1"}, "the pod")
    before = agent.records()
    (agent.pods / "own.json").rename(agent.pods / "moved.json")
    agent.until(
        lambda: agent.pod_list()["a"]["numalign"]["source"] == "file:moved.json", "the new source"
    )
    assert agent.records() == before
    let_end(agent)
    files.put(own(agent, "a"), "moved.json")
    agent.until(lambda: marks(agent) == {"a": "1"} and agent.records() != before, "without a uid")
    uid = agent.pod_list()["a"]["metadata"]["uid"]
    (agent.pods / "moved.json").rename(agent.pods / "again.json")
    agent.until(
        lambda: agent.phase("a") == "Running" and agent.pod_list()["a"]["metadata"]["uid"] != uid,
        "the pod of the file by its new name",
    )
    assert agent.pod_list()["a"]["numalign"]["source"] == "file:again.json"


def test_a_copy_is_taken_up_when_its_original_is_removed(agent):
    files = Files(agent)
    files.put(own(agent, "a"))
    agent.until(lambda: marks(agent) == {"a": "1"}, "the pod")
    files.put(own(agent, "a"), "copy.json")
    agent.until(
        lambda: any("copy.json" in p for p in agent.problems()),
        "the copy to be told of",
    )
    let_end(agent)
    (agent.pods / "own.json").unlink()
    agent.until(
        lambda: (
            agent.phase("a") == "Running"
            and agent.pod_list()["a"]["numalign"]["source"] == "file:copy.json"
        ),
        "the copy",
    )
