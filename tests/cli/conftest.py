"""The real command line in a process of its own, with pipes or with a terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

PYTHON = (sys.executable, "-m", "numalign")
Result = subprocess.CompletedProcess[str]


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A command that goes on; killed at the end, so that a failed test does not wait for it."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what would change the output."""
    ours = ("NO_COLOR", "COLUMNS", "PYTHONOPTIMIZE", "PYTHONUNBUFFERED", "TERM")
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    return {**kept, "TERM": "xterm", **more}


@pytest.fixture
def numalign() -> Callable[..., Result]:
    """Run ``numalign`` with pipes."""

    def run(*args: str, command: tuple[str, ...] = PYTHON, **more: str) -> Result:
        return subprocess.run(
            [*command, *args],
            capture_output=True,
            text=True,
            env=environment(**more),
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def on_terminal() -> Callable[..., tuple[int, str]]:
    """Run ``numalign`` on a terminal; its exit code and all that it showed."""

    def run(*args: str, **more: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*PYTHON, *args], stdout=theirs, stderr=theirs, env=environment(**more)
        ) as process:
            os.close(theirs)
            shown = b""
            while chunk := _read(ours):
                shown += chunk
            os.close(ours)
        return process.returncode, shown.decode().replace("\r\n", "\n")

    return run


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux says when the other side is closed
        return b""
