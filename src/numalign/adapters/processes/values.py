"""What the process runtime tells about containers, and what it is told to hold true."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.values.sets import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class Running:
    pod_uid: str
    container: str
    attempt: int
    pid: int
    supervisor_pid: int
    started_ns: int


@dataclass(frozen=True, slots=True)
class Exited:
    """A container that has ended, or could not be started (then ``message`` says why)."""

    pod_uid: str
    container: str
    attempt: int
    code: int
    signal: int = 0
    message: str = ""
    started_ns: int | None = None
    finished_ns: int | None = None
    oom_killed: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """What the kernel says about a container now."""

    pids: frozenset[int]
    cpus: CpuSet  # of all its processes together
    mems: NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What should be true of a running container; None: do not look."""

    pod_uid: str
    container: str
    cpus: CpuSet
    mems: NodeSet | None = None
    limits: Limits | None = None
    pod_limits: Limits | None = None  # of the group of the whole pod


class DriftKind(StrEnum):
    VALUE = "value"  # somebody changed a file of the cgroup
    GONE = "gone"  # the cgroup is not there
    ESCAPED = "escaped"  # a process is in another cgroup
    AFFINITY = "affinity"  # a thread may run on CPUs that are not the container's


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between what should be and what is."""

    pod_uid: str
    container: str
    kind: DriftKind
    where: str
    expected: str
    found: str
    pid: int | None = None
