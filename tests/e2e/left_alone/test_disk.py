"""A real agent whose disk is full or read-only: deleting works, and so do stopping and starting."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import found_below, is_alive, manifest
from tests.e2e.test_agent_faults import on_small_disk

from numalign.adapters.local.paths import cgroup_parent

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


def fill(agent):
    filler = os.open(agent.state / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(filler, b"x" * 4096):
            pass
    os.close(filler)


def make_read_only(agent):
    again = ["mount", "-o", "remount,ro", str(agent.state)]
    for _ in range(50):
        # A file that somebody just has open for writing forbids it for a moment.
        found = subprocess.run(again, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return
        time.sleep(0.1)
    pytest.skip(f"the filesystem cannot be made read-only: {found.stderr}")


def groups(agent):
    return found_below(Path("/sys/fs/cgroup"), f"*/{cgroup_parent(agent.state)}/**/pod*")


def ended(agent, name):
    return lambda: name not in agent.pod_list() and not groups(agent)


def with_pod(agent, name="a"):
    agent.apply(manifest(name, command=("sleep", "1000"), restartPolicy="Never"))
    agent.until_phase(name, "Running")
    return agent.records()


def assert_ends_quietly(agent):
    assert agent.stop() == 0, agent.said()
    assert "Traceback" not in agent.said()
    assert not groups(agent)


def test_on_a_full_disk_pods_can_be_deleted_and_the_agent_ends_quietly():
    with on_small_disk() as agent:
        [pid] = with_pod(agent).values()
        fill(agent)
        answer = agent.request("DELETE", "/pods?name=a")
        assert answer.status_code in {200, 202}, answer.text
        agent.until(ended(agent, "a"), "the pod to be gone")
        assert not is_alive(pid)
        assert_ends_quietly(agent)


def test_on_a_full_disk_a_pod_ends_with_its_manifest():
    with on_small_disk() as agent:
        text = '{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","command":'
        (agent.pods / "a.json").write_text(text + '["sleep","1000"]}]}}')
        agent.until_phase("a", "Running")
        fill(agent)
        (agent.pods / "a.json").unlink()
        agent.until(ended(agent, "a"), "the pod to be gone")


def test_a_manifest_that_comes_and_goes_on_a_full_disk_never_becomes_a_pod():
    def told(agent):
        items = agent.request("GET", "/manifests").json()["items"]
        return {one["file"]: one.get("problem", "") for one in items}

    with on_small_disk() as agent:
        fill(agent)
        for name in ("stays", "goes"):
            found = manifest(name, command=("sleep", "1000"))
            (agent.pods / f"{name}.json").write_text(json.dumps(found))
        agent.until(
            lambda: all(
                "No space left" in told(agent).get(f"{n}.json", "") for n in ("stays", "goes")
            ),
            "both to be told of",
        )
        (agent.pods / "goes.json").unlink()
        agent.until(lambda: "goes.json" not in told(agent), "the other to be gone")
        (agent.state / "filler").unlink()
        agent.until_phase("stays", "Running")
        agent.until_well()
        # Whatever was on its way has come by the time that one more has been made.
        with_pod(agent, "later")
        assert set(agent.pod_list()) == {"stays", "later"}


def test_what_was_deleted_on_a_full_disk_stays_deleted_once_there_is_room():
    with on_small_disk() as agent:
        with_pod(agent)
        fill(agent)
        agent.request("DELETE", "/pods?name=a")
        agent.until(ended(agent, "a"), "the pod to be gone")
        (agent.state / "filler").unlink()
        agent.until_well()
        agent.kill()
        agent.start()
        assert "a" not in agent.pod_list()


def test_on_a_read_only_disk_pods_can_be_deleted_and_the_agent_ends_quietly():
    with on_small_disk() as agent:
        # One that waits for its next start: the log of one that runs keeps the disk writable.
        agent.apply(manifest("a", command=("false",)))
        agent.until(
            lambda: agent.pod_list()["a"]["status"]["containerStatuses"][0]["restartCount"],
            "it to fail",
        )
        make_read_only(agent)
        answer = agent.request("DELETE", "/pods?name=a")
        assert answer.status_code in {200, 202}, answer.text
        agent.until(ended(agent, "a"), "the pod to be gone")
        assert_ends_quietly(agent)


def test_a_pod_whose_predecessor_ends_on_a_full_disk_is_not_started_before_that_is_saved():
    with on_small_disk() as agent:
        [pid] = with_pod(agent).values()
        fill(agent)
        changed = manifest("a", command=("sleep", "2000"))
        agent.request("POST", "/pods?apply=true", json=changed)
        agent.request("DELETE", "/pods?name=a")
        agent.until(lambda: not is_alive(pid), "the first to end")
        assert not agent.records()


def test_a_start_on_a_full_disk_takes_the_pods_up():
    with on_small_disk() as agent:
        before = with_pod(agent)
        agent.kill()
        fill(agent)
        agent.start()
        assert agent.phase("a") == "Running" and agent.records() == before
        agent.request("DELETE", "/pods?name=a")
        agent.until(ended(agent, "a"), "the pod to be gone")
        assert_ends_quietly(agent)


def test_a_start_writes_no_file_that_is_unchanged():
    def files(agent):
        return {
            path: (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in found_below(agent.state, "**/*")
            if path.is_file()
        }

    with on_small_disk() as agent:
        with_pod(agent)
        agent.stop()
        before = files(agent)
        assert len(before) > 5
        agent.start()
        agent.until_phase("a", "Running")
        assert files(agent) == before


def test_a_start_on_a_read_only_disk_says_so_in_one_line():
    with on_small_disk() as agent:
        agent.stop()
        make_read_only(agent)
        said = len(agent.said())
        agent.start(wait=False)
        assert agent.process.wait(60) in {1, 2}
        text = agent.said()[said:]
        assert "Read-only file system" in text
        assert "Traceback" not in text and "a bug" not in text
        assert len([line for line in text.splitlines() if line.startswith("error")]) == 1, text
