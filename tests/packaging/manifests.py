"""Writes the plain manifests from the chart, so that there is one source for both.

python -m tests.packaging.manifests
"""

from __future__ import annotations

import sys
from typing import Final

from tests.paths import CHECKOUT
from tests.real.helm import template

from numalign.wire.kubernetes import crd

PACKAGING: Final = CHECKOUT / "packaging"
CHART: Final = PACKAGING / "helm" / "numalign"
MANIFESTS: Final = PACKAGING / "manifests"
CRD_FILES: Final = (CHART / "crds" / "noderesourcetopologies.yaml", MANIFESTS / "crd.yaml")
NAMESPACE: Final = "numalign-system"
_HEAD: Final = "# Made from packaging/helm/numalign by `python -m tests.packaging.manifests`.\n"

# Each manifest: the template, and the values that differ from the chart's.
PARTS: Final = {
    "exporter.yaml": ("exporter.yaml", ()),
    "nri.yaml": ("nri.yaml", ("nri.enabled=true", "nri.taint=true")),
    "nri-admission.yaml": ("nri-admission.yaml", ("nri.enabled=true",)),
    "redeploy.yaml": ("redeploy.yaml", ()),
    "redeploy-gate.yaml": ("redeploy-gate.yaml", ("redeploy.gate.enabled=true",)),
    "scheduler-extender.yaml": (
        "scheduler.yaml",
        ("scheduler.mode=extender", "scheduler.kubeScheduler.repository=kube-scheduler"),
    ),
    "scheduler-standalone.yaml": ("scheduler.yaml", ("scheduler.mode=standalone",)),
    "scheduler-pre-place.yaml": ("scheduler.yaml", ()),
    "scheduler-gate.yaml": ("scheduler-gate.yaml", ()),
}


def rendered(name: str) -> str:
    """One manifest, as the chart makes it."""
    source, values = PARTS[name]
    settings = ("image.repository=numalign", *values)
    arguments = ["--show-only", f"templates/{source}", *(f"--set={value}" for value in settings)]
    text = template(CHART, *arguments, namespace=NAMESPACE)
    lines = [line for line in text.splitlines() if not line.startswith("# Source:")]
    return _HEAD + "\n".join(line.rstrip() for line in lines).strip() + "\n"


def main() -> int:
    """Writes all of them."""
    for path in CRD_FILES:
        path.write_text(crd.text())
    for name in PARTS:
        (MANIFESTS / name).write_text(rendered(name))
    sys.stdout.write(f"wrote {len(PARTS) + len(CRD_FILES)} files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
