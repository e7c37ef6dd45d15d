"""What is not as it should be with running containers, and putting it right.

Looked for every few seconds for as long as the agent runs, so each file is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from numalign.adapters.cgroups import files as cgroup_files
from numalign.adapters.cgroups.tree import (
    CgroupTree,
    CpusetPlacement,
    container_group,
    pod_group,
)
from numalign.adapters.processes import proc_table, supervisors
from numalign.adapters.processes.records import Run
from numalign.adapters.processes.values import Drift, DriftKind, Expected
from numalign.core.pod import Qos
from numalign.core.values.sets import CpuSet

SUPERVISORS: Final = "supervisors"  # the group of all of them

Lives = Mapping[tuple[str, str], tuple[Qos, Run]]  # by pod uid and container: those that run


def find_drift(tree: CgroupTree | None, lives: Lives, expected: Iterable[Expected]) -> list[Drift]:
    """What is not as it should be, for containers that run."""
    families = proc_table.families()
    drifts: list[Drift] = []
    supervising = _inside(tree, SUPERVISORS) if tree is not None else []
    for one in expected:
        live = lives.get((one.pod_uid, one.container))
        if live is None:
            continue
        qos, run = live
        pids = supervisors.family(families, run) - _nested(families, lives, run)
        if tree is not None:
            group = container_group(qos, one.pod_uid, one.container)
            inside = _inside(tree, group)
            drifts += of_group(tree, group, one, pids, inside)
            drifts += of_pod(tree, pod_group(qos, one.pod_uid), one)
            drifts += _of_supervisor(tree, one, run, supervising)
            pids = set().union(*inside)
        drifts += _of_affinity(one, pids)
    return drifts


def _nested(families: proc_table.Families, lives: Lives, run: Run) -> set[int]:
    """What was started inside a container and then got a place of its own by ``numalign run``."""
    found: set[int] = set()
    for _, other in lives.values():
        if other.supervisor == other.child and other.child != run.child:
            found |= supervisors.family(families, other)
    return found if run.child not in found else set()


def _inside(tree: CgroupTree, group: str) -> list[set[int]]:
    return [cgroup_files.pids_in(directory) for directory in tree.directories(group)]


def of_group(
    tree: CgroupTree,
    group: str,
    one: Expected,
    family: Iterable[int],
    inside: list[set[int]] | None = None,
) -> list[Drift]:
    """A group that says something else, is gone, or lacks processes of the container's family.

    ``inside``: the processes of the group in each hierarchy, where they are known already.
    """
    key = one.pod_uid, one.container
    inside = _inside(tree, group) if inside is None else inside
    if not tree.exists(group):
        return [Drift(*key, DriftKind.GONE, group, "a cgroup", "nothing")]
    drifts = [
        Drift(*key, DriftKind.VALUE, str(d.path), d.expected, d.found)
        for d in tree.differences(group, one.limits, CpusetPlacement(one.cpus, one.mems))
    ]
    for pid in sorted(family):
        is_inside = all(pid in pids for pids in inside)
        if not is_inside and proc_table.process(pid) is not None:
            where = f"process {pid}"
            drifts.append(Drift(*key, DriftKind.ESCAPED, where, group, "elsewhere", pid))
    return drifts


def of_pod(tree: CgroupTree, group: str, one: Expected) -> list[Drift]:
    """The amounts of a whole pod that somebody has changed."""
    if one.pod_limits is None or not tree.exists(group):
        return []  # a group that is gone is told of the container in it
    return [
        Drift(one.pod_uid, one.container, DriftKind.VALUE, str(d.path), d.expected, d.found)
        for d in tree.differences(group, one.pod_limits, CpusetPlacement())
    ]


def _of_supervisor(
    tree: CgroupTree, one: Expected, run: Run, inside: Iterable[set[int]]
) -> list[Drift]:
    """A supervisor that is not where supervisors are: it may sit on CPUs of a container."""
    pid = run.supervisor
    if all(pid in pids for pids in inside) or not _has_supervisor(run):
        return []
    where = f"supervisor {pid}"
    return [
        Drift(one.pod_uid, one.container, DriftKind.ESCAPED, where, SUPERVISORS, "elsewhere", None)
    ]


def _of_affinity(one: Expected, pids: Iterable[int]) -> list[Drift]:
    """Threads that may run elsewhere; one that keeps to fewer CPUs is in its right."""
    key = one.pod_uid, one.container
    allowed = set(one.cpus)
    drifts = []
    for pid in sorted(pids):
        for tid in proc_table.threads(pid):
            now = proc_table.affinity(tid)
            if now is not None and not now <= allowed:
                texts = str(one.cpus), str(CpuSet.of(now))
                drifts.append(Drift(*key, DriftKind.AFFINITY, f"thread {tid}", *texts, pid))
    return drifts


def repair(tree: CgroupTree | None, lives: Lives, one: Expected, pids: Iterable[int]) -> None:
    """Puts one container right, with these processes of it that are elsewhere."""
    qos, run = lives[one.pod_uid, one.container]
    families = proc_table.families()
    family = supervisors.family(families, run) - _nested(families, lives, run)
    if tree is not None:
        group = container_group(qos, one.pod_uid, one.container)
        tree.make(group)
        if one.pod_limits is not None:  # first: what is below must fit into it
            tree.limit(pod_group(qos, one.pod_uid), one.pod_limits)
        if one.limits is not None:
            tree.limit(group, one.limits)
        tree.place({group: CpusetPlacement(one.cpus, one.mems)})
        for pid in tree.outside(group, family.union(pids)):
            if proc_table.process(pid) is not None:
                tree.add(group, pid)
        _take_supervisor_back(tree, run)
    if tree is None or not tree.has_cpuset:
        proc_table.set_affinity(family, one.cpus)


def _take_supervisor_back(tree: CgroupTree, run: Run) -> None:
    if tree.outside(SUPERVISORS, [run.supervisor]) and _has_supervisor(run):
        tree.make(SUPERVISORS)
        tree.add(SUPERVISORS, run.supervisor)


def _has_supervisor(run: Run) -> bool:
    """Whether one lives; an attached process has none but itself."""
    return run.supervisor != run.child and supervisors.is_alive(run)
