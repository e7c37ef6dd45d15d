"""Files of the kernel's cgroups: written in one piece, read back, and refusals told in full.

A refusal shows only as the error of the write itself, and sometimes not even then: the kernel also
accepts what it then does not do. So nothing counts as written before it has been read back.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from numalign.core.errors import PeerError
from numalign.core.values.sets import parse_list

# Above this, v1 calls a limit "none" (its counters are in pages of a signed number).
_UNLIMITED_MIN: Final = 2**62
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_WHAT_TO_DO: Final = {
    errno.ENOSPC: "A group with processes needs CPUs and memory nodes: fill cpuset.cpus and "
    "cpuset.mems of it and of all groups above before processes join, and never empty them after.",
    errno.ERANGE: "The kernel has no such number: compare with /sys/devices/system/cpu/possible "
    "and /sys/devices/system/node/possible.",
    errno.EINVAL: "The kernel does not have it or does not allow it below the parent group: "
    "compare with the same file of the parent and with /sys/devices/system/node/has_memory.",
    errno.EBUSY: "Something below still uses it: move the processes, or narrow the child groups "
    "first.",
    errno.ENOENT: "The group or its controller is not there: see cgroup.controllers and "
    "cgroup.subtree_control of the groups above.",
    errno.EROFS: "The cgroups are mounted read-only: mount them writable for the agent.",
    errno.EPERM: "Run the agent as root, or have its group delegated to its user.",
    errno.ESRCH: "The process has ended.",
}
_NOT_ALLOWED: Final = (
    "Either the parent group does not contain it (widen the parent's file first), or the agent "
    "may not write here (run it as root, or have the group delegated to its user)."
)


def refusal(path: Path, value: str, error: OSError) -> PeerError:
    """The kernel's refusal: which file, what value, which error, and what to do."""
    number = error.errno or 0
    name = errno.errorcode.get(number, str(number))
    to_do = _NOT_ALLOWED if number == errno.EACCES else _WHAT_TO_DO.get(number, "")
    text = f"{path}: the kernel refused {value!r} with {name} ({os.strerror(number)}). {to_do}"
    return PeerError(text.rstrip(), retry=number in {errno.EBUSY, errno.EAGAIN, errno.EINTR})


def send(path: Path, value: str) -> None:
    """Writes to a file that cannot be read back in the same form, such as cgroup.procs."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise refusal(path, value, error) from error


def write(path: Path, value: str) -> None:
    """Writes a value and reads it back; PeerError when the kernel has something else now."""
    # An empty write never reaches the kernel; a line end does and means the same.
    send(path, value or "\n")
    found = read(path)
    if not same(path.name, value, found):
        raise PeerError(
            f"{path}: the kernel accepted {value!r} but has {found!r} now. Compare with the groups "
            "above, and look for others who write here."
        )


def read(path: Path) -> str:
    """The content of a file without the line end."""
    try:
        return path.read_text().rstrip("\n")
    except OSError as error:
        number = error.errno or 0
        name = errno.errorcode.get(number, str(number))
        to_do = _WHAT_TO_DO.get(number, "")
        text = f"{path}: cannot be read: {name} ({os.strerror(number)}). {to_do}".rstrip()
        raise PeerError(text) from error


def same(file: str, wanted: str, found: str) -> bool:
    """Whether two texts of a file mean the same to the kernel."""
    if wanted == found:
        return True
    if file in {"cpuset.cpus", "cpuset.mems"}:
        return parse_list(wanted) == parse_list(found)
    amounts = _amount(wanted), _amount(found)
    if None in amounts or not file.startswith(("memory.", "hugetlb.")):
        return False
    wanted_bytes, found_bytes = (amount or 0 for amount in amounts)
    if min(wanted_bytes, found_bytes) >= _UNLIMITED_MIN:
        return True
    return 0 <= wanted_bytes - found_bytes < _page_bytes(file)  # the kernel rounds down to pages


def _amount(text: str) -> int | None:
    if text in {"max", "-1"}:
        return _UNLIMITED_MIN
    return int(text) if text.isdecimal() else None


def _page_bytes(file: str) -> int:
    if not file.startswith("hugetlb."):
        return _PAGE_BYTES
    size = file.split(".")[1]
    return int(size[:-2]) * {"KB": 2**10, "MB": 2**20, "GB": 2**30}[size[-2:]]


def pids_in(directory: Path) -> set[int]:
    """The processes in a group and in all groups below it; none when it is gone."""
    found: set[int] = set()
    waiting = [str(directory)]
    while waiting:
        folder = waiting.pop()
        try:
            with open(f"{folder}/cgroup.procs", "rb") as file:  # noqa: PTH123 a hot path
                found.update(map(int, file.read().split()))
            waiting += [f"{folder}/{name}" for name in children_of(folder)]
        except OSError:  # removed while we looked, so there is nobody in it
            continue
    found.discard(0)  # a process that our own namespace cannot see
    return found


def children_of(folder: str) -> list[str]:
    """The names of the groups directly below a group; OSError when it is gone."""
    # In the kernel's file system a directory without directories has two links; looking at that
    # is ten times faster than listing it.
    if os.stat(folder).st_nlink == 2:  # noqa: PTH116 a hot path
        return []
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir()]


def remove(directory: Path) -> None:
    """Removes a group and all groups below it, deepest first; fine when it is gone."""
    for folder, _, _ in os.walk(directory, topdown=False):
        try:
            Path(folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise refusal(Path(folder), "its removal", error) from error


def make(directory: Path) -> None:
    """Makes one group; fine when it is there."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise refusal(directory, "a new group", error) from error
