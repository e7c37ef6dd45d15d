"""Runs inside the guest: tests of this checkout, on a real NUMA kernel with cgroup v2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests.real.guest import CHECKOUT

SECONDS_MAX = 1500


def run(paths: Sequence[str]) -> tuple[int, str]:
    """The exit code of pytest and the end of what it said."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(
        command, cwd=CHECKOUT, timeout=SECONDS_MAX, capture_output=True, text=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr)[-20_000:]
