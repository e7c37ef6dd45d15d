"""Putting a process that somebody else started in the place of a container.

The process stays a child of whoever started it, with its terminal, user, directory and limits: only
where it may run and what it may use changes. So no supervisor stands between the two, and nothing
that happens to the agent reaches it.
"""

from __future__ import annotations

import os
import time
from typing import Final

from numalign.adapters.cgroups.tree import CgroupTree, CpusetPlacement, container_group, pod_group
from numalign.adapters.processes import proc_table
from numalign.adapters.processes.found import CODE_UNKNOWN
from numalign.adapters.processes.records import Exit, RunSpec
from numalign.core.errors import PeerError
from numalign.core.values.sets import CpuSet

_ALL_CPUS: Final = range(8192)
_UNTOLD: Final = "this kernel tells only its parent how it ended"


def place(tree: CgroupTree | None, spec: RunSpec, pid: int) -> None:
    """Moves a process to the CPUs, nodes and limits of a container; PeerError if refused."""
    if tree is not None:
        group = container_group(spec.qos, spec.pod_uid, spec.container)
        tree.make(group)
        if spec.pod_limits is not None:
            tree.limit(pod_group(spec.qos, spec.pod_uid), spec.pod_limits)
        tree.limit(group, spec.limits)
        tree.place({group: CpusetPlacement(spec.cpus, spec.mems)})
        tree.add(group, pid)
    if tree is None or not tree.has_cpuset:
        proc_table.set_affinity([pid], spec.cpus)
        return
    # The kernel keeps to an affinity that was asked for inside any cpuset. One that the caller was
    # started with must not narrow what the command was given.
    try:
        os.sched_setaffinity(pid, _ALL_CPUS)
    except OSError as error:
        raise PeerError(f"process {pid}: cannot be moved to CPUs {spec.cpus}: {error}") from error
    now = CpuSet.of(proc_table.affinity(pid) or ())
    if now and not now.issubset(spec.cpus):
        raise PeerError(f"process {pid}: found it on CPUs {now}, expected {spec.cpus}")


def exit_of(status: int | None) -> Exit:
    """How a process has ended, from what waitpid would say."""
    finished = time.time_ns()
    if status is None:
        return Exit(CODE_UNKNOWN, 0, _UNTOLD, finished)
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return Exit(128 + signal if signal else os.WEXITSTATUS(status), signal, "", finished)
