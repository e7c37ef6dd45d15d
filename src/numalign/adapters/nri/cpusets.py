"""Where a container really is: its cpuset files, as the kernel has them.

A runtime does not say whether an update in an answer was carried out. The files do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numalign.core.values.sets import parse_list

FILE_BYTES_MAX: Final = 64 << 10
_V1: Final = "cpuset"


@dataclass(frozen=True, slots=True)
class Cpuset:
    """The CPUs and NUMA nodes of one cgroup, as masks."""

    cpus: int
    mems: int


class Cpusets:
    """The cpuset files below one mount of cgroups, of either version."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._root = root / _V1 if (root / _V1 / "cpuset.cpus").exists() else root

    def read(self, cgroups_path: str) -> Cpuset | None:
        """What a container has; None where it has no cgroup, or none that can be seen."""
        place = _place(cgroups_path)
        if place is None:
            return None
        try:
            cpus = self._mask(place / "cpuset.cpus")
            mems = self._mask(place / "cpuset.mems")
        except (OSError, ValueError):
            return None
        return Cpuset(cpus, mems)

    def _mask(self, path: Path) -> int:
        with (self._root / path).open("rb") as stream:
            return parse_list(stream.read(FILE_BYTES_MAX).decode().strip())


def _place(cgroups_path: str) -> Path | None:
    """Where a cgroup is by its name in a container's specification, of either driver."""
    parts = cgroups_path.split(":")
    if len(parts) == 3:
        slice_, prefix, name = parts
        return _slices(slice_) / f"{prefix}-{name}.scope" if slice_.endswith(".slice") else None
    path = Path(cgroups_path.lstrip("/"))
    return None if not cgroups_path or ".." in path.parts else path


def _slices(name: str) -> Path:
    """systemd nests slices by the dashes in their names: a-b.slice lies in a.slice."""
    words = name.removesuffix(".slice").split("-")
    if ".." in name or "/" in name:
        return Path("-")
    return Path(*("-".join(words[: end + 1]) + ".slice" for end in range(len(words))))
