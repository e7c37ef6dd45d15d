"""What a device plugin wants a container to get: its answers to Allocate, also merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host inside the container."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the host inside the container; permissions are some of r, w and m."""

    container_path: str
    host_path: str
    permissions: str = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a container needs besides its devices' ids."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_names: tuple[str, ...] = ()
    response: bytes = b""  # the answer as the checkpoint keeps it


def parts_for_containers(answer: Allocation) -> str:
    """What of an answer only a container runtime can carry out, in words; "" if nothing."""
    parts = {
        "device files": [device.container_path for device in answer.devices],
        "mounts": [mount.container_path for mount in answer.mounts],
        "CDI devices": list(answer.cdi_names),
    }
    return ", ".join(f"{what} {' '.join(found)}" for what, found in parts.items() if found)


_T = TypeVar("_T", Mount, DeviceNode)


def merged(answers: Iterable[Allocation]) -> Allocation:
    """All answers for one container together: of two for the same name or path the first counts.

    The kubelet walks the resources in the order of a Go map; the caller gives them by name.
    """
    envs: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, DeviceNode] = {}
    annotations: dict[str, str] = {}
    cdi_names: dict[str, None] = {}
    for answer in answers:
        envs = {**answer.envs, **envs}
        mounts = {**_by_path(answer.mounts), **mounts}
        devices = {**_by_path(answer.devices), **devices}
        annotations = {**answer.annotations, **annotations}
        cdi_names |= dict.fromkeys(answer.cdi_names)
    return Allocation(
        dict(sorted(envs.items())),
        tuple(mounts[path] for path in sorted(mounts)),
        tuple(devices[path] for path in sorted(devices)),
        dict(sorted(annotations.items())),
        tuple(cdi_names),
    )


def _by_path(found: Iterable[_T]) -> dict[str, _T]:
    return {one.container_path: one for one in reversed(tuple(found))}
