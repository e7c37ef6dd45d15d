"""Helm, built with Go from its published module and kept outside the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.real.go_program import go_output
from tests.real.kept import cache, kept, output

VERSION: Final = "3.22.0"
KUBERNETES: Final = "1.36.4"  # for which charts are made
TEMPLATE_SECONDS_MAX: Final = 60


def helm() -> Path:
    """The program; built at the first call, which needs the network and takes two minutes."""
    return kept(cache() / "helm" / VERSION / "helm", _build)


def _build(scratch: Path, ready: Path) -> None:
    go_output(
        ["install", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"],
        scratch,
        needed_for=f"Helm {VERSION}",
        env={"GOBIN": str(scratch), "GOFLAGS": ""},
    )
    (scratch / "helm").rename(ready)


def template(chart: Path, *arguments: str, namespace: str = "numalign-system") -> str:
    """The manifests that a chart makes."""
    options = [f"--namespace={namespace}", f"--kube-version={KUBERNETES}", *arguments]
    command = [helm(), "template", "numalign", chart, *options]
    return output(command, seconds_max=TEMPLATE_SECONDS_MAX)
