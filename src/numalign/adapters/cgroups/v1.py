"""One hierarchy of cgroup v1: a mount with one or a few controllers.

The cpuset controller has its own rules: a new group is empty and takes no process before both its
CPUs and its memory nodes are filled, and a child must stay inside its parent at all times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final

from numalign.adapters.cgroups import files as cgroup_files
from numalign.core.errors import PeerError
from numalign.core.kubelet.cgroup_limits import Limits, files_v1
from numalign.core.values.sets import CpuSet, NodeSet, parse_list

_CPUSET_FILES: Final = ("cpuset.cpus", "cpuset.mems")


@dataclass(frozen=True, slots=True)
class HierarchyV1:
    version: ClassVar[int] = 1
    mount: Path
    controllers: frozenset[str]

    def directory(self, group: PurePosixPath) -> Path:
        return self.mount / group

    def make(self, group: PurePosixPath) -> None:
        """Makes a group and what is missing above it, filled so that processes can join."""
        for level in [*reversed(group.parents[:-1]), group]:
            directory = self.directory(level)
            cgroup_files.make(directory)
            if "cpuset" in self.controllers:
                _fill(directory)

    def files(self, limits: Limits, directory: Path) -> dict[str, str]:
        """The files of this hierarchy for some amounts, in the order to write them."""
        sizes = [path.name.split(".")[1] for path in directory.glob("hugetlb.*.limit_in_bytes")]
        sizes = [size for size in sizes if size != "rsvd"]
        found = files_v1(limits, sizes)
        return {file: v for file, v in found.items() if file.split(".")[0] in self.controllers}

    def effective(self, directory: Path) -> tuple[CpuSet, NodeSet]:
        """The CPUs and NUMA nodes that the kernel now lets a group use."""
        cpus, mems = (
            parse_list(cgroup_files.read(directory / name))
            for name in ("cpuset.effective_cpus", "cpuset.effective_mems")
        )
        return CpuSet(cpus), NodeSet(mems)

    def place(self, moves: Mapping[PurePosixPath, Mapping[str, str]]) -> list[Exception]:
        """Writes the cpuset files of many groups in an order that the kernel accepts.

        Groups that have others of the batch below them first become wide enough for old and new,
        outermost first; then all get what they shall have, innermost first. Groups above that are
        not in the batch are widened too where they are too narrow: the kernel takes a CPU that goes
        offline out of all groups, and puts it back into none.
        """
        failures: list[Exception] = []
        for group, needed in self._needs_above(moves):
            for file, value in needed.items():
                path = self.directory(group) / file
                wide = _widen(path, value)
                if group in moves or not cgroup_files.same(file, wide, cgroup_files.read(path)):
                    failures += _try_each(path, wide)
        for group in sorted(moves, key=_depth, reverse=True):
            for file, value in moves[group].items():
                failures += _try_each(self.directory(group) / file, value)
        return failures

    def _needs_above(
        self, moves: Mapping[PurePosixPath, Mapping[str, str]]
    ) -> list[tuple[PurePosixPath, dict[str, str]]]:
        """What each group above others must have for all below it, outermost first."""
        needs: dict[PurePosixPath, dict[str, str]] = {}
        for group, files in moves.items():
            for above in group.parents[:-1]:
                needed = needs.setdefault(above, dict(moves.get(above, {})))
                for file, value in files.items():
                    needed[file] = _union(needed.get(file, ""), value)
        return sorted(needs.items(), key=lambda item: _depth(item[0]))

    def oom_kills(self, directory: Path) -> int:
        """How often the kernel has killed for memory in a group."""
        return _counted(directory / "memory.oom_control", "oom_kill")


def _fill(directory: Path) -> None:
    for file in _CPUSET_FILES:
        if not cgroup_files.read(directory / file):
            cgroup_files.write(directory / file, cgroup_files.read(directory.parent / file))


def _depth(group: PurePosixPath) -> tuple[int, str]:
    return len(group.parts), str(group)


def _widen(path: Path, value: str) -> str:
    return _union(cgroup_files.read(path), value)


def _union(one: str, other: str) -> str:
    return str(CpuSet(parse_list(one) | parse_list(other)))


def _try_each(path: Path, value: str) -> list[Exception]:
    try:
        cgroup_files.write(path, value)
    except PeerError as error:
        return [error]
    return []


def _counted(path: Path, key: str) -> int:
    for line in cgroup_files.read(path).splitlines():
        name, _, number = line.partition(" ")
        if name == key:
            return int(number)
    return 0
