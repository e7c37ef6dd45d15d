"""What is left of runs that an earlier agent started, found without touching anything.

An agent that starts takes it up; somebody who only asks what a start would find looks the same way.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from numalign.adapters.processes import callers, supervisors
from numalign.adapters.processes.records import Exit, Record, Run, RunDirectory, readable_runs
from numalign.adapters.processes.values import Exited, Running
from numalign.core.errors import PeerError

RUNS: Final = "runs"  # below the agent's directory
CODE_UNKNOWN: Final = 255  # nobody is left who knows how it ended
START_SECONDS_MAX: Final = 30.0


async def runs(root: Path) -> list[Running | Exited]:
    """The last run of each container: what ``adopt`` would find."""
    found: dict[tuple[str, str], Running | Exited] = {}
    for directory, record in readable_runs(root / RUNS)[0]:
        key = record.pod_uid, record.container
        found.pop(key, None)  # an earlier attempt
        try:
            watched = await supervised(directory)
        except PeerError:
            continue
        if watched is None:
            found[key] = exited(directory, record)
        else:
            os.close(watched[1])
            found[key] = running(record, watched[0])
    return list(found.values())


async def supervised(directory: RunDirectory) -> tuple[Run, int] | None:
    """A run and a handle on its supervisor; None if it has ended. Waits for one in between."""
    record = directory.record
    if record is not None and record.is_attached:
        run = directory.run
        handle = callers.handle_of(run.child, run.child_start, record.boot) if run else None
        return (run, handle) if run and handle is not None else None
    deadline = time.monotonic() + START_SECONDS_MAX
    # With exit.json on the disk nothing is left to wait for, even if its writer still lives.
    while exit_of(directory) is None and directory.is_held():
        run = directory.run
        handle = supervisors.handle_of(run) if run else None
        if run and handle is not None:
            return run, handle
        # It is just starting, or just ending.
        await supervisors.pause(deadline, f"the supervisor of {directory.path}")
    return None


def exit_of(directory: RunDirectory) -> Exit | None:
    """How a run ended; one that ended but can no longer be read has an unknown code."""
    try:
        return directory.exit
    except PeerError as error:
        return Exit(CODE_UNKNOWN, 0, str(error), time.time_ns())


def exited(directory: RunDirectory, record: Record, *, oom_killed: bool = False) -> Exited:
    ended = exit_of(directory)
    run = directory.run
    if ended is None:
        ran = "its supervisor was killed" if run else "it was never started"
        if record.is_attached:
            ran = "nobody who watched it was there or could see"
        ended = Exit(CODE_UNKNOWN, 0, f"{ran}, so how it ended is not known", time.time_ns())
    return Exited(
        record.pod_uid,
        record.container,
        attempt=record.attempt,
        code=ended.code,
        signal=ended.signal,
        message=ended.message,
        started_ns=run.started_ns if run else None,
        finished_ns=ended.finished_ns,
        oom_killed=oom_killed,
    )


def running(record: Record, run: Run) -> Running:
    return Running(
        record.pod_uid,
        record.container,
        record.attempt,
        pid=run.child,
        supervisor_pid=run.supervisor,
        started_ns=run.started_ns,
    )
