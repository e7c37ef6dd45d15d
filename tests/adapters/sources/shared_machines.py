"""The snapshots of machines that lie beside the checkout, read once in a session."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import pytest
from tests.paths import SHARED
from tests.wire.machine.hwloc_view import View, console_view, xml_view

from numalign.adapters.sources.discovery import discover
from numalign.core.machine.machine import Machine

MACHINES = SHARED / "machines"
ABSENT = f"the snapshots of machines are not there ({MACHINES})"
needs_machines = pytest.mark.skipif(not MACHINES.is_dir(), reason=ABSENT)


def captures() -> list[Path]:
    """All captures of sysfs."""
    found = [*MACHINES.glob("hwloc/linux/*.tar.bz2"), *MACHINES.glob("emulated/*.tar.xz")]
    return sorted(found, key=snapshot)


def exports() -> list[Path]:
    """All exports of hwloc."""
    patterns = ("hwloc/xml/*.xml*", "hwloc/x86/*.xml*", "hwloc/linux/*.xml", "emulated/*.xml.xz")
    return sorted((path for p in patterns for path in MACHINES.glob(p)), key=str)


def snapshot(path: Path) -> str:
    """The name of a snapshot."""
    return path.name.partition(".tar")[0]


@cache
def machine_of(path: Path) -> Machine:
    """The machine that numalign sees."""
    return discover(str(path))


def is_known_to_hwloc(path: Path) -> bool:
    """Whether hwloc's word on a capture is recorded."""
    return _record(path) is not None


@cache
def hwloc_view_of(path: Path) -> View:
    """What hwloc sees in a capture."""
    record = _record(path)
    assert record is not None
    data = record.read_bytes()
    if record.suffix in (".console", ".output"):
        return console_view(data.decode())
    return xml_view(lzma.decompress(data) if record.suffix == ".xz" else data)


def _record(path: Path) -> Path | None:
    names = (snapshot(path) + s for s in (".console", ".output", ".xml", ".lstopo.xml.xz"))
    return next((path.parent / name for name in names if (path.parent / name).exists()), None)
