"""Real peers, built with Go from published modules and kept outside the checkout.

The first build needs the network and takes some minutes with an empty cache of Go's; after that a
peer is used again until its sources or the Go version change.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).parent
BUILD_SECONDS_MAX: Final = 1800


@dataclass(frozen=True, slots=True)
class Peer:
    """A Go program: the module that holds what it needs, and its package."""

    name: str
    module: str
    package: str


SAMPLE = Peer(
    "sample-device-plugin", "sample", "k8s.io/kubernetes/test/images/sample-device-plugin"
)
NUMA_PLUGIN = Peer("numaplugin", "official", "./numaplugin")
POD_RESOURCES = Peer("podresources", "official", "./podresources")


@functools.cache
def built(peer: Peer, config: pytest.Config | None = None) -> Path:
    """The program; the calling test is skipped where Go is missing, and fails if the build does.

    With the configuration of pytest the progress line goes past its capture.
    """
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"Go is not installed: the real {peer.name} cannot be built")
    module = SOURCES / peer.module
    # Asked in the module, where go.mod may choose a newer toolchain.
    version = _called([go, "env", "GOVERSION"], module).strip()
    program = _cache() / _fingerprint(module, version) / peer.name
    if not program.exists():
        reporter = config.pluginmanager.get_plugin("terminalreporter") if config else None
        if reporter is not None:
            reporter.write_line(f"building {peer.name} with {version} (minutes the first time)")
        _compile(go, module, peer.package, program)
    return program


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "numalign" / "e2e-peers"


def _fingerprint(module: Path, version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for path in sorted(module.rglob("*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            content = path.read_bytes()
            name = path.relative_to(module)
            digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _compile(go: str, module: Path, package: str, program: Path) -> None:
    """Builds beside the final place and renames: an unfinished build is never taken for one."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        fresh = Path(scratch) / program.name
        flags = ["-trimpath", "-buildvcs=false", "-ldflags=-s -w"]
        _called([go, "build", *flags, "-o", str(fresh), package], module)
        fresh.replace(program)


def _called(command: list[str], module: Path) -> str:
    done = subprocess.run(
        command,
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0"},
        timeout=BUILD_SECONDS_MAX,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"
    return done.stdout
