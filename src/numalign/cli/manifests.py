"""Manifests from files, directories and stdin, for commands that take -f."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numalign.adapters.local.files import read_bounded, reason_of
from numalign.core.errors import ConfigError, WireError

if TYPE_CHECKING:
    from numalign.wire.pods.records import PodRecord
    from numalign.wire.pods.workloads import Workload

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_MAX: Final = 10_000
ENDINGS: Final = frozenset({".yaml", ".yml", ".json"})


def read(
    places: list[str], *, namespace: str | None = None, selector: str | None = None
) -> list[Workload]:
    """All pods and workloads of these files and directories, - standing for stdin.

    What was passed over is said on stderr. A file must have something for us; in a directory, where
    each object often has a file of its own, one file must.
    """
    from numalign.wire.pods.workloads import Expansion, expanded

    found: list[Workload] = []
    for place in places:
        read = [expanded(d, source=s, namespace=namespace) for s, d in texts(place)]
        every = [w for one in read for w in one.workloads]
        if not every:
            kinds = tuple(kind for one in read for kind in one.passed_over)
            Expansion(read[0].source if len(read) == 1 else place, (), kinds).required()
        for note in (note for one in read for note in one.notes):
            print(f"note: {note}", file=sys.stderr)
        found += every
    return found if selector is None else _with_labels(found, selector)


def _with_labels(workloads: list[Workload], selector: str) -> list[Workload]:
    from numalign.cli.client.choose.labels import selector_of

    wanted = selector_of(selector)
    found = [w for w in workloads if wanted.matches(w.labels)]
    if not found:
        raise ConfigError(f"-l {selector}: none of {len(workloads)} objects has these labels.")
    return found


def read_workloads(places: list[str]) -> list[PodRecord]:
    """The pods of all of them, each with a uid; WireError if two have one name."""
    from numalign.wire.pods.workloads import identified, split_by_name

    kept, twice = split_by_name(read(places))
    if twice:
        raise WireError(twice[0].text)
    pods = [pod for workload in kept for pod in identified(workload.pods, workload.source)]
    if not pods:
        raise WireError(f"{', '.join(places)}: found no pods to ask about, expected at least one")
    return pods


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
