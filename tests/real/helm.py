"""Helm, built with Go from its published module and kept outside the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.real.kubernetes import MissingError, cache

VERSION: Final = "3.22.0"
KUBERNETES: Final = "1.36.4"  # for which charts are made
BUILD_SECONDS_MAX: Final = 1800


def helm() -> Path:
    """The program; built at the first call, which needs the network and takes two minutes."""
    place = cache() / "helm" / VERSION
    program = place / "helm"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise MissingError(f"Go is not installed: Helm {VERSION} cannot be built")
    scratch = place / f".build-{os.getpid()}"
    scratch.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["nice", "-n", "10", go, "install", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"],
        env={**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0", "GOFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"helm cannot be built: {done.stderr[-2000:]}")
    (scratch / "helm").replace(program)
    scratch.rmdir()
    return program


def template(chart: Path, *arguments: str, namespace: str = "numalign-system") -> str:
    """The manifests that a chart makes."""
    done = subprocess.run(
        [
            helm(),
            "template",
            "numalign",
            str(chart),
            f"--namespace={namespace}",
            f"--kube-version={KUBERNETES}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"helm template: {done.stderr.strip()}")
    return done.stdout
