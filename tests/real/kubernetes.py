"""Real Kubernetes programs, built with Go from published modules and kept outside the checkout.

    python -m tests.real.kubernetes 1.36.4 [PROGRAM...]

builds and prints where they are: ``~/.cache/numalign/kubernetes/1.36.4``. The first build needs the
network and takes minutes per program with an empty cache of Go's; after that nothing is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

ETCD_VERSION: Final = "3.6.8"
ETCD: Final = "etcd"
CONTROL_PLANE: Final = (
    ETCD,
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)
PROGRAMS: Final = (*CONTROL_PLANE, "kubelet")
BUILD_SECONDS_MAX: Final = 3600
_OWN_VERSIONS: Final = "v0.0.0"  # what k8s.io/kubernetes writes for the modules of its own tree


class MissingError(Exception):
    """Something that a real test needs is not on this machine; the text is for the skip line."""


def say(text: str) -> None:
    """Progress, to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def cache() -> Path:
    """Where built programs and downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "numalign"


def programs(
    version: str,
    names: Iterable[str] = PROGRAMS,
    *,
    report: Callable[[str], None] = say,
) -> Path:
    """The directory that holds these programs of one version, such as 1.36.4.

    Builds what is not there yet; a second caller waits for the first. Raises MissingError without
    Go and RuntimeError if a build fails.
    """
    place = cache() / "kubernetes" / version
    if all((place / name).exists() for name in names):
        return place
    go = shutil.which("go")
    if go is None:
        raise MissingError(f"Go is not installed: Kubernetes {version} cannot be built")
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        todo = [name for name in names if not (place / name).exists()]
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            for name in todo:
                started = time.monotonic()
                report(f"building {name} {version} (minutes the first time)")
                _build(go, version, name, Path(scratch), place)
                report(f"built {name} {version} in {time.monotonic() - started:.0f} s")
    return place


def _build(go: str, version: str, name: str, scratch: Path, place: Path) -> None:
    """Builds beside the final place and renames: an unfinished build is never taken for one."""
    if name == ETCD:
        package = "go.etcd.io/etcd/server/v3"
        module, flags = _module(scratch / ETCD, package, ETCD_VERSION, ()), "-s -w"
    else:
        module = scratch / "kubernetes"
        if not module.exists():
            source = _source(go, version, scratch)
            _module(module, "k8s.io/kubernetes", version, _staged(go, source))
        package = f"k8s.io/kubernetes/cmd/{name}"
        flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{version}"
    options = ["-mod=mod", "-trimpath", "-buildvcs=false", f"-ldflags={flags}"]
    fresh = scratch / name / "program" if name == ETCD else scratch / f"{name}.program"
    _called([go, "build", *options, "-o", str(fresh), package], module)
    fresh.replace(place / name)


def _source(go: str, version: str, scratch: Path) -> Path:
    answer = _called([go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], scratch)
    return Path(json.loads(answer)["Dir"])


def _staged(go: str, source: Path) -> list[str]:
    """The modules of the Kubernetes tree itself, published under versions of their own."""
    described = json.loads(_called([go, "mod", "edit", "-json", str(source / "go.mod")], source))
    required = described["Require"]
    return sorted(item["Path"] for item in required if item["Version"] == _OWN_VERSIONS)


def _module(folder: Path, required: str, version: str, staged: Iterable[str]) -> Path:
    folder.mkdir()
    lines = ["module programs", "go 1.25.0", f"require {required} v{version}"]
    lines += [f"replace {name} => {name} v0.{version.partition('.')[2]}" for name in staged]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    return folder


def _called(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""},
        timeout=BUILD_SECONDS_MAX,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Builds for the command line."""
    if not arguments:
        say(f"usage: python -m tests.real.kubernetes VERSION [{' '.join(PROGRAMS)}]")
        return 2
    try:
        place = programs(arguments[0], arguments[1:] or PROGRAMS)
    except (MissingError, RuntimeError) as error:
        say(f"error: {error}")
        return 1
    sys.stdout.write(f"{place}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
