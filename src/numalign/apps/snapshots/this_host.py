"""A host that we run on, or whose root is mounted somewhere, as a bundle.

Everything is only read. What cannot be read is left out, and the bundle's notes say so: half a
capture is better than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numalign import __version__
from numalign.adapters.local import kubelet_process
from numalign.adapters.local.files import read_small
from numalign.adapters.sources.filetree import DirTree
from numalign.adapters.sources.recording_tree import RecordingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.apps.snapshots.host_files import read_yaml, state_files
from numalign.core.errors import ConfigError, NumalignError
from numalign.core.kubelet.older_versions import Kubernetes
from numalign.core.machine.machine import Machine
from numalign.core.settings import Version
from numalign.wire import bundle
from numalign.wire.bundle import About, Bundle
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.kubelet import flags as kubelet_flags
from numalign.wire.kubelet.config import reduced
from numalign.wire.pods.running import running_pods

if TYPE_CHECKING:
    from numalign.core.views.podresources import View
    from numalign.wire.pods.records import PodRecord

MANIFEST_BYTES_MAX: Final = 1024 * 1024
MANIFESTS_MAX: Final = 1_000
POD_RESOURCES: Final = "pod-resources/kubelet.sock"
STATE: Final = "/var/lib/kubelet"
POD_LOGS: Final = "/var/log/pods"
# Where installers put the kubelet's configuration.
CONFIGS: Final = (
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/kubelet-config.yaml",
    "/etc/kubernetes/kubelet-config.yaml",
    "/etc/kubernetes/kubelet.yaml",
    "/etc/kubernetes/kubelet/config.json",
    "/etc/kubernetes/kubelet/kubelet-config.json",
    "/home/kubernetes/kubelet-config.yaml",
    "/var/lib/k0s/kubelet/config.yaml",
)
NO_KUBELET: Final = "found no kubelet configuration on this host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where to look; None for the usual place, or where the running kubelet's flags point."""

    root: Path = Path("/")
    config: Path | None = None
    state: Path | None = None
    pod_resources: Path | None = None

    def under_root(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def captured(
    places: Places,
    *,
    created_at: str,
    kubernetes: Kubernetes | None = None,
    pods: Iterable[PodRecord] = (),
) -> tuple[Bundle, Machine]:
    tree = RecordingTree(DirTree(places.root))
    machine = read_machine(tree)
    notes: list[str] = []
    arguments = kubelet_process.kubelet_arguments(places.root)
    flags = kubelet_flags.flags_of(arguments or ())
    document = _configuration(places, flags, notes)
    directory = places.state or places.under_root(flags.get("root-dir", [STATE])[-1])
    state = _state(directory, places, notes)
    view = _pod_resources(directory, places, notes)
    records = tuple(pods) or _static_pods(places, document, notes)
    names = kubelet_process.pod_names(places.under_root(_logs(document)))
    files = {bundle.KERNEL_FILES: bundle.kernel_files(tree.files())}
    files |= {f"state/{name}": data for name, data in state.items()}
    if document:
        files[bundle.CONFIG] = bundle.document(reduced(document))
    if records:
        files[bundle.PODS] = bundle.pod_list(records)
    if view is not None:
        files[bundle.POD_RESOURCES] = bundle.pod_resources(view)
    about = About(
        created_at=created_at,
        numalign=__version__,
        host=machine.name,
        kubernetes=str(kubernetes or _version(state, notes)),
        names=names,
        notes=tuple(notes),
    )
    return Bundle(about, files), machine


def _configuration(
    places: Places, flags: Mapping[str, list[str]], notes: list[str]
) -> dict[str, Any] | None:
    """The kubelet's configuration with its flags applied; None where there is none."""
    path = places.config or _config_path(places, flags)
    document: dict[str, Any] = {}
    if path is not None:
        document = _document(path)
        if "config-dir" in flags:
            notes.append("the kubelet also reads a directory of configurations, which is left out")
    elif not flags:
        notes.append(NO_KUBELET)
        return None
    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return {**header, **kubelet_flags.overlaid(document, flags)}


def _config_path(places: Places, flags: Mapping[str, list[str]]) -> Path | None:
    named = flags.get("config")
    if named:
        return places.under_root(named[-1])
    usual = (places.under_root(path) for path in CONFIGS)
    return next((path for path in usual if path.is_file()), None)


def _document(path: Path) -> dict[str, Any]:
    found = read_yaml(path, " Name it with --kubelet-config.")[1]
    if not isinstance(found, dict) or found.get("kind") != "KubeletConfiguration":
        raise ConfigError(f"{path}: found no KubeletConfiguration. Name it with --kubelet-config.")
    return found


def _state(directory: Path, places: Places, notes: list[str]) -> dict[str, bytes]:
    if places.state is None and not directory.is_dir():
        notes.append(f"found no state files: there is no {directory}")
        return {}
    found = state_files(directory)
    missing = [name for name in bundle.STATE_FILES if name not in found]
    if missing:
        notes.append(f"found no {', '.join(missing)} in {directory}: counted as empty")
    return found


def _pod_resources(directory: Path, places: Places, notes: list[str]) -> View | None:
    socket = places.pod_resources or directory / POD_RESOURCES
    if places.pod_resources is None and not socket.exists():
        return None
    from numalign.adapters.grpc.podresources_client import asked  # noqa: PLC0415 - gRPC is large

    try:
        return asked(socket)
    except NumalignError as error:
        notes.append(f"{socket}: PodResources did not answer: {error}")
        return None


def _static_pods(
    places: Places, document: Mapping[str, Any] | None, notes: list[str]
) -> tuple[PodRecord, ...]:
    named = (document or {}).get("staticPodPath")
    if not isinstance(named, str) or not named:
        return ()
    path = places.under_root(named)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    found: list[PodRecord] = []
    for file in files[:MANIFESTS_MAX]:
        if file.name.startswith(".") or not file.is_file():
            continue
        try:
            found += running_pods(read_small(file, MANIFEST_BYTES_MAX) or b"", str(file))
        except NumalignError as error:
            notes.append(f"a static pod is left out: {error}")
    return tuple(found)


def _logs(document: Mapping[str, Any] | None) -> str:
    named = (document or {}).get("podLogsDir")
    return named if isinstance(named, str) and named else POD_LOGS


def _version(state: Mapping[str, bytes], notes: list[str]) -> Version:
    """The version that wrote the state files: 1.37 has a form of its own."""
    if b'"dataChecksum"' in state.get(cpu_checkpoint.FILE_NAME, b""):
        notes.append("the form of cpu_manager_state is that of Kubernetes 1.37")
        return Version.V1_37
    return Version.V1_36
