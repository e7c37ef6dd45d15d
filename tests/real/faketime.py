"""The library that gives a process another wall clock, from Debian, kept outside the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.real.kept import cache, kept
from tests.real.packages import STABLE, unpacked_packages

LIBRARY: Final = "libfaketime.so.1"


def faketime() -> Path:
    """The library for LD_PRELOAD; fetched at the first call, MissingError where it cannot be."""
    return kept(cache() / "faketime" / LIBRARY, _fetch)


def _fetch(scratch: Path, ready: Path) -> None:
    unpacked = unpacked_packages("faketime", scratch, STABLE, f"libfaketime/{STABLE}")
    [library] = unpacked.glob(f"usr/lib/*/faketime/{LIBRARY}")
    shutil.copy2(library, ready)
