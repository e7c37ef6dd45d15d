"""What a container runtime is told and what it answers, as values.

The numbers of the enums are those of the Container Runtime Interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.kubelet.devices.plugin_answer import DeviceNode
from numalign.core.values.sets import CpuSet, NodeSet


class Propagation(IntEnum):
    """Whether mounts made later are seen on the other side of a mount."""

    PRIVATE = 0
    FROM_HOST = 1
    BOTH_WAYS = 2


class Seccomp(IntEnum):
    """Which system calls a container may make."""

    RUNTIME_DEFAULT = 0
    UNCONFINED = 1


class RunStatus(IntEnum):
    """How far a container is, in the runtime's words."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


# What a runtime is told.


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Which namespaces a pod shares with the host, and whether its containers share processes."""

    host_network: bool = True
    host_pid: bool = False
    host_ipc: bool = False
    shared_pid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What a container may do; None: what its image says."""

    privileged: bool = False
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    capabilities_added: tuple[str, ...] = ()
    capabilities_dropped: tuple[str, ...] = ()
    must_not_be_root: bool = False  # not for the runtime: checked before
    seccomp: Seccomp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A pod's sandbox: its names, its logs, its cgroup and its namespaces."""

    uid: str
    name: str
    namespace: str
    attempt: int = 0
    hostname: str = ""
    log_directory: str
    cgroup_parent: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    namespaces: Namespaces = field(default_factory=Namespaces)
    security: Security = field(default_factory=Security)


@dataclass(frozen=True, slots=True)
class BindMount:
    """A directory or file of the host inside a container."""

    container_path: str
    host_path: str
    read_only: bool = False
    propagation: Propagation = Propagation.PRIVATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Everything that limits a container, as the kubelet computes it."""

    limits: Limits
    cpus: CpuSet | None = None
    mems: NodeSet | None = None
    hugepages: Mapping[int, int] = field(default_factory=dict)  # bytes by page size in bytes
    oom_score_adj: int = 0
    kills_as_group: bool = False  # cgroup v2: out of memory ends all processes of a container


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """One run of a container. ``image`` is what its author wrote, ``image_id`` what it is."""

    name: str
    attempt: int
    image: str
    image_id: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    cdi_names: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    log_path: str
    resources: Resources
    security: Security = field(default_factory=Security)


class PullPolicy(StrEnum):
    """When an image is fetched, in Kubernetes' words."""

    ALWAYS = "Always"
    IF_MISSING = "IfNotPresent"
    NEVER = "Never"


# What a runtime answers.


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    name: str
    version: str
    api_version: str


@dataclass(frozen=True, slots=True)
class ImageFound:
    """An image that is there, and as whom it runs; neither user nor name: as root."""

    id: str
    user: int | None = None
    user_name: str = ""

    @property
    def is_root(self) -> bool | None:
        """Whether it runs as root; None if only the image's own files could tell."""
        if self.user is not None:
            return self.user == 0
        return None if self.user_name else True


@dataclass(frozen=True, slots=True)
class Sandbox:
    id: str
    uid: str
    name: str
    namespace: str
    attempt: int
    is_ready: bool
    host_network: bool  # as we noted when it was made


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    sandbox_id: str
    uid: str
    name: str
    attempt: int
    status: RunStatus


@dataclass(frozen=True, slots=True)
class Report:
    """What a runtime says about one container.

    ``cpus`` and ``mems`` are what was asked for last, not what the kernel has; None if not told.
    """

    id: str
    status: RunStatus
    exit_code: int
    reason: str
    message: str
    started_ns: int
    finished_ns: int
    pid: int
    cpus: str | None = None
    mems: str | None = None
