"""The volumes of a pod that need no cluster: paths of the host, and directories of its own.

Directories on medium Memory are mounts in the host's own namespace, so that all containers of a pod
share them and they outlive each of these; they go with the pod.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numalign.adapters.local import tmpfs
from numalign.core.errors import PeerError, PostponedError
from numalign.core.values.quantity import Quantity
from numalign.wire.grpc.cri_values import BindMount, Propagation
from numalign.wire.pods.records import (
    ConfigMapVolume,
    ContainerRecord,
    EmptyDir,
    HostPath,
    KeyToPath,
    PodSpec,
    SecretVolume,
    Volume,
    VolumeMount,
)
from numalign.wire.pods.unheeded import TOKEN_VOLUME

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


@dataclass(frozen=True, slots=True)
class Source:
    """Where the volumes of one pod come from."""

    root: Path  # of the pod's own directories
    # The keys of a ConfigMap or (True) Secret; None if there is none, PostponedError if unknown.
    keys: Callable[[bool, str], dict[str, bytes] | None] | None = None
    group: int | None = None  # of new directories
    # Whether root asked: else paths of the host are only looked at with the rights of who did.
    is_root: bool = True


def mounts(
    spec: PodSpec, container: ContainerRecord, source_of: Source | Path
) -> tuple[BindMount, ...]:
    """What a container gets of its pod's volumes, made where it must be; PostponedError if not."""
    source = Source(source_of) if isinstance(source_of, Path) else source_of
    volumes = {volume.name: volume for volume in spec.volumes or ()}
    found = []
    for mount in container.volumeMounts or ():
        if mount.name.startswith(TOKEN_VOLUME):
            continue  # told: there is nobody to show a token to
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
        volume = volumes[mount.name]
        path = _source(volume, mount, source, where)
        propagation = PROPAGATIONS[mount.mountPropagation]
        is_read_only = mount.readOnly or bool(volume.configMap or volume.secret)
        found.append(BindMount(mount.mountPath, str(path), is_read_only, propagation))
    return tuple(found)


def remove(directory: Path) -> None:
    """Removes the directories of a pod; under their name at once, however much there is in them."""
    trash = directory.with_name(f".{directory.name}.{time.time_ns()}")
    tmpfs.unmount_below(directory)
    try:
        directory.rename(trash)
    except OSError:
        return  # it had none
    asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, trash, True)  # noqa: FBT003


def remove_others(root: Path, known: Container[str]) -> None:
    """Removes the directories of pods that nobody knows any more."""
    for directory in root.glob("[!.]*"):
        if directory.name not in known:
            remove(directory)


def sweep(root: Path) -> None:
    """Goes on with removals that an end of the agent has interrupted."""
    for trash in root.glob(".*"):
        asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, trash, True)  # noqa: FBT003


def _refused(text: str) -> PostponedError:
    return PostponedError(text, reason="CreateContainerConfigError")


def _source(volume: Volume, mount: VolumeMount, source: Source, where: str) -> Path:
    if volume.hostPath is not None:
        return _host_path(volume.hostPath, where, is_root=source.is_root)
    if not volume.name or "/" in volume.name or volume.name in {".", ".."}:
        raise _refused(f"{where}: found no name for a directory")
    if mount.mountPropagation == "Bidirectional":
        # What is mounted in it would be emptied when the pod goes.
        raise _refused(f"{where}: found Bidirectional on a volume of the pod, not supported")
    place = source.root / volume.name
    if volume.emptyDir is not None:
        return _empty(volume.emptyDir, place, source.group, where)
    if volume.configMap is not None:
        return _written(volume.configMap, volume.configMap.name, place, source, where)
    if volume.secret is not None:
        return _written(volume.secret, volume.secret.secretName, place, source, where)
    raise _refused(
        f"{where}: found a kind that needs a cluster, expected hostPath, emptyDir, configMap or "
        "secret"
    )


def _empty(wanted: EmptyDir, place: Path, group: int | None, where: str) -> Path:
    if wanted.medium not in {"", "Memory"}:
        raise _refused(f"{where}: found an emptyDir on {wanted.medium}, expected none or Memory")
    is_new = not place.is_dir()
    _make(place, where)
    try:
        if is_new and wanted.medium:
            size = None if wanted.sizeLimit is None else Quantity.parse(str(wanted.sizeLimit))
            tmpfs.mount(place, None if size is None else size.value())
        if is_new and group is not None:
            os.chown(place, -1, group)
            place.chmod(0o2777)
    except (PeerError, OSError, ValueError) as error:
        place.rmdir()
        raise _refused(f"{where}: {place}: {error}") from error
    return place


def _written(
    wanted: ConfigMapVolume | SecretVolume, name: str, place: Path, source: Source, where: str
) -> Path:
    """The keys of an object as files, written anew for each container that starts."""
    if source.keys is None:
        raise _refused(f"{where}: found no source of configMap and secret; give a hostPath")
    keys = source.keys(isinstance(wanted, SecretVolume), name)
    if keys is None and not wanted.optional:
        raise _refused(f"{where}: found no object of the name {name!r}")
    given = keys or {}
    items = wanted.items or [KeyToPath(key, key) for key in given]
    lacking = [item.key for item in items if item.key not in given]
    if lacking and not wanted.optional:
        raise _refused(f"{where}: {name}: found no key {', '.join(lacking)}")
    is_new = not place.is_dir()
    _make(place, where)
    try:
        if is_new and isinstance(wanted, SecretVolume):
            tmpfs.mount(place, None)  # secrets do not go to the disk
        for item in items:
            if item.key in given:
                _write_key(place, item, given[item.key], wanted.defaultMode)
        place.chmod(0o755)
    except (PeerError, OSError) as error:
        raise _refused(f"{where}: {place}: {error}") from error
    return place


def _write_key(place: Path, item: KeyToPath, data: bytes, mode: int | None) -> None:
    path = place / item.path
    if Path(item.path).is_absolute() or ".." in path.parts:
        raise PeerError(f"found the path {item.path!r}, expected one below the volume")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(item.mode if item.mode is not None else 0o644 if mode is None else mode)


def _make(path: Path, where: str) -> Path:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.is_dir():
            path.mkdir()
            path.chmod(0o777)  # as the kubelet: containers may run as anybody
    except OSError as error:
        raise _refused(f"{where}: {path}: cannot be made: {error.strerror}") from error
    return path


def _host_path(wanted: HostPath, where: str, *, is_root: bool) -> Path:
    path = Path(wanted.path)
    if not path.is_absolute() or ".." in path.parts:
        raise _refused(f"{where}: hostPath: found {wanted.path!r}, expected an absolute path")
    if wanted.type not in {"", *_KINDS}:
        known = ", ".join(_KINDS)
        raise _refused(f"{where}: hostPath: found type {wanted.type!r}, expected one of {known}")
    if not wanted.type or not is_root:
        return path
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
