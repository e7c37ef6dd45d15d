"""The kubelet's own managers, as a Go program that reads the same benchmark inputs.

The program imports the published ``k8s.io/kubernetes`` module, so the first build takes minutes and
the network. Its result is kept outside the checkout and used again until a source or Go changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

Mode = Literal["checkpoints", "memory"]

SOURCES: Final = Path(__file__).parent / "kubelet"
BUILD_SECONDS_MAX: Final = 3600
# What a row may take beyond its own limit: starting the program, and clearing up after it.
ROW_SECONDS_SPARE: Final = 10


class PeerError(RuntimeError):
    """The Go program failed; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Times:
    """The spread of some measurements of the same thing."""

    seconds_median: float
    seconds_min: float
    runs: int


@dataclass(frozen=True, slots=True)
class Row:
    """What the kubelet's code took for one input.

    ``work`` is one admission, or one whole fill; ``removal`` is only measured for admissions.
    A row that was stopped at its limit has neither.
    """

    name: str
    kind: Literal["admit", "fill"]
    mode: Mode
    work: Times | None
    removal: Times | None
    pods_admitted: int
    timed_out: bool
    elapsed_seconds: float | None


def build() -> Path | None:
    """The built program, or nothing where Go is missing or the build fails."""
    go = shutil.which("go")
    if go is None:
        _leave_out("Go is not installed")
        return None
    version = _go_version(go)
    if version is None:
        _leave_out("Go cannot tell its version")
        return None
    binary = _cache() / _fingerprint(version) / "kubelet-bench"
    if binary.exists():
        return binary
    print(f"building the kubelet's managers with {version} (minutes the first time)", flush=True)
    return _compiled(go, binary)


def run(
    binary: Path, inputs: Sequence[Path], *, mode: Mode, seconds: float, limit: float
) -> dict[str, Row]:
    """The rows of these inputs by name, each repeated for some seconds and stopped at the limit."""
    if not inputs:
        return {}
    options = ["-mode", mode, "-seconds", f"{seconds:.3f}", "-limit", f"{limit:.3f}s"]
    done = _called(
        [str(binary), *options, *map(str, inputs)],
        seconds_max=len(inputs) * (limit + ROW_SECONDS_SPARE),
    )
    if done is None or done.returncode != 0:
        raise PeerError(done.stderr.strip() if done else f"{binary} did not end in time")
    return {row.name: row for row in _rows(done.stdout)}


def _leave_out(why: str) -> None:
    print(f"{why}; the kubelet's own code is left out", file=sys.stderr)


def _go_version(go: str) -> str | None:
    # Asked in the source directory, where go.mod may choose a newer toolchain.
    done = _called([go, "env", "GOVERSION"], seconds_max=BUILD_SECONDS_MAX, cwd=SOURCES)
    return done.stdout.strip() if done and done.returncode == 0 else None


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "numalign" / "bench-peers"


def _fingerprint(version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in {".go", ".mod", ".sum"}:
            content = path.read_bytes()
            digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _compiled(go: str, binary: Path) -> Path | None:
    """The program at its place in the cache; an unfinished build never gets there."""
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        fresh = Path(scratch) / binary.name
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        done = _called(
            [go, "build", *flags, "-o", str(fresh), "."],
            seconds_max=BUILD_SECONDS_MAX,
            cwd=SOURCES,
            env={**os.environ, "CGO_ENABLED": "0"},
        )
        if done is None or done.returncode != 0:
            _leave_out(f"The Go build failed ({_last_line(done)})")
            return None
        fresh.replace(binary)
    return binary


def _last_line(done: subprocess.CompletedProcess[str] | None) -> str:
    if done is None:
        return f"not done after {BUILD_SECONDS_MAX} s"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _called(
    command: Sequence[str],
    *,
    seconds_max: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str] | None:
    """The ended command, or nothing when its time was over."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            timeout=seconds_max,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def _rows(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        found = json.loads(line)
        if "row" in found:  # the first line names the versions
            yield _row(found)


def _row(found: Mapping[str, Any]) -> Row:
    elapsed = found.get("elapsed_ns")
    return Row(
        name=found["row"],
        kind=found["kind"],
        mode=found["mode"],
        work=_times(found.get("admit_ns") or found.get("total_ns")),
        removal=_times(found.get("remove_ns")),
        pods_admitted=int(found.get("admitted", 0)),
        timed_out=found.get("timeout", False),
        elapsed_seconds=None if elapsed is None else elapsed / 1e9,
    )


def _times(nanoseconds: Sequence[int] | None) -> Times | None:
    if not nanoseconds:
        return None
    return Times(median(nanoseconds) / 1e9, min(nanoseconds) / 1e9, len(nanoseconds))
