"""Captured clusters on disk."""

from __future__ import annotations

from pathlib import Path

from numalign.adapters.local.packed import read_file, unpacked
from numalign.adapters.sources.tartree import is_tar, tar_members
from numalign.core.errors import WireError
from numalign.wire.fleet.capture import FleetCapture, capture_of


def read_fleet(path: Path) -> FleetCapture:
    """The capture in a file; WireError where it is none."""
    source = str(path)
    plain = unpacked(read_file(path, source), source)
    if not is_tar(plain):
        raise WireError(f"{source}: found no archive, expected one of 'numalign capture --cluster'")
    files, _ = tar_members(plain, source)
    return capture_of({name: bytes(data) for name, data in files.items()}, source)
