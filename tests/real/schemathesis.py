"""Schemathesis, fetched as a package and kept outside the checkout and its environment.

Not among the packages for development: it brings thirty others, and a plugin for pytest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.real.kept import FETCH_SECONDS_MAX, CommandError, MissingError, cache, kept, output

VERSION: Final = "4.32.5"


def command() -> tuple[list[str], dict[str, str]]:
    """How to run it, with which variables; fetched at the first call."""
    place = kept(cache() / "schemathesis" / f"{VERSION}-{sys.implementation.cache_tag}", _fetch)
    program = "from schemathesis.cli import schemathesis; schemathesis()"
    return [sys.executable, "-c", program], {"PYTHONPATH": str(place)}


def run(*arguments: str, seconds_max: float, folder: Path) -> subprocess.CompletedProcess[str]:
    line, more = command()
    return subprocess.run(
        [*line, *arguments],
        env={**more, "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds_max,
    )


def _fetch(_scratch: Path, ready: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        output([*pip, "--target", ready, f"schemathesis=={VERSION}"], seconds_max=FETCH_SECONDS_MAX)
    except CommandError as error:
        raise MissingError(f"cannot fetch schemathesis {VERSION}: {error}") from error
