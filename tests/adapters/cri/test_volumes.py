"""Volumes of a pod that need no cluster."""

import asyncio
import stat

import pytest

from numalign.adapters.cri import volumes as cri_volumes
from numalign.core.errors import PostponedError
from numalign.wire.grpc.cri_values import BindMount, Propagation
from numalign.wire.pods.records import (
    ContainerRecord,
    EmptyDir,
    HostPath,
    PodSpec,
    Volume,
    VolumeMount,
)


def mounted(root, volume, **mount):
    spec = PodSpec(volumes=[volume])
    container = ContainerRecord("c", volumeMounts=[VolumeMount("v", "/in", **mount)])
    return cri_volumes.mounts(spec, container, root / "volumes")


def test_a_directory_of_the_pods_own_is_made_once_for_all_its_containers(tmp_path):
    [first] = mounted(tmp_path, Volume("v", emptyDir=EmptyDir()))
    where = tmp_path / "volumes" / "v"
    assert first == BindMount("/in", str(where))
    assert stat.S_IMODE(where.stat().st_mode) == 0o777
    assert stat.S_IMODE(where.parent.stat().st_mode) == 0o700
    (where / "kept").touch()
    mounted(tmp_path, Volume("v", emptyDir=EmptyDir()), readOnly=True)
    assert (where / "kept").exists()


def test_paths_of_the_host_are_checked_and_made_as_their_type_says(tmp_path):
    for kind, name in (("DirectoryOrCreate", "d/e"), ("FileOrCreate", "f"), ("", "nothing")):
        volume = Volume("v", hostPath=HostPath(str(tmp_path / name), kind))
        [found] = mounted(tmp_path, volume, mountPropagation="HostToContainer")
        assert found.propagation is Propagation.FROM_HOST
    assert (tmp_path / "d/e").is_dir()
    assert (tmp_path / "f").is_file()
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("volume", "mount", "words"),
    [
        (Volume("other"), {}, "no such volume"),
        (Volume("v"), {}, "needs a cluster"),
        (Volume("v", emptyDir=EmptyDir("HugePages")), {}, "expected none or Memory"),
        (Volume("v", emptyDir=EmptyDir()), {"subPath": "x"}, "subPath"),
        (Volume("v", emptyDir=EmptyDir()), {"mountPropagation": "Bidirectional"}, "Bidirectional"),
        (Volume("v", emptyDir=EmptyDir()), {"mountPropagation": "Maybe"}, "expected one of"),
        (Volume("v", hostPath=HostPath("etc")), {}, "absolute path"),
        (Volume("v", hostPath=HostPath("/etc/../root")), {}, "absolute path"),
        (Volume("v", hostPath=HostPath("/etc", "File")), {}, "expected File"),
        (Volume("v", hostPath=HostPath("/no/such", "Directory")), {}, "No such file"),
        (Volume("v", hostPath=HostPath("/etc", "Other")), {}, "expected one of"),
    ],
)
def test_what_cannot_be_mounted_is_told(tmp_path, volume, mount, words):
    with pytest.raises(PostponedError, match=words) as caught:
        mounted(tmp_path, volume, **mount)
    assert caught.value.reason == "CreateContainerConfigError"


def test_what_is_removed_is_gone_at_once_and_a_link_leads_nowhere(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()

    async def work():
        volumes = tmp_path / "volumes"
        (volumes / "u" / "v").mkdir(parents=True)
        (volumes / "u" / "v" / "link").symlink_to(outside)
        (volumes / ".left.over").mkdir()
        cri_volumes.remove(volumes / "u")
        assert not (volumes / "u").exists()
        cri_volumes.remove(volumes / "u")
        (volumes / "unknown" / "v").mkdir(parents=True)
        (volumes / "known").mkdir()
        cri_volumes.remove_others(volumes, {"known"})
        assert [path.name for path in volumes.glob("[!.]*")] == ["known"]
        (volumes / "known").rmdir()
        cri_volumes.sweep(volumes)
        for _ in range(200):
            if not list(volumes.iterdir()):
                break
            await asyncio.sleep(0.01)
        assert not list(volumes.iterdir())

    asyncio.run(work())
    assert (outside / "kept").exists()
