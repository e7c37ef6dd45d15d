"""Manifests from files, directories and stdin, for commands that take -f."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numalign.adapters.local.files import read_bounded, reason_of
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.wire.pods.records import PodRecord

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_MAX: Final = 10_000
ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})


def read(places: list[str]) -> list[PodRecord]:
    """All pods of these files and directories, - standing for stdin."""
    from numalign.wire.pods.manifests import load_all

    return [
        record
        for place in places
        for source, data in texts(place)
        for record in load_all(data, source=source)
    ]


def read_workloads(places: list[str]) -> list[PodRecord]:
    """The same with the replicas of workloads counted, and a uid for each pod."""
    from numalign.wire.pods.workloads import expanded

    return [
        record
        for place in places
        for source, data in texts(place)
        for record in expanded(data, source=source)
    ]


def texts(place: str) -> list[tuple[str, bytes]]:
    """The content of a file, of the manifests in a directory, or of stdin, each with its name."""
    if place == "-":
        data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"stdin: found more than {FILE_BYTES_MAX} bytes.")
        return [("stdin", data)]
    path = Path(place)
    try:
        files = _files(path) if path.is_dir() else [path]
        return [(str(file), read_bounded(file, FILE_BYTES_MAX)) for file in files]
    except OSError as exc:
        raise ConfigError(f"{exc.filename or place}: cannot read it: {reason_of(exc)}.") from exc


def _files(directory: Path) -> list[Path]:
    found = sorted(
        path
        for path in directory.iterdir()
        if path.suffix.lower() in ENDINGS and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        raise ConfigError(f"{directory}: found no file that ends in .yaml, .yml or .json.")
    if len(found) > FILES_MAX:
        raise ConfigError(f"{directory}: found {len(found)} files, expected at most {FILES_MAX}.")
    return found
