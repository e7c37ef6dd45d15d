"""Ending the processes of a run, wherever they hide.

In cgroups nothing can hide. Without them a run has its supervisor's descendants, the session of its
first process, and whatever carries the run's mark in its environment: a daemon in a session of its
own is found by the mark even when its supervisor was killed. Only a process that has left the
session and cleared its environment is then missed (see decision 0008).
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from numalign.adapters.cgroups.tree import CgroupTree, container_group
from numalign.adapters.daemon.beside import Beside
from numalign.adapters.processes import callers, proc_table, supervisors
from numalign.adapters.processes.records import Record, Run

KILL_SECONDS_MAX: Final = 30.0


async def kill_group(looks: Beside, tree: CgroupTree | None, group: str) -> None:
    """Kills all processes in a group until there are none."""
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while tree is not None and (pids := await looks.run(tree.kill, group)):
        await supervisors.pause(deadline, f"processes {sorted(pids)} in {group}")


async def kill_run(looks: Beside, tree: CgroupTree | None, record: Record, run: Run) -> None:
    """Kills all processes of a run but its supervisor."""
    if tree is not None:
        # One that is just being started has yet to join the group.
        supervisors.kill_child(run)
        await kill_group(looks, tree, container_group(record.qos, record.pod_uid, record.container))
        return
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while pids := await looks.run(_members, record, run):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await supervisors.pause(deadline, f"processes {sorted(pids)}")


def _members(record: Record, run: Run) -> set[int]:
    name = None if record.is_attached else record.container
    mark = callers.mark_of(record.pod_uid, name)
    return supervisors.family(proc_table.families(), run) | callers.marked(mark)
