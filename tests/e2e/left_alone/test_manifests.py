"""A real agent and a directory of manifests in which everything that can be wrong is wrong."""

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


@pytest.fixture
def agent():
    with AgentProcess() as found:
        yield found


def write(agent, name, content):
    hidden = agent.pods / ".hidden"
    hidden.write_text(content if isinstance(content, str) else json.dumps(content))
    hidden.rename(agent.pods / name)


def files(agent):
    """name -> problem, of all files that the agent has looked at."""
    found = agent.request("GET", "/manifests").json()["items"]
    return {one["file"]: one.get("problem", "") for one in found}


def spoil(agent):
    """One of each kind of entry that is no manifest; what the agent has to say of each."""
    (agent.pods / "loop.yaml").symlink_to("loop.yaml")
    (agent.pods / "nothing.yaml").symlink_to("not-there")
    (agent.pods / "device.yaml").symlink_to("/dev/zero")
    (agent.pods / "log.yaml").symlink_to("/proc/kmsg")
    os.mkfifo(agent.pods / "pipe.yaml")
    (agent.pods / "text.yaml").write_text("kind: Pod\n  broken: [")
    (agent.pods / "large.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    (agent.pods / os.fsdecode(b"caf\xe9.yaml")).write_text(json.dumps(manifest("bytes")))
    return {
        "loop.yaml": "a loop of links",
        "nothing.yaml": "a link to nothing",
        "device.yaml": "found a character device, expected a file",
        "log.yaml": "",
        "pipe.yaml": "found a FIFO, expected a file",
        "text.yaml": "line",
        "large.yaml": "found more than 1048576 bytes",
        "caf\\xe9.yaml": "UTF-8",
    }


def test_each_bad_file_is_one_problem_and_the_rest_goes_on(agent):
    expected = spoil(agent)
    write(agent, "good.json", manifest("good"))
    agent.until_phase("good", "Running")
    agent.until(lambda: len(files(agent)) == len(expected) + 1, "all files")
    shown = files(agent)
    assert shown.pop("good.json") == ""
    assert all(shown.values()), "each of them has a problem"
    for name, words in expected.items():
        assert words in shown[name], (name, shown[name])
        assert any(f"manifest {name}: " in problem for problem in agent.problems()), name
    text = agent.request("GET", "/metrics").text
    assert 'numalign_manifests{state="taken"} 1.0' in text
    assert f'numalign_manifests{{state="failing"}} {len(expected)}.0' in text
    table = subprocess.run(
        [
            sys.executable,
            "-m",
            "numalign",
            "get",
            "manifests",
            "--socket",
            agent.state / "agent.sock",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "loop.yaml" in table and "a loop of links" in table
    assert "default/good" in table
    for path in agent.pods.iterdir():
        if path.name != "good.json":
            path.unlink()
    agent.until(lambda: not agent.problems(), "the problems to be over")
    assert agent.phase("good") == "Running"


def test_a_fifo_swapped_in_for_a_file_neither_ends_its_pod_nor_keeps_sigterm_from_working(agent):
    write(agent, "a.json", manifest("a"))
    agent.until_phase("a", "Running")
    for _ in range(20):
        os.mkfifo(agent.pods / ".fifo")
        (agent.pods / ".fifo").rename(agent.pods / "a.json")
        write(agent, "a.json", manifest("a"))
    os.mkfifo(agent.pods / ".fifo")
    (agent.pods / ".fifo").rename(agent.pods / "a.json")
    agent.until(lambda: "FIFO" in files(agent)["a.json"], "the problem to be told")
    assert agent.phase("a") == "Running"
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(60) == 0


def test_a_manifest_damaged_while_the_agent_was_down_keeps_its_running_pod(agent):
    write(agent, "a.json", manifest("a"))
    agent.until_phase("a", "Running")
    before = agent.records()
    agent.kill()
    (agent.pods / "a.json").write_text("{ half of")
    agent.start()
    agent.until(lambda: files(agent).get("a.json"), "the problem to be told")
    assert agent.records() == before
    assert agent.phase("a") == "Running"
    write(agent, "a.json", manifest("a", command=("sleep", "2000")))
    agent.until(lambda: agent.records() and agent.records() != before, "the new version")
    agent.until_phase("a", "Running")
    (agent.pods / "a.json").unlink()
    agent.until(lambda: not agent.pod_list(), "the pod to be gone")


def test_a_damaged_manifest_that_is_then_removed_ends_its_pod(agent):
    write(agent, "a.json", manifest("a"))
    agent.until_phase("a", "Running")
    agent.kill()
    (agent.pods / "a.json").write_text("{ half of")
    agent.start()
    agent.until(lambda: files(agent).get("a.json"), "the problem to be told")
    (agent.pods / "a.json").unlink()
    agent.until(lambda: not agent.pod_list(), "the pod to be gone")


def test_a_directory_that_cannot_be_read_for_a_while_keeps_its_pods(agent):
    write(agent, "a.json", manifest("a"))
    agent.until_phase("a", "Running")
    before = agent.records()
    away = agent.pods.with_name("away")
    agent.pods.rename(away)
    agent.until(lambda: any("cannot be read" in p for p in agent.problems()), "the problem")
    assert agent.records() == before
    away.rename(agent.pods)
    agent.until(lambda: not agent.problems(), "the directory to be read again")
    assert agent.records() == before


def test_more_pods_than_the_limit_are_told_and_taken_up_when_there_is_room():
    config = "apiVersion: numalign.io/v1\nkind: AgentConfiguration\npodsMax: 1\n"
    with AgentProcess(config=config) as agent:
        write(agent, "a.json", manifest("a"))
        agent.until_phase("a", "Running")
        write(agent, "b.json", manifest("b"))
        agent.until(lambda: files(agent).get("b.json"), "the problem to be told")
        assert "1 pods" in files(agent)["b.json"], files(agent)
        assert any("manifest b.json: " in problem for problem in agent.problems())
        (agent.pods / "a.json").unlink()
        agent.until_phase("b", "Running")
        agent.until(lambda: not agent.problems(), "the problem to be over")


def test_a_manifest_whose_name_is_taken_is_told_and_taken_up_when_the_name_is_free(agent):
    agent.apply(manifest("a"))
    agent.until_phase("a", "Running")
    uid = agent.pod_list()["a"]["metadata"]["uid"]
    write(agent, "a.json", manifest("a"))
    agent.until(lambda: files(agent).get("a.json"), "the problem to be told")
    assert "default/a exists already" in files(agent)["a.json"]
    agent.request("DELETE", f"/pods/{uid}")
    agent.until(
        lambda: (
            agent.phase("a") == "Running"
            and agent.pod_list()["a"]["numalign"]["source"] == "file:a.json"
        ),
        "the pod of the file",
    )
    agent.until(lambda: not agent.problems(), "the problem to be over")
