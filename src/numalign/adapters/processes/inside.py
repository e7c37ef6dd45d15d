"""One more process in a container that runs: its cgroups, namespaces and rights, and no more."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

OUTPUT_BYTES_MAX: Final = 10 * 1024
TIMED_OUT_CODE: Final = 124


async def run_inside(
    program: Path, directory: Path, child: int, argv: Sequence[str], seconds_max: float
) -> tuple[int, str]:
    """The exit code of a command and the beginning of what it wrote."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-B", str(program)),
            *("--exec", str(directory), str(child), *argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={},
        )
    except (OSError, ValueError) as error:
        return 128, f"it cannot be run: {error}"
    try:
        return await asyncio.wait_for(_finished(process), seconds_max)
    except TimeoutError:
        return TIMED_OUT_CODE, f"no end within {seconds_max:g} s"
    finally:
        if process.returncode is None:  # so its number is still its own
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _finished(process: asyncio.subprocess.Process) -> tuple[int, str]:
    assert process.stdout is not None, "a pipe was asked for"
    kept = b""
    while part := await process.stdout.read(OUTPUT_BYTES_MAX):
        kept = (kept + part)[:OUTPUT_BYTES_MAX]
    code = await process.wait()
    return code if code >= 0 else 128 - code, kept.decode(errors="replace").strip()
