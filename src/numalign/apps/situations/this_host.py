"""The evidence of a host that we run on, or whose root is mounted somewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from numalign.adapters import discovery
from numalign.apps.situations.evidence import Evidence
from numalign.core.settings import Version
from numalign.wire import kubelet_config

STATE: Final = "var/lib/kubelet"
# Where installers put the kubelet's configuration.
CONFIGS: Final = (
    "var/lib/kubelet/config.yaml",
    "etc/kubernetes/kubelet-config.yaml",
    "etc/kubernetes/kubelet/kubelet-config.json",
    "etc/kubernetes/kubelet/config.json",
    "etc/kubernetes/kubelet.conf.yaml",
    "home/kubernetes/kubelet-config.yaml",
    "var/lib/kubelet/kubelet-config.yaml",
    "var/lib/k0s/kubelet/config.yaml",
)


def evidence_here(root: Path = Path("/")) -> Evidence:
    """What this host shows of itself."""
    from numalign.apps.situations.sources import state_files  # noqa: PLC0415 - one of its sources

    machine = discovery.discover(None, root=root)
    paths = [root / name for name in CONFIGS if (root / name).is_file()]
    if not paths:
        return Evidence(
            source=discovery.HOST,
            machine=machine,
            notes=(
                "found no kubelet configuration on this host; taken are static managers and "
                "best-effort alignment on an empty host. Give one with --kubelet-config.",
            ),
        )
    config = kubelet_config.load(paths[0].read_bytes(), version=Version.V1_36, strict=False)
    state = root / STATE
    return Evidence(
        source=discovery.HOST,
        machine=machine,
        config=config,
        state=state_files(state) if state.is_dir() else {},
    )
