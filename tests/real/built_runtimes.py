"""Container runtimes newer than Debian's, built with Go from published modules."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from tests.real.go_program import build_published
from tests.real.kept import MissingError, say

# With NRI 0.11: a validator. With NRI 0.12.3: memory policies too, and updates of our own.
CONTAINERD: Final = ("2.2.9", "2.4.2")
RUNC: Final = "1.5.2"  # the first with memory policies is 1.4
_CONTAINERD: Final = "github.com/containerd/containerd/v2"
_RUNC: Final = "github.com/opencontainers/runc"
# Neither these file systems' headers nor their kernels are here.
_TAGS: Final = "no_btrfs,no_devmapper,no_zfs,no_aufs"


def build_containerd(version: str, scratch: Path, ready: Path) -> None:
    """The programs of one version, and a runc that knows all that it says, in a directory."""
    if shutil.which("gcc") is None:
        raise MissingError("gcc is not installed: runc cannot be built")
    started = time.monotonic()
    say(f"building containerd {version} and runc {RUNC} (minutes the first time)")
    ready.mkdir(parents=True, exist_ok=True)
    for name in ("containerd", "containerd-shim-runc-v2", "ctr"):
        build_published(
            scratch,
            ready / name,
            module=_CONTAINERD,
            version=version,
            package=f"{_CONTAINERD}/cmd/{name}",
            link=f"-X {_CONTAINERD}/version.Version={version}",
            tags=_TAGS,
        )
    build_runc(scratch, ready / "runc")
    say(f"built containerd {version} in {time.monotonic() - started:.0f} s")


def build_runc(scratch: Path, ready: Path) -> None:
    """A runc with memory policies."""
    build_published(
        scratch,
        ready,
        module=_RUNC,
        version=RUNC,
        package=_RUNC,
        env={"CGO_ENABLED": "1"},  # its first steps in a namespace are written in C
    )
