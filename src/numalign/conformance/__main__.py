"""``python -m numalign.conformance``: does the core decide as the recorded kubelet did?"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from numalign.conformance.kinds import Context, Kind, kind_of
from numalign.conformance.reading import Json
from numalign.core.errors import NumalignError, WireError
from numalign.core.settings import Version

TEXT_SHOWN_MAX: Final = 1_000  # characters of one difference
LINE_BYTES_MAX: Final = 256 * 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Replays the files named on the command line; 0 if nothing differs."""
    options = _parsed(arguments)
    passed = failed = 0
    try:
        for path in options.files:
            version = _version(path, options.kubernetes)
            good, bad = _replayed(path, version, options.show)
            passed, failed = passed + good, failed + bad
    except NumalignError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m numalign.conformance",
        description="Replay recorded decisions of the real kubelet and of the real scheduler "
        "plugin, and report every difference.",
        epilog="Each file holds JSON lines or one JSON array, gzipped or not; its kind is told by "
        "its name or its content, the version by a 1.37 in its path. The last line is 'N passed, "
        "M failed'; exit code 0 if M is 0, 1 if not, 2 if a file cannot be read.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--kubernetes", choices=[v.value for v in Version], help="the version")
    parser.add_argument(
        "--show", type=int, default=5, metavar="N", help="failing lines to show per file (5)"
    )
    return parser.parse_args(arguments)


def _version(path: Path, asked: str | None) -> Version:
    if asked is not None:
        return Version(asked)
    return Version.V1_37 if "1.37" in str(path.absolute()) else Version.V1_36


def _replayed(path: Path, version: Version, shown_max: int) -> tuple[int, int]:
    start = time.monotonic()
    kind: Kind | None = None
    context = Context(version, path.absolute().parent)
    passed = failed = 0
    for number, line in enumerate(_lines(path), start=1):
        kind = kind or kind_of(path, line)
        differences = _differences(kind, line, context, f"{path}:{number}")
        passed += not differences
        failed += bool(differences)
        if differences and failed <= shown_max:
            _show(path, number, line, differences)
    if failed > shown_max:
        print(f"  ({failed - shown_max} more lines of {path.name} differ)")
    name = kind.name if kind else "empty"
    seconds = time.monotonic() - start
    print(f"{path}: {name} {version}: {passed} of {passed + failed} agree ({seconds:.1f} s)")
    return passed, failed


def _differences(kind: Kind, line: Json, context: Context, where: str) -> list[str]:
    try:
        return kind.replay(line, context)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise WireError(
            f"{where}: not a line of kind {kind.name}: {type(error).__name__} {error}"
        ) from error


def _show(path: Path, number: int, line: Json, differences: list[str]) -> None:
    name = line["scenario"]["id"] if "scenario" in line else line.get("id", "")
    print(f"{path.name} line {number} {name}")
    for text in differences[:3]:
        cut = text if len(text) <= TEXT_SHOWN_MAX else text[:TEXT_SHOWN_MAX] + " ..."
        print(f"  {cut}")


def _lines(path: Path) -> Iterator[Json]:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            if stream.readline(LINE_BYTES_MAX).strip().startswith(b"["):
                stream.seek(0)
                yield from _items(stream.read(LINE_BYTES_MAX), path)
                return
            stream.seek(0)
            number = 0
            while text := stream.readline(LINE_BYTES_MAX):
                number += 1
                if text.strip():
                    yield _object(text, path, number)
    except (OSError, EOFError) as error:
        raise WireError(f"{path}: cannot be read: {error}") from error


def _items(text: bytes, path: Path) -> Iterator[Json]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WireError(f"{path}: found no JSON ({error}), expected an array") from error
    for number, item in enumerate(found, start=1):
        if not isinstance(item, dict):
            raise WireError(f"{path}: item {number} is {type(item).__name__}, expected an object")
        yield item


def _object(text: bytes, path: Path, number: int) -> Json:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WireError(f"{path}:{number}: found no JSON ({error}), expected an object") from error
    if not isinstance(found, dict):
        raise WireError(f"{path}:{number}: found {type(found).__name__}, expected an object")
    return found


if __name__ == "__main__":
    sys.exit(main())
