"""Cpuset files are found by the names that both cgroup drivers give."""

import pytest

from numalign.adapters.nri.cpusets import Cpuset, Cpusets


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("/kubepods/pod1/abc", "kubepods/pod1/abc"),
        (
            "kubepods-burstable-pod1_2.slice:cri-containerd:abc",
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
            "cri-containerd-abc.scope",
        ),
    ],
)
def test_a_container_is_found_in_both_versions_and_by_both_drivers(tmp_path, version, name, place):
    root = tmp_path / "cpuset" if version == "v1" else tmp_path
    group = root / place
    group.mkdir(parents=True)
    if version == "v1":
        (root / "cpuset.cpus").write_text("0-7\n")
    (group / "cpuset.cpus").write_text("1,3-4\n")
    (group / "cpuset.mems").write_text("0\n")
    assert Cpusets(tmp_path).read(name) == Cpuset(0b11010, 1)


@pytest.mark.parametrize("name", ["", "/gone", "/../etc", "a:b:c", "../x.slice:p:n"])
def test_what_is_not_there_is_not_known(tmp_path, name):
    assert Cpusets(tmp_path).read(name) is None
