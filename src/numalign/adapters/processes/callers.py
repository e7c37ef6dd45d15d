"""Processes that are not ours and become the command of a run: known by number, start and boot."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import time
from functools import cache
from pathlib import Path
from typing import Final

from numalign.adapters.processes import proc_table, supervisors

MARK: Final = "NUMALIGN_RUN"  # the variable that tells processes of ours, without cgroups
# <linux/pidfd.h>, since Linux 6.15: how a process that is not our child has ended.
_GET_INFO: Final = 0xC040FF0B
_INFO_EXIT: Final = 1 << 3
_INFO: Final = struct.Struct("QQ11Ii")
_REAPED_SECONDS_MAX: Final = 1.0
_POLL_SECONDS: Final = 0.01


@cache
def boot_id() -> str:
    """What this boot of the kernel is called."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def handle_of(pid: int, start: int, boot: str) -> int | None:
    """A handle on the very process that was told of; None if it has ended."""
    if boot != boot_id():
        return None
    try:
        handle = os.pidfd_open(pid)
    except (ProcessLookupError, ValueError, OverflowError):
        return None
    found = proc_table.process(pid)
    if found is None or found.start != start:
        os.close(handle)
        return None
    return handle


def handle_exists(pid: int, start: int, boot: str) -> bool:
    """Whether the very process that was told of still lives."""
    handle = handle_of(pid, start, boot)
    if handle is not None:
        os.close(handle)
    return handle is not None


async def wait_until_gone(pid: int, start: int, boot: str) -> None:
    handle = handle_of(pid, start, boot)
    if handle is None:
        return
    try:
        await supervisors.readable(handle)
    finally:
        os.close(handle)


async def wait_status(handle: int) -> int | None:
    """How a process has ended, as from waitpid; None where the kernel does not tell.

    It tells as soon as the parent has collected the process.
    """
    deadline = time.monotonic() + _REAPED_SECONDS_MAX
    while time.monotonic() < deadline:
        data = bytearray(_INFO.size)
        struct.pack_into("Q", data, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(handle, _GET_INFO, data)
        except OSError:
            return None
        mask, *_, status = _INFO.unpack(data)
        if mask & _INFO_EXIT:
            return int(status)
        await asyncio.sleep(_POLL_SECONDS)
    return None


def mark_of(uid: str, container: str | None = None) -> str:
    """What marks the processes of a run, or of a container."""
    return uid if container is None else f"{uid}/{container}"


def marked(mark: str) -> set[int]:
    """The processes whose environment has this mark; how they are found without cgroups."""
    variable = f"{MARK}={mark}".encode()
    table = proc_table.processes()
    return {one.pid for one in table if proc_table.has_variable(one.pid, variable)}
