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

from tests.real.go_program import build_published, go_output, source_of
from tests.real.kept import CommandError, MissingError, cache, kept, say

MODULE: Final = "k8s.io/kubernetes"
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
    if name == ETCD:
        package = "go.etcd.io/etcd/server/v3"
        build_published(scratch, ready, module=package, version=ETCD_VERSION, package=package)
    else:
        build_published(
            scratch,
            ready,
            module=MODULE,
            version=version,
            package=f"{MODULE}/cmd/{name}",
            staged=_staged(source_of(MODULE, version, scratch)),
            link=f"-X k8s.io/component-base/version.gitVersion=v{version}",
        )
    report(f"built {name} {version} in {time.monotonic() - started:.0f} s")


def _staged(source: Path) -> list[str]:
    """The modules of the Kubernetes tree itself, published under versions of their own."""
    command = ["mod", "edit", "-json", str(source / "go.mod")]
    answer = go_output(command, source, needed_for="Kubernetes", env={"GOFLAGS": ""})
    required = json.loads(answer)["Require"]
    return sorted(item["Path"] for item in required if item["Version"] == _OWN_VERSIONS)


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
