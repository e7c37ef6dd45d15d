"""Builds the Go program in ``kubelet/`` and asks it what the kubelet's own managers do.

The program imports the published ``k8s.io/kubernetes`` module, so the first build takes minutes and
the network. Its result is kept outside the checkout and used again until a source or Go changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from numalign.core.settings import Version

SOURCES: Final = Path(__file__).parent / "kubelet"
BUILD_SECONDS_MAX: Final = 3600
SCENARIO_SECONDS_MAX: Final = 30
RUNS: Final = 4
VERSION_FLAGS: Final[Mapping[Version, Sequence[str]]] = {
    Version.V1_36: (),
    Version.V1_37: ("-modfile=go-1.37.mod", "-tags=k137"),
}


class PeerMissingError(RuntimeError):
    """The program cannot be built here; the message says why."""


def build(version: Version) -> Path:
    """The program with the managers of a Kubernetes version."""
    go = shutil.which("go")
    if go is None:
        raise PeerMissingError("Go is not installed; the kubelet's own code is left out")
    go_version = _output([go, "env", "GOVERSION"], seconds_max=BUILD_SECONDS_MAX).strip()
    binary = _cache() / _fingerprint(go_version) / f"kubelet-replay-{version}"
    if not binary.exists():
        _compile(go, binary, version)
    return binary


def play(
    binary: Path, scenarios: Sequence[Mapping[str, Any]], *, runs: int = RUNS
) -> list[dict[str, Any]]:
    """What happened to each scenario: its events, and whether it hung or crashed."""
    lines = "".join(json.dumps(scenario) + "\n" for scenario in scenarios)
    options = ["-runs", str(runs), "-limit", f"{SCENARIO_SECONDS_MAX}s"]
    done = subprocess.run(
        ["nice", str(binary), *options],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def _output(
    command: Sequence[str], *, seconds_max: float, env: Mapping[str, str] | None = None
) -> str:
    """What a command in the source directory, where go.mod chooses the toolchain, prints."""
    try:
        done = subprocess.run(
            command,
            cwd=SOURCES,
            env=env,
            timeout=seconds_max,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerMissingError(f"{command[1]} did not end in {seconds_max} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise PeerMissingError(f"go {command[1]} failed ({last})")
    return done.stdout


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "numalign" / "differential"


def _fingerprint(version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in {".go", ".mod", ".sum"}:
            content = path.read_bytes()
            digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _compile(go: str, binary: Path, version: Version) -> None:
    """Puts the program at its place in the cache; an unfinished build never gets there."""
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        fresh = Path(scratch) / binary.name
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        _output(
            [go, "build", *flags, *VERSION_FLAGS[version], "-o", str(fresh), "."],
            seconds_max=BUILD_SECONDS_MAX,
            env={**os.environ, "CGO_ENABLED": "0"},
        )
        fresh.replace(binary)
