"""Real Kubernetes programs, built with Go from published modules and kept outside the checkout.

    python -m tests.real.kubernetes 1.36.4 [PROGRAM...]

builds and prints where they are: ``~/.cache/numalign/kubernetes/1.36.4``. The first build needs the
network and takes minutes per program with an empty cache of Go's; after that nothing is done.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from tests.real.go_program import go_output
from tests.real.kept import CommandError, MissingError, cache, kept, say

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
_OWN_VERSIONS: Final = "v0.0.0"  # what k8s.io/kubernetes writes for the modules of its own tree


def programs(
    version: str,
    names: Iterable[str] = PROGRAMS,
    *,
    report: Callable[[str], None] = say,
) -> Path:
    """The directory that holds these programs of one version, such as 1.36.4.

    Builds what is not there yet; a second caller waits for the first. Raises MissingError without
    Go and CommandError if a build fails.
    """
    place = cache() / "kubernetes" / version
    for name in names:
        kept(place / name, partial(_build, version, name, report))
    return place


def _build(
    version: str, name: str, report: Callable[[str], None], scratch: Path, ready: Path
) -> None:
    started = time.monotonic()
    report(f"building {name} {version} (minutes the first time)")
    module, link = scratch / "module", "-s -w"
    if name == ETCD:
        package = "go.etcd.io/etcd/server/v3"
        _make_module(module, package, ETCD_VERSION, ())
    else:
        package = f"k8s.io/kubernetes/cmd/{name}"
        _make_module(module, "k8s.io/kubernetes", version, _staged(_source(version, scratch)))
        link += f" -X k8s.io/component-base/version.gitVersion=v{version}"
    options = ["-mod=mod", "-trimpath", "-buildvcs=false", f"-ldflags={link}"]
    _go(["build", *options, "-o", str(ready), package], module)
    report(f"built {name} {version} in {time.monotonic() - started:.0f} s")


def _source(version: str, scratch: Path) -> Path:
    answer = _go(["mod", "download", "-json", f"k8s.io/kubernetes@v{version}"], scratch)
    return Path(json.loads(answer)["Dir"])


def _staged(source: Path) -> list[str]:
    """The modules of the Kubernetes tree itself, published under versions of their own."""
    described = json.loads(_go(["mod", "edit", "-json", str(source / "go.mod")], source))
    required = described["Require"]
    return sorted(item["Path"] for item in required if item["Version"] == _OWN_VERSIONS)


def _make_module(folder: Path, required: str, version: str, staged: Iterable[str]) -> None:
    folder.mkdir()
    lines = ["module programs", "go 1.25.0", f"require {required} v{version}"]
    lines += [f"replace {name} => {name} v0.{version.partition('.')[2]}" for name in staged]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")


def _go(arguments: list[str], folder: Path) -> str:
    return go_output(arguments, folder, needed_for="Kubernetes", env={"GOFLAGS": ""})


def main(arguments: list[str]) -> int:
    """Builds for the command line."""
    if not arguments:
        say(f"usage: python -m tests.real.kubernetes VERSION [{' '.join(PROGRAMS)}]")
        return 2
    try:
        place = programs(arguments[0], arguments[1:] or PROGRAMS)
    except (CommandError, MissingError) as error:
        say(f"error: {error}")
        return 1
    sys.stdout.write(f"{place}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
