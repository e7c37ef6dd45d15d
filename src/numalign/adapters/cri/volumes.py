"""The volumes of a pod that need no cluster: paths of the host, and directories of its own."""

from __future__ import annotations

import asyncio
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from numalign.core.errors import PostponedError
from numalign.wire.grpc.cri_values import BindMount, Propagation
from numalign.wire.pods.records import ContainerRecord, HostPath, PodSpec, Volume, VolumeMount

PROPAGATIONS: Final = {
    "": Propagation.PRIVATE,
    "None": Propagation.PRIVATE,
    "HostToContainer": Propagation.FROM_HOST,
    "Bidirectional": Propagation.BOTH_WAYS,
}
_KINDS: Final[Mapping[str, Callable[[int], bool]]] = {
    "Directory": stat.S_ISDIR,
    "DirectoryOrCreate": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "FileOrCreate": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def mounts(spec: PodSpec, container: ContainerRecord, root: Path) -> tuple[BindMount, ...]:
    """What a container gets of its pod's volumes, made where it must be; PostponedError if not.

    ``root`` is where the pod's own directories are.
    """
    volumes = {volume.name: volume for volume in spec.volumes or ()}
    found = []
    for mount in container.volumeMounts or ():
        where = f"container {container.name}: volume {mount.name}"
        if mount.name not in volumes:
            raise _refused(f"{where}: found no such volume in the pod")
        if mount.subPath or mount.subPathExpr:
            raise _refused(f"{where}: found a subPath, which is not supported; mount it whole")
        if not mount.mountPath.startswith("/"):
            raise _refused(
                f"{where}: mountPath: found {mount.mountPath!r}, expected an absolute path"
            )
        if mount.mountPropagation not in PROPAGATIONS:
            known = ", ".join(name for name in PROPAGATIONS if name)
            text = f"mountPropagation: found {mount.mountPropagation!r}, expected one of {known}"
            raise _refused(f"{where}: {text}")
        source = _source(volumes[mount.name], mount, root, where)
        propagation = PROPAGATIONS[mount.mountPropagation]
        found.append(BindMount(mount.mountPath, str(source), mount.readOnly, propagation))
    return tuple(found)


def remove(directory: Path) -> None:
    """Removes the directories of a pod; under their name at once, however much there is in them."""
    trash = directory.with_name(f".{directory.name}.{time.time_ns()}")
    try:
        directory.rename(trash)
    except OSError:
        return  # it had none
    asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, trash, True)  # noqa: FBT003


def sweep(root: Path) -> None:
    """Goes on with removals that an end of the agent has interrupted."""
    for trash in root.glob(".*"):
        asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, trash, True)  # noqa: FBT003


def _refused(text: str) -> PostponedError:
    return PostponedError(text, reason="CreateContainerConfigError")


def _source(volume: Volume, mount: VolumeMount, root: Path, where: str) -> Path:
    if volume.hostPath is not None:
        return _host_path(volume.hostPath, where)
    if volume.emptyDir is None:
        raise _refused(f"{where}: found a kind that needs a cluster, expected hostPath or emptyDir")
    if volume.emptyDir.medium:
        raise _refused(
            f"{where}: found an emptyDir on {volume.emptyDir.medium}, which is not supported; "
            "leave medium out, or give a hostPath on such a file system"
        )
    if mount.mountPropagation == "Bidirectional":
        # What is mounted in it would be emptied when the pod goes.
        raise _refused(f"{where}: found Bidirectional on an emptyDir, which is not supported")
    if not volume.name or "/" in volume.name or volume.name in {".", ".."}:
        raise _refused(f"{where}: found no name for a directory")
    return _make(root / volume.name, where)


def _make(path: Path, where: str) -> Path:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            path.mkdir()
            path.chmod(0o777)  # as the kubelet: containers may run as anybody
    except OSError as error:
        raise _refused(f"{where}: {path}: cannot be made: {error.strerror}") from error
    return path


def _host_path(wanted: HostPath, where: str) -> Path:
    path = Path(wanted.path)
    if not path.is_absolute() or ".." in path.parts:
        raise _refused(f"{where}: hostPath: found {wanted.path!r}, expected an absolute path")
    if not wanted.type:
        return path
    if wanted.type not in _KINDS:
        known = ", ".join(_KINDS)
        raise _refused(f"{where}: hostPath: found type {wanted.type!r}, expected one of {known}")
    try:
        if wanted.type == "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif wanted.type == "FileOrCreate":
            path.touch(mode=0o644, exist_ok=True)
        is_kind = _KINDS[wanted.type](path.stat().st_mode)
    except OSError as error:
        raise _refused(f"{where}: {path}: {error.strerror}; expected {wanted.type}") from error
    if not is_kind:
        raise _refused(f"{where}: {path}: found something else, expected {wanted.type}")
    return path
