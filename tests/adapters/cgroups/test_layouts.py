"""Paths and formats on plain directories: no kernel, so these show only what we would write.

The rules of the kernel itself are in test_cgroups.py, on the cgroups of the host that runs it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from numalign.adapters.cgroups import tree as cgroups
from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet, NodeSet

MAIN = cgroups.container_group(Qos.GUARANTEED, "1234", "main")


def mount(place: Path, kind: str, options: str) -> str:
    escaped = str(place).replace(" ", "\\040")
    return f"31 23 0:28 / {escaped} rw,relatime shared:9 - {kind} {kind} {options}\n"


def unified(root: Path, controllers: str) -> None:
    for folder in (root, root / "numalign", root / "numalign/pod1234", root / "numalign" / MAIN):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers + "\n")
        (folder / "cgroup.subtree_control").write_text(controllers + "\n")
        for name in ("cpu.weight", "cpu.max", "memory.max", "hugetlb.2MB.max", "cgroup.procs"):
            (folder / name).write_text("\n")
        (folder / "hugetlb.2MB.rsvd.max").write_text("max\n")
        for name in ("cpuset.cpus", "cpuset.mems"):
            (folder / name).write_text("\n")
            (folder / f"{name}.effective").write_text("0-3\n")


def test_a_unified_host_has_all_in_one_place(tmp_path: Path) -> None:
    unified(tmp_path, "cpuset cpu io memory hugetlb pids")
    tree = CgroupTree.detect(tmp_path, mount(tmp_path, "cgroup2", "rw,nsdelegate"), "/numalign/")
    assert [h.version for h in tree.hierarchies] == [2]
    assert tree.notes == ()
    tree.make(MAIN)
    limits = Limits(cpu_shares=1536, cpu_quota_us=150_000, memory_bytes_max=2**20)
    tree.limit(MAIN, limits)
    folder = tmp_path / "numalign/pod1234/c-main"
    assert tree.directories(MAIN) == [folder]
    texts = {name: (folder / name).read_text().strip() for name in ("cpu.weight", "cpu.max")}
    assert texts == {"cpu.weight": "59", "cpu.max": "150000 100000"}
    assert (folder / "memory.max").read_text() == "1048576"
    tree.limit("pod1234", Limits(hugetlb_bytes_max={}))
    assert (tmp_path / "numalign/pod1234/hugetlb.2MB.max").read_text().strip() == "0"
    assert (tmp_path / "numalign/pod1234/hugetlb.2MB.rsvd.max").read_text().strip() == "max"


def test_a_unified_kernel_that_gives_less_than_it_accepted_is_an_error(tmp_path: Path) -> None:
    unified(tmp_path, "cpuset cpu memory hugetlb")
    tree = CgroupTree.detect(tmp_path, mount(tmp_path, "cgroup2", "rw"), "numalign")
    tree.place({MAIN: CpusetPlacement(CpuSet.parse("0-3"), NodeSet.parse("0-3"))})
    with pytest.raises(PeerError, match=r"accepted '8-9' but gives '0-3'"):
        tree.place({MAIN: CpusetPlacement(CpuSet.parse("8-9"))})


def test_controllers_are_found_where_a_hybrid_host_has_them(tmp_path: Path) -> None:
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("hugetlb\n")
    text = (
        mount(tmp_path, "tmpfs", "rw")
        + mount(tmp_path / "cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
        + mount(tmp_path / "cpuset", "cgroup", "rw,cpuset")
        + mount(tmp_path / "systemd", "cgroup", "rw,name=systemd")
        + mount(Path("/elsewhere/memory"), "cgroup", "rw,memory")
        + mount(tmp_path / "unified", "cgroup2", "rw")
    )
    tree = CgroupTree.detect(tmp_path, text, "numalign")
    assert {(h.version, h.mount.name): sorted(h.controllers) for h in tree.hierarchies} == {
        (1, "cpu,cpuacct"): ["cpu"],
        (1, "cpuset"): ["cpuset"],
        (2, "unified"): ["hugetlb"],
    }
    assert tree.notes == ("no cgroup controller memory: memory limits are not enforced",)


def test_a_mount_with_a_blank_in_its_name_is_found(tmp_path: Path) -> None:
    place = tmp_path / "my host"
    place.mkdir()
    tree = CgroupTree.detect(place, mount(place, "cgroup", "rw,cpuset,cpu"), "numalign")
    assert [h.mount for h in tree.hierarchies] == [place]


def test_a_new_v1_group_is_filled_from_above_before_anyone_joins(tmp_path: Path) -> None:
    levels = [tmp_path / "numalign", tmp_path / "numalign/pod1234", tmp_path / "numalign" / MAIN]
    for folder in levels:
        folder.mkdir()
        (folder / "cpuset.cpus").write_text("\n")
        (folder / "cpuset.mems").write_text("\n")
    (tmp_path / "cpuset.cpus").write_text("0-7\n")
    (tmp_path / "cpuset.mems").write_text("0-1\n")
    tree = CgroupTree.detect(tmp_path, mount(tmp_path, "cgroup", "rw,cpuset"), "numalign")
    tree.make(MAIN)
    assert {(f / "cpuset.cpus").read_text().strip() for f in levels} == {"0-7"}
    assert {(f / "cpuset.mems").read_text().strip() for f in levels} == {"0-1"}


def test_a_host_without_cgroups_says_what_is_missing(tmp_path: Path) -> None:
    tree = CgroupTree.detect(tmp_path, "", "numalign")
    assert not tree.has_cpuset
    assert len(tree.notes) == 4
    assert "affinity" in tree.notes[0]
