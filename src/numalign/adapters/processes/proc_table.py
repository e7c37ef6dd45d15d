"""What /proc tells about processes: who is whose child, since when, and where it may run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from numalign.core.errors import PeerError
from numalign.core.values.sets import CpuSet, NodeSet

_ROUNDS_MAX = 50
_STAT_BYTES_MAX = 4096
_ENVIRONMENT_BYTES_MAX = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    session: int
    start: int  # clock ticks after the boot


def process(pid: int) -> Process | None:
    """A process; None when it has ended, also while nobody has collected it."""
    # Done for every process of the host each time that we look for drift, so it has to be quick.
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, _STAT_BYTES_MAX)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = data.rpartition(b")")[2].split()
    if fields[0] in {b"Z", b"X"}:
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def processes() -> list[Process]:
    names = os.listdir("/proc")  # noqa: PTH208 no paths are needed
    found = (process(int(name)) for name in names if name.isdigit())
    return [one for one in found if one is not None]


class Families:
    """Who belongs to whom, from one look at all processes."""

    def __init__(self, table: Iterable[Process]) -> None:
        self.starts: dict[int, int] = {}
        self._below: dict[int, list[int]] = {}
        self._sessions: dict[int, list[int]] = {}
        for one in table:
            self.starts[one.pid] = one.start
            self._below.setdefault(one.parent, []).append(one.pid)
            self._sessions.setdefault(one.session, []).append(one.pid)

    def of(self, supervisor: int, child: int) -> set[int]:
        """All descendants of a supervisor and all in the session of its child."""
        members = set(self._sessions.get(child, ()))
        waiting = list(self._below.get(supervisor, ()))
        while waiting:
            pid = waiting.pop()
            members.add(pid)
            waiting += self._below.get(pid, ())
        return members


def families() -> Families:
    return Families(processes())


def threads(pid: int) -> list[int]:
    """The threads of a process; none when it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError):
        return []


def allowed(pid: int) -> tuple[CpuSet, NodeSet] | None:
    """Where the kernel lets a process or thread run and take memory; None when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = dict(line.split(":\t", 1) for line in lines if "_allowed_list:\t" in line)
    return CpuSet.parse(found["Cpus_allowed_list"]), NodeSet.parse(found["Mems_allowed_list"])


def bound_memory(pid: int) -> NodeSet | None:
    """The NUMA nodes to which a process has bound its memory; None without such a policy."""
    try:
        with Path(f"/proc/{pid}/numa_maps").open() as file:
            fields = file.readline().split()
    except OSError:
        return None
    policy, _, nodes = fields[1].partition(":") if len(fields) > 1 else ("", "", "")
    return NodeSet.parse(nodes) if policy == "bind" else None


def has_variable(pid: int, variable: bytes) -> bool:
    """Whether a process was started with NAME=VALUE in its environment, as far as we may look."""
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            return variable in file.read(_ENVIRONMENT_BYTES_MAX).split(b"\0")
    except OSError:
        return False


def set_affinity(pids: Iterable[int], cpus: CpuSet) -> None:
    """Moves all threads of some processes, also those that appear meanwhile."""
    wanted = set(cpus)
    for pid in pids:
        for _ in range(_ROUNDS_MAX):
            wrong = [tid for tid in threads(pid) if affinity(tid) not in (None, wanted)]
            if not wrong:
                break
            for tid in wrong:
                _set_affinity_of(tid, wanted, cpus)
        else:
            raise PeerError(f"process {pid} makes threads faster than they can be moved to {cpus}")


def affinity(tid: int) -> set[int] | None:
    """The CPUs that a thread may run on; None when it has ended."""
    try:
        return set(os.sched_getaffinity(tid))
    except ProcessLookupError:
        return None


def _set_affinity_of(tid: int, wanted: set[int], cpus: CpuSet) -> None:
    try:
        os.sched_setaffinity(tid, wanted)
    except ProcessLookupError:
        return
    except OSError as error:
        raise PeerError(
            f"thread {tid}: the kernel refused the affinity {cpus}: {error}. Compare with "
            "/sys/devices/system/cpu/online, and with the user that the process runs as."
        ) from error
    if affinity(tid) not in (None, wanted):
        raise PeerError(
            f"thread {tid}: the kernel accepted the affinity {cpus} but gives "
            f"{CpuSet.of(affinity(tid) or ())}. Its cpuset does not have the rest."
        )
