"""Helm, built with Go from its published module and kept outside the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.real.go_program import go_output
from tests.real.kept import cache, kept, output

VERSION: Final = "3.22.0"
KUBERNETES: Final = "1.36.4"  # for which charts are made
TEMPLATE_SECONDS_MAX: Final = 60
CALL_SECONDS_MAX: Final = 120


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


class Helm:
    """The command for one cluster and one namespace."""

    def __init__(self, kubeconfig: Path, place: Path, namespace: str = "numalign-system") -> None:
        self._program = helm()
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        # Nothing of the caller's own configuration of Helm counts.
        names = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        self._env = {name: str(place / name.lower()) for name in names}

    def __call__(self, *arguments: str | Path, seconds_max: float = CALL_SECONDS_MAX) -> str:
        """What it prints; CommandError with its words if it fails."""
        options = [f"--kubeconfig={self._kubeconfig}", f"--namespace={self._namespace}"]
        command = [self._program, *arguments, *options]
        return output(command, seconds_max=seconds_max, env=self._env)
