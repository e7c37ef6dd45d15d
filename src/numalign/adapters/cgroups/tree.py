"""The tree of cgroups below one parent, over whatever hierarchies a host has mounted.

A group is a path below the parent such as ``burstable/pod1234/c-main``, as the kubelet lays them
out with its cgroupfs driver. It exists in every hierarchy with a controller that we use: in one on
a v2 host, in several on v1 and hybrid ones. A controller that is nowhere is told in ``notes``.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

from numalign.adapters.cgroups import files as cgroup_files
from numalign.adapters.cgroups.v1 import HierarchyV1
from numalign.adapters.cgroups.v2 import HierarchyV2
from numalign.core.errors import ConfigError, PeerError
from numalign.core.kubelet.cgroup_limits import Limits, cpuset_files
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet, NodeSet

Hierarchy = HierarchyV1 | HierarchyV2

CONTROLLERS: Final = ("cpuset", "cpu", "memory", "hugetlb")
_WITHOUT: Final = {
    "cpuset": "containers are pinned by affinity, which they can change themselves",
    "cpu": "CPU shares and quotas are not enforced",
    "memory": "memory limits are not enforced",
    "hugetlb": "limits of huge pages are not enforced",
}
_QOS_GROUPS: Final = {Qos.BURSTABLE: "burstable", Qos.BEST_EFFORT: "besteffort"}
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def qos_group(qos: Qos) -> str:
    """The group of a QoS class; Guaranteed pods lie directly below the parent."""
    return _QOS_GROUPS.get(qos, "")


def pod_group(qos: Qos, uid: str) -> str:
    return str(PurePosixPath(qos_group(qos), f"pod{_checked(uid)}"))


def container_group(qos: Qos, uid: str, name: str) -> str:
    """The group of a container: prefixed, since v1 has a file ``tasks`` in every group."""
    return f"{pod_group(qos, uid)}/c-{_checked(name)}"


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name a group: found other than letters, digits, . _ -")
    return name


@dataclass(frozen=True, slots=True)
class Difference:
    """One file that does not say what it should."""

    path: Path
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class CpusetPlacement:
    """Where the processes of a group may run; None leaves what is there."""

    cpus: CpuSet | None = None
    mems: NodeSet | None = None


class CgroupTree:
    """All groups below ``parent`` in these hierarchies."""

    def __init__(self, hierarchies: Iterable[Hierarchy], parent: str) -> None:
        self.parent = PurePosixPath(parent.strip("/"))
        if not self.parent.parts or ".." in self.parent.parts:
            raise ConfigError(f"{parent!r} is no parent for our groups: expected e.g. 'numalign'")
        self.hierarchies = tuple(hierarchies)
        self._held: int | None = None  # the parent's directory, locked
        self._by_controller = {c: h for h in self.hierarchies for c in h.controllers}
        self.notes = tuple(
            f"no cgroup controller {name}: {_WITHOUT[name]}"
            for name in CONTROLLERS
            if name not in self._by_controller
        )

    @classmethod
    def detect(cls, root: Path, mountinfo: str, parent: str) -> Self:
        """The tree over all cgroup mounts at or below ``root`` in a /proc/PID/mountinfo text."""
        return cls(mounted(root, mountinfo), parent)

    @property
    def has_cpuset(self) -> bool:
        """Whether groups can pin their processes."""
        return "cpuset" in self._by_controller

    # Groups.

    def take(self) -> None:
        """Makes the parent and holds it until this process ends; ConfigError if another does."""
        if not self.hierarchies:
            return
        self.make("")
        directory = self.directories("")[0]
        self._held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"{directory}: another agent keeps its containers in these cgroups. Stop it first, "
                "or give this one a cgroupParent of its own in the configuration."
            ) from error

    def remove_if_unused(self, *groups: str) -> None:
        """Removes these groups and then the parent, as far as nothing is left in them."""
        for group in groups:
            with suppress(PeerError):
                self.remove(group)
        for directory in self.directories(""):
            with suppress(OSError):
                directory.rmdir()

    def directories(self, group: str) -> list[Path]:
        return [h.directory(self.parent / group) for h in self.hierarchies]

    def make(self, group: str) -> None:
        """Makes a group and all above it; fine when they are there."""
        for hierarchy in self.hierarchies:
            hierarchy.make(self.parent / group)

    def exists(self, group: str) -> bool:
        return all(directory.is_dir() for directory in self.directories(group))

    def remove(self, group: str) -> None:
        """Removes a group and all below it; PeerError while it has processes."""
        for directory in self.directories(group):
            cgroup_files.remove(directory)

    def children(self, group: str = "") -> set[str]:
        found: set[str] = set()
        for directory in self.directories(group):
            with suppress(FileNotFoundError):
                found.update(cgroup_files.children_of(str(directory)))
        return found

    # Values.

    def limit(self, group: str, limits: Limits) -> None:
        """Writes amounts and reads them back."""
        for path, value in self._limit_files(group, limits):
            cgroup_files.write(path, value)

    def _limit_files(self, group: str, limits: Limits) -> list[tuple[Path, str]]:
        return [
            (directory / file, value)
            for h in self.hierarchies
            for directory in [h.directory(self.parent / group)]
            for file, value in h.files(limits, directory).items()
        ]

    def place(self, placements: Mapping[str, CpusetPlacement]) -> None:
        """Moves many groups to their CPUs and NUMA nodes, in an order that the kernel accepts.

        All of them are tried; the PeerError at the end names every refusal.
        """
        hierarchy = self._by_controller.get("cpuset")
        if hierarchy is None:
            return
        failures = hierarchy.place(
            {self.parent / g: cpuset_files(p.cpus, p.mems) for g, p in placements.items()}
        )
        if failures:
            raise PeerError("\n".join(str(failure) for failure in failures))

    def differences(
        self, group: str, limits: Limits | None, placement: CpusetPlacement
    ) -> list[Difference]:
        """The files of a group that do not say what they should."""
        expected = self._limit_files(group, limits) if limits is not None else []
        cpuset = self._by_controller.get("cpuset")
        if cpuset is not None:
            directory = cpuset.directory(self.parent / group)
            files = cpuset_files(placement.cpus, placement.mems)
            expected += [(directory / file, value) for file, value in files.items()]
        found: list[Difference] = []
        for path, value in expected:
            now = cgroup_files.read(path)
            if not cgroup_files.same(path.name, value, now):
                found.append(Difference(path, value, now))
        return found

    def effective(self, group: str) -> tuple[CpuSet, NodeSet] | None:
        """The CPUs and NUMA nodes that the kernel lets a group use; None without cpusets."""
        hierarchy = self._by_controller.get("cpuset")
        if hierarchy is None:
            return None
        return hierarchy.effective(hierarchy.directory(self.parent / group))

    def oom_kills(self, group: str) -> int:
        """How many processes of a group the kernel has killed for memory; 0 if nobody counts."""
        hierarchy = self._by_controller.get("memory")
        if hierarchy is None:
            return 0
        try:
            return hierarchy.oom_kills(hierarchy.directory(self.parent / group))
        except PeerError:  # the group is gone
            return 0

    # Processes.

    def joins(self, group: str) -> list[Path]:
        """The files into which a process writes itself to join a group."""
        return [directory / "cgroup.procs" for directory in self.directories(group)]

    def add(self, group: str, pid: int) -> None:
        """Moves a process with all its threads into a group."""
        for path in self.joins(group):
            cgroup_files.send(path, str(pid))

    def pids(self, group: str) -> set[int]:
        """The processes in a group or below it, in any hierarchy."""
        return set().union(*(cgroup_files.pids_in(d) for d in self.directories(group)))

    def outside(self, group: str, pids: Iterable[int]) -> set[int]:
        """Those of some processes that are not in the group in every hierarchy."""
        wanted = set(pids)
        inside = [cgroup_files.pids_in(directory) for directory in self.directories(group)]
        return {pid for pid in wanted if any(pid not in one for one in inside)}

    def kill(self, group: str) -> set[int]:
        """Sends SIGKILL to all processes of a group; gives those that were in it.

        One round: what forks meanwhile is met by the next call, so call until the set is empty.
        """
        for directory in self.directories(group):
            if (directory / "cgroup.kill").exists():
                cgroup_files.send(directory / "cgroup.kill", "1")
        found = self.pids(group)
        handles = {pid: handle for pid in found if (handle := _handle(pid)) is not None}
        # With a handle open, the number cannot pass on to another process any more.
        still = self.pids(group)
        for pid, handle in handles.items():
            if pid in still:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        return found


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def mounted(root: Path, mountinfo: str) -> list[Hierarchy]:
    """The cgroup hierarchies at or below ``root`` that hold a controller which we use."""
    found: list[Hierarchy] = []
    taken: set[str] = set()
    for mount, options in mount_points(root, mountinfo):
        is_v1 = options is not None
        names = _available(mount) if options is None else options
        # A host may have one hierarchy mounted twice; the first will do.
        controllers = frozenset(names) & frozenset(CONTROLLERS) - taken
        if controllers:
            taken |= controllers
            found.append((HierarchyV1 if is_v1 else HierarchyV2)(mount, controllers))
    return found


def mount_points(root: Path, mountinfo: str) -> Iterator[tuple[Path, list[str] | None]]:
    """All cgroup mounts at or below ``root``, v1 ones with their options, v2 with None."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if len(fields) < 5 or len(kinds) < 3 or kinds[0] not in {"cgroup", "cgroup2"}:
            continue
        mount = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if mount.is_relative_to(root):
            yield mount, kinds[2].split(",") if kinds[0] == "cgroup" else None


def _available(mount: Path) -> list[str]:
    return cgroup_files.read(mount / "cgroup.controllers").split()
