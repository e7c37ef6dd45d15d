"""What real tests build or fetch once and keep outside the checkout, in the user's cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

FETCH_SECONDS_MAX: Final = 600
_REASON_SHOWN: Final = 300  # characters in a skip line


class MissingError(Exception):
    """Something that a real test needs is not on this machine; the text is for the skip line."""


class CommandError(RuntimeError):
    """A command failed or did not end; the text is the command and the end of what it said."""


def say(text: str) -> None:
    """Progress, to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def cache() -> Path:
    """Where built programs and downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "numalign"


def kept(place: Path, make: Callable[[Path, Path], None]) -> Path:
    """A file or directory, made by ``make(scratch, ready)`` at ``ready`` if it is not there yet.

    It is made beside its place and renamed, so that an unfinished one is never taken for it; a
    second caller waits for the first.
    """
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
                ready = Path(scratch) / "ready"
                make(Path(scratch), ready)
                ready.rename(place)
    return place


def output(
    command: Sequence[str | Path],
    *,
    seconds_max: float,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    text_in: str | None = None,
) -> str:
    """What a command prints, in this folder and with these variables besides our own."""
    line = " ".join(map(str, command))
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(env or {})},
            input=text_in,
            timeout=seconds_max,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{line}: no end after {seconds_max:g} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise CommandError(f"{line}: {said[-2000:]}")
    return done.stdout


def fetch_output(
    what: str,
    command: Sequence[str],
    *,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """What a command that fetches or unpacks prints; where it fails, the thing is missing here."""
    try:
        return output(command, seconds_max=FETCH_SECONDS_MAX, folder=folder, env=env)
    except CommandError as error:
        reason = " ".join(str(error).split())[-_REASON_SHOWN:]
        raise MissingError(f"{what} cannot be fetched: {reason}") from error
