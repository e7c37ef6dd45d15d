"""The unified hierarchy of cgroup v2, alone or beside v1 mounts that hold some controllers.

Controllers are switched on from the top, level by level, and only groups without children hold
processes. The kernel accepts any cpuset and then gives what the parents allow, so what counts is
the effective set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from numalign.adapters.cgroups import files as cgroup_files
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import Limits, files_v2
from numalign.core.values.sets import CpuSet, NodeSet, parse_list


@dataclass(frozen=True, slots=True)
class HierarchyV2:
    version: ClassVar[int] = 2
    mount: Path
    controllers: frozenset[str]

    def directory(self, group: PurePosixPath) -> Path:
        return self.mount / group

    def make(self, group: PurePosixPath) -> None:
        """Makes a group and what is missing above it, with our controllers switched on."""
        for above in reversed(group.parents):
            directory = self.directory(above)
            cgroup_files.make(directory)
            self._switch_on(directory)
        cgroup_files.make(self.directory(group))

    def _switch_on(self, directory: Path) -> None:
        path = directory / "cgroup.subtree_control"
        missing = self.controllers - set(cgroup_files.read(path).split())
        if not missing:
            return
        cgroup_files.send(path, " ".join(f"+{name}" for name in sorted(missing)))
        off = missing - set(cgroup_files.read(path).split())
        if off:
            raise PeerError(f"{path}: the kernel did not switch on {', '.join(sorted(off))}.")

    def files(self, limits: Limits, directory: Path) -> dict[str, str]:
        """The files of this hierarchy for some amounts."""
        names = [path.name.split(".") for path in directory.glob("hugetlb.*.max")]
        sizes = [name[1] for name in names if len(name) == 3]  # not hugetlb.2MB.rsvd.max
        found = files_v2(limits, sizes)
        return {file: v for file, v in found.items() if file.split(".")[0] in self.controllers}

    def effective(self, directory: Path) -> tuple[CpuSet, NodeSet]:
        """The CPUs and NUMA nodes that the kernel now lets a group use."""
        cpus, mems = (
            parse_list(cgroup_files.read(directory / f"{name}.effective"))
            for name in ("cpuset.cpus", "cpuset.mems")
        )
        return CpuSet(cpus), NodeSet(mems)

    def place(self, moves: Mapping[PurePosixPath, Mapping[str, str]]) -> list[Exception]:
        """Writes the cpuset files of many groups, outermost first, and checks what became of it."""
        failures: list[Exception] = []
        for group in sorted(moves, key=lambda group: (len(group.parts), str(group))):
            for file, value in moves[group].items():
                try:
                    _place(self.directory(group) / file, value)
                except PeerError as error:
                    failures.append(error)
        return failures

    def oom_kills(self, directory: Path) -> int:
        """How often the kernel has killed for memory in a group."""
        for line in cgroup_files.read(directory / "memory.events").splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
        return 0


def _place(path: Path, value: str) -> None:
    cgroup_files.write(path, value)
    now = cgroup_files.read(path.with_name(path.name + ".effective"))
    if value and parse_list(now) != parse_list(value):
        raise PeerError(
            f"{path}: the kernel accepted {value!r} but gives {now!r} (see {path.name}.effective). "
            "A group above does not have the rest, or it is offline: widen the groups above."
        )
