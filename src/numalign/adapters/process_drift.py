"""What is not as it should be with one running container."""

from __future__ import annotations

from collections.abc import Iterable

from numalign.adapters import proc_table
from numalign.adapters.cgroups import CgroupTree, Placing
from numalign.adapters.process_values import Drift, DriftKind, Expected


def of_group(tree: CgroupTree, group: str, one: Expected, family: Iterable[int]) -> list[Drift]:
    """A group that says something else, is gone, or lacks processes of the container's family."""
    key = one.pod_uid, one.container
    if not tree.exists(group):
        return [Drift(*key, DriftKind.GONE, group, "a cgroup", "nothing")]
    found = [
        Drift(*key, DriftKind.VALUE, str(d.path), d.expected, d.found)
        for d in tree.differences(group, one.limits, Placing(one.cpus, one.mems))
    ]
    for pid in sorted(tree.outside(group, family)):
        if proc_table.process(pid) is not None:
            where = f"process {pid}"
            found.append(Drift(*key, DriftKind.ESCAPED, where, group, "elsewhere", pid))
    return found


def of_affinity(one: Expected, pids: Iterable[int]) -> list[Drift]:
    """Threads that may run elsewhere; one that keeps to fewer CPUs is in its right."""
    key = one.pod_uid, one.container
    found = []
    for pid in sorted(pids):
        for tid in proc_table.threads(pid):
            now = proc_table.allowed(tid)
            if now is not None and not now[0].issubset(one.cpus):
                texts = str(one.cpus), str(now[0])
                found.append(Drift(*key, DriftKind.AFFINITY, f"thread {tid}", *texts, pid))
    return found
