"""Somebody pulls at the cgroups and supervisors of a real agent: all of it is put back."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, found_below, is_alive, manifest

from numalign.adapters.local.paths import cgroup_parent

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups need root"),
]

CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
cpuManagerReconcilePeriod: 200ms
"""
FILES = (
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.weight",
    "cpu.max",
    "memory.limit_in_bytes",
    "memory.max",
    "cpuset.cpus",
    "cpuset.mems",
)


@pytest.fixture
def agent():
    with AgentProcess(config=CONFIG) as found:
        if not groups(found, ""):
            pytest.skip("no cgroups here")
        yield found


def groups(agent, pattern):
    """The directories of the agent's cgroups that match, in all hierarchies."""
    parent = cgroup_parent(agent.state)
    return sorted(Path("/sys/fs/cgroup").glob(f"*/{parent}/{pattern}".rstrip("/")))


def values(directories):
    """All limits of some groups, as the kernel has them."""
    found = {}
    for directory in directories:
        for name in FILES:
            with contextlib.suppress(OSError):
                found[directory / name] = (directory / name).read_text()
    return found


def supervisor_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def groups_of(pid):
    return Path(f"/proc/{pid}/cgroup").read_text()


def limited(name):
    found = manifest(name, memory="64Mi", cpu="300m")
    [container] = found["spec"]["containers"]
    container["resources"]["requests"] = {"cpu": "200m", "memory": "32Mi"}
    return found


def running(agent, pod):
    agent.apply(pod)
    name = pod["metadata"]["name"]
    agent.until_phase(name, "Running")
    [pid] = agent.records().values()
    return agent.pod_list()[name]["metadata"]["uid"], pid


def test_groups_that_were_removed_come_back_with_all_their_limits(agent):
    uid, pid = running(agent, limited("a"))
    of_pod, of_container = groups(agent, f"burstable/pod{uid}"), groups(agent, "*/*/c-c")
    before = values([*of_pod, *of_container])
    assert len(before) > 8
    with agent.paused():
        for directory in of_container:
            for number in (directory / "cgroup.procs").read_text().split():
                (directory.parents[3] / "cgroup.procs").write_text(number)
            directory.rmdir()
        for directory in of_pod:
            directory.rmdir()
    agent.until(
        lambda: (
            all(directory.is_dir() for directory in [*of_pod, *of_container])
            and values([*of_pod, *of_container]) == before
        ),
        "all limits to be back",
    )
    agent.until(
        lambda: all(str(pid) in (d / "cgroup.procs").read_text().split() for d in of_container),
        "the process to be back",
    )
    assert agent.phase("a") == "Running"


def test_limits_that_were_changed_are_put_back_on_both_levels(agent):
    uid, _ = running(agent, limited("a"))
    directories = [*groups(agent, f"burstable/pod{uid}"), *groups(agent, "*/*/c-c")]
    before = values(directories)
    changed = 0
    with agent.paused():
        for path in before:
            other = {"memory.limit_in_bytes": "99999744", "memory.max": "99999744"}
            other |= {"cpu.shares": "77", "cpu.weight": "77", "cpu.cfs_quota_us": "-1"}
            if path.name in other:
                with contextlib.suppress(OSError):
                    path.write_text(other[path.name])
                    changed += 1
        assert changed >= 3 and values(directories) != before
    agent.until(lambda: values(directories) == before, "all limits to be back")


def test_a_supervisor_that_was_moved_is_put_back_in_its_place(agent):
    _, pid = running(agent, limited("a"))
    supervisor = supervisor_of(pid)
    before = groups_of(supervisor)
    with agent.paused():
        for directory in groups(agent, "supervisors"):
            (directory.parents[1] / "cgroup.procs").write_text(str(supervisor))
            directory.rmdir()
        assert groups_of(supervisor) != before
    agent.until(lambda: groups_of(supervisor) == before, "the supervisor to be back")
    agent.until_well()


def test_a_stopped_supervisor_is_ended_after_its_grace(agent):
    _, pid = running(agent, limited("a"))
    supervisor = supervisor_of(pid)
    os.kill(supervisor, signal.SIGSTOP)
    agent.request("DELETE", "/pods?name=a")
    end = time.monotonic() + 25
    while agent.pod_list() and time.monotonic() < end:
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGSTOP)
        time.sleep(0.05)
    assert not agent.pod_list(), agent.said()
    assert not is_alive(pid)
    assert not agent.problems()


def test_a_problem_of_cleaning_up_is_told_tried_again_and_over_when_it_is_over(agent):
    uid, _ = running(agent, limited("a"))
    [directory, *_] = groups(agent, f"burstable/pod{uid}")
    with subprocess.Popen(["sleep", "1000"]) as foreign:
        (directory / "cgroup.procs").write_text(str(foreign.pid))
        agent.request("DELETE", "/pods?name=a")
        agent.until(
            lambda: any(uid in p for p in agent.problems()),
            "the problem",
        )
        foreign.kill()
    agent.until_well()
    assert not groups(agent, f"burstable/pod{uid}")


@pytest.mark.skipif(
    not Path("/sys/fs/cgroup/cpuset").is_dir(), reason="v2 keeps what was asked for"
)
def test_groups_above_that_lost_cpus_as_by_a_cpu_that_went_offline_are_widened_again(agent):
    uid, pid = running(agent, limited("a"))
    [group] = Path("/sys/fs/cgroup/cpuset").glob(f"{cgroup_parent(agent.state)}/*/pod{uid}/c-c")
    top = group.parents[2]
    before = (group / "cpuset.cpus").read_text()
    if before.strip() == "0":
        pytest.skip("there is but one CPU")
    with agent.paused():
        # None may have more than its parent, so the deepest come first.
        files = found_below(top, "**/cpuset.cpus")
        for file in sorted(files, key=lambda file: -len(file.parts)):
            file.write_text("0")
    agent.until(lambda: (group / "cpuset.cpus").read_text() == before, "its CPUs to be back")
    agent.until_well()
    assert is_alive(pid)
