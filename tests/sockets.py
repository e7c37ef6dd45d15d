"""Where tests put unix sockets: no path of over 107 bytes can be bound, and TMPDIR may be long."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = "/tmp"  # whatever TMPDIR says
MADE: Final[list[str]] = []  # by which the watchdog knows processes that tests leave


def make_short_directory(prefix: str) -> Path:
    """A private directory with a short path; the caller removes it."""
    MADE.append(tempfile.mkdtemp(prefix=prefix, dir=ROOT))
    return Path(MADE[-1])


@contextmanager
def short_directory() -> Iterator[Path]:
    """A private directory with a short path, until the block ends."""
    found = make_short_directory("na")
    try:
        yield found
    finally:
        shutil.rmtree(found)
