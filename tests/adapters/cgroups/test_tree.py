"""Real cgroups of this host: what the kernel takes, what it refuses, and what we say then."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.cgroups.own_cgroups import FIRST, HOST_CPUS, LAST, NODE, real_tree

from numalign.adapters.cgroups import files as cgroup_files
from numalign.adapters.cgroups import tree as cgroups
from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet, NodeSet

# Real processes, sockets and time: run by make e2e.
pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

POD = cgroups.pod_group(Qos.BURSTABLE, "1234")
MAIN = cgroups.container_group(Qos.BURSTABLE, "1234", "main")
SIDE = cgroups.container_group(Qos.BURSTABLE, "1234", "tasks")  # a name that v1 has as a file


@pytest.fixture
def tree() -> Iterator[CgroupTree]:
    with real_tree() as tree:
        yield tree


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def allowed(pid: int) -> CpuSet:
    text = Path(f"/proc/{pid}/status").read_text()
    return CpuSet.parse(re.search(r"Cpus_allowed_list:\s*(\S+)", text)[1])


def test_a_process_in_a_placed_group_runs_where_the_group_says(
    tree: CgroupTree, sleeper: subprocess.Popen[bytes]
) -> None:
    tree.make(MAIN)
    tree.place({MAIN: CpusetPlacement(LAST, NODE)})
    tree.add(MAIN, sleeper.pid)
    assert allowed(sleeper.pid) == LAST
    assert tree.effective(MAIN) == (LAST, NODE)
    assert tree.pids(MAIN) == {sleeper.pid} == tree.pids(POD)
    assert tree.outside(MAIN, [sleeper.pid, os.getpid()]) == {os.getpid()}
    tree.place({MAIN: CpusetPlacement(cpus=FIRST)})
    assert allowed(sleeper.pid) == FIRST


def test_amounts_are_written_and_found_again(tree: CgroupTree) -> None:
    limits = Limits(cpu_shares=1536, cpu_quota_us=150_000, memory_bytes_max=48 * 2**20 + 1)
    tree.make(MAIN)
    tree.limit(POD, Limits(cpu_shares=1536, cpu_quota_us=150_000, hugetlb_bytes_max={}))
    tree.limit(MAIN, limits)
    assert tree.differences(MAIN, limits, CpusetPlacement()) == []
    other = Limits(cpu_shares=512, memory_bytes_max=48 * 2**20 + 1)
    found = {d.path.name for d in tree.differences(MAIN, other, CpusetPlacement())}
    assert found & {"cpu.shares", "cpu.weight"}
    assert found & {"cpu.cfs_quota_us", "cpu.max"}
    assert not any(name.startswith("memory") for name in found)
    tree.limit(MAIN, Limits())
    assert tree.differences(MAIN, Limits(), CpusetPlacement()) == []


def test_huge_pages_of_a_pod_are_limited_where_the_host_can(tree: CgroupTree) -> None:
    if not any("hugetlb" in h.controllers for h in tree.hierarchies):
        pytest.skip("this host has no hugetlb controller")
    tree.make(MAIN)
    tree.limit(POD, Limits(hugetlb_bytes_max={2 * 2**20: 4 * 2**20}))
    texts = {
        path.name: path.read_text().strip()
        for directory in tree.directories(POD)
        for path in directory.glob("hugetlb.*")
    }
    assert "4194304" in {
        texts.get("hugetlb.2MB.max"),
        texts.get("hugetlb.2MB.limit_in_bytes"),
    }
    with pytest.raises(PeerError, match=r"hugetlb\.3MB\..*ENOENT"):
        tree.limit(POD, Limits(hugetlb_bytes_max={3 * 2**20: 3 * 2**20}))


@pytest.mark.parametrize(
    ("placing", "file", "told"),
    [
        (CpusetPlacement(cpus=CpuSet.of([60_000])), "cpuset.cpus", "60000"),
        (CpusetPlacement(mems=NodeSet.of([900])), "cpuset.mems", "900"),
        (CpusetPlacement(cpus=CpuSet()), "cpuset.cpus", ""),
    ],
)
def test_a_refusal_names_the_file_the_value_the_error_and_what_to_do(
    tree: CgroupTree,
    sleeper: subprocess.Popen[bytes],
    placing: CpusetPlacement,
    file: str,
    told: str,
) -> None:
    tree.make(MAIN)
    tree.place({MAIN: CpusetPlacement(HOST_CPUS, NODE)})
    tree.add(MAIN, sleeper.pid)
    with pytest.raises(PeerError) as caught:
        tree.place({MAIN: placing})
    text = str(caught.value)
    assert file in text
    assert told in text
    assert re.search(r"ERANGE|EINVAL|ENOSPC|accepted", text)
    assert len(text.split(". ", 1)[1]) > 20  # what to do


def test_one_refusal_does_not_keep_the_others_from_moving(tree: CgroupTree) -> None:
    tree.make(MAIN)
    tree.make(SIDE)
    tree.place({MAIN: CpusetPlacement(HOST_CPUS, NODE), SIDE: CpusetPlacement(HOST_CPUS, NODE)})
    with pytest.raises(PeerError, match="60000"):
        tree.place(
            {MAIN: CpusetPlacement(cpus=CpuSet.of([60_000])), SIDE: CpusetPlacement(cpus=LAST)}
        )
    effective = tree.effective(SIDE)
    assert effective is not None
    assert effective[0] == LAST


@pytest.mark.skipif(len(HOST_CPUS) < 2, reason="needs two CPUs")
def test_parents_and_children_move_to_quite_other_cpus_in_one_batch(tree: CgroupTree) -> None:
    tree.make(MAIN)
    tree.make(SIDE)
    for cpus in (FIRST, LAST, FIRST):
        tree.place(
            {MAIN: CpusetPlacement(cpus), POD: CpusetPlacement(cpus), SIDE: CpusetPlacement(cpus)}
        )
        assert [tree.effective(group)[0] for group in (POD, MAIN, SIDE)] == [cpus] * 3


def test_drift_of_a_cpuset_is_seen(tree: CgroupTree) -> None:
    tree.make(MAIN)
    tree.place({MAIN: CpusetPlacement(LAST, NODE)})
    assert tree.differences(MAIN, None, CpusetPlacement(LAST, NODE)) == []
    (difference,) = tree.differences(MAIN, None, CpusetPlacement(FIRST, NODE))
    assert (difference.path.name, difference.expected, difference.found) == (
        "cpuset.cpus",
        str(FIRST),
        str(LAST),
    )


def test_kill_ends_all_processes_also_in_groups_that_the_container_made(tree: CgroupTree) -> None:
    below = f"{MAIN}/own"
    tree.make(below)
    with (
        subprocess.Popen(["sleep", "60"]) as first,
        subprocess.Popen(["sleep", "60"]) as second,
    ):
        # Only v1 lets a group with children hold processes; both here is where v2 wants them.
        tree.add(below, first.pid)
        tree.add(below, second.pid)
        assert tree.kill(MAIN) <= {first.pid, second.pid}  # one may be gone already
        assert (first.wait(60), second.wait(60)) == (-9, -9)
    deadline = time.monotonic() + 5
    while tree.pids(MAIN) and time.monotonic() < deadline:
        time.sleep(0.002)
    tree.remove(MAIN)
    assert not tree.exists(MAIN)
    assert tree.children(POD) == set()


def test_a_group_with_processes_is_not_removed_and_says_so(
    tree: CgroupTree, sleeper: subprocess.Popen[bytes]
) -> None:
    tree.make(MAIN)
    tree.place({MAIN: CpusetPlacement(HOST_CPUS, NODE)})
    tree.add(MAIN, sleeper.pid)
    with pytest.raises(PeerError, match="EBUSY") as caught:
        tree.remove(MAIN)
    assert caught.value.retry


def test_making_and_removing_twice_is_fine(tree: CgroupTree) -> None:
    tree.make(MAIN)
    tree.make(MAIN)
    tree.remove(POD)
    tree.remove(POD)
    assert tree.pids(POD) == set()
    assert tree.oom_kills(MAIN) == 0


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 300])
def test_a_name_cannot_leave_its_place(name: str) -> None:
    with pytest.raises(ConfigError):
        cgroups.pod_group(Qos.GUARANTEED, name)


@pytest.mark.parametrize("parent", ["", "/", "../x"])
def test_the_root_itself_is_no_parent(parent: str) -> None:
    with pytest.raises(ConfigError):
        CgroupTree([], parent)


def test_texts_that_mean_the_same_to_the_kernel_are_the_same() -> None:
    same = cgroup_files.same
    assert same("cpuset.mems", "0,1,2", "0-2")
    assert same("memory.max", "max", "max")
    assert same("memory.limit_in_bytes", "-1", "9223372036854771712")
    assert same("memory.max", "4097", "4096")
    assert same("hugetlb.2MB.max", "3145728", "2097152")
    assert not same("memory.max", "8192", "4096")
    assert not same("memory.max", "4096", "8192")
    assert not same("cpu.max", "max 100000", "100000 100000")
    assert not same("cpu.shares", "1025", "1024")
