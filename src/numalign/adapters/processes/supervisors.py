"""Supervisors from the agent's side: start them, know them again, and wait for them.

A process number alone is never trusted: whoever wrote a record is known by its start time too, and
is then held by a pidfd, which no other process can take over.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import sys
import time
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Final

from numalign.adapters.local.files import reason_of, replace_file
from numalign.adapters.processes import proc_table
from numalign.adapters.processes import shim as shim_module
from numalign.adapters.processes.records import Run, RunDirectory
from numalign.core.errors import ConfigError, PeerError

_POLL_SECONDS: Final = 0.005


def spawned(program: Path, directory: RunDirectory, lock: int) -> tuple[int, int]:
    """Starts a supervisor; gives its number and the pipe on which it reports."""
    try:
        report, report_child = os.pipe()
    except OSError as error:
        os.close(lock)
        raise PeerError(f"the supervisor cannot be run: {error.strerror}", retry=True) from error
    errors = str(directory.path / "supervisor.err")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", str(program), str(directory.path)],
            {},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, report_child, shim_module.READY_FD),
                (os.POSIX_SPAWN_OPEN, 2, errors, flags, 0o600),
                (os.POSIX_SPAWN_DUP2, lock, shim_module.LOCK_FD),
            ],
        )
    except OSError as error:
        os.close(report)
        raise PeerError(f"{sys.executable}: the supervisor cannot be run: {error}") from error
    finally:
        os.close(report_child)
        os.close(lock)
    return pid, report


def handle_of(run: Run) -> int | None:
    """A handle on the very supervisor that wrote a record, not on who has its number now."""
    try:
        handle = os.pidfd_open(run.supervisor)
    except ProcessLookupError:
        return None
    found = proc_table.process(run.supervisor)
    if found is None or found.start != run.supervisor_start:
        os.close(handle)
        return None
    return handle


def is_alive(run: Run) -> bool:
    """Whether the supervisor that wrote a record has not ended."""
    found = proc_table.process(run.supervisor)
    return found is not None and found.start == run.supervisor_start


def send(run: Run, number: signal.Signals) -> None:
    """Sends a signal to the supervisor of a run, and to nobody who has its number by now."""
    handle = handle_of(run)
    if handle is None:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def kill_child(run: Run) -> None:
    """Kills the first process of a container, and nobody who has its number by now."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(run.child)
        try:
            found = proc_table.process(run.child)
            if found is not None and found.start == run.child_start:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def family(families: proc_table.Families, run: Run) -> set[int]:
    """The processes of a run; none through a number that somebody else has by now."""
    starts = families.starts
    supervisor = run.supervisor if starts.get(run.supervisor) == run.supervisor_start else -1
    child = run.child if starts.get(run.child, run.child_start) == run.child_start else -1
    members = families.of(supervisor, child)
    # A process that somebody else started is its own supervisor.
    return members | {child} if supervisor == child != -1 else members


def reaped(handle: int) -> None:
    """Collects a supervisor if it is our child; one from before a restart is init's."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG)


async def pause(deadline: float, what: str) -> None:
    """Waits a moment for something that must come soon; PeerError after the deadline."""
    if time.monotonic() > deadline:
        raise PeerError(f"{what}: no end in sight. Look for a process in state D.", retry=True)
    await asyncio.sleep(_POLL_SECONDS)


async def readable(fd: int) -> None:
    """Waits until a descriptor can be read: for a pidfd, until its process has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


async def first_words(pipe: int) -> str:
    """What a supervisor reports; nothing when it ended without a word."""
    await readable(pipe)
    return os.read(pipe, 4096).decode(errors="replace")


def compiled(root: Path) -> Path:
    """The supervisor's program, compiled once: doing it at each start costs 1.4 MB and 10 ms.

    Written only if it is not there as it should be; where nothing can be written, as on a full
    disk, one of this very source will do.
    """
    source = Path(shim_module.__file__)
    target = root / f"supervisor.{sys.implementation.cache_tag}.pyc"
    beside = root / "confine.pyc"  # found by its bare name
    try:
        _put(source, target)
        _put(source.with_name("confine.py"), beside)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written: {reason_of(error)}") from error
    return target


def _put(source: Path, target: Path) -> None:
    head, data = _program(source)
    there = target.read_bytes() if target.exists() else b""
    if there == head + data:
        return
    try:
        replace_file(target, head + data)
    except OSError:
        if not there.startswith(head):
            raise


def _program(source: Path) -> tuple[bytes, bytes]:
    """The head of a compiled file, which tells of what source it is, and the rest."""
    found = source.stat()
    code = compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    times = [0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF]
    head = MAGIC_NUMBER + b"".join(number.to_bytes(4, "little") for number in times)
    return head, marshal.dumps(code)
