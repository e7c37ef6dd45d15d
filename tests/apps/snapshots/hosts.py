"""A host's root directory as a kubelet leaves it, made for tests."""

import json
from pathlib import Path

from tests.adapters.sources.captures import sysfs_files

from numalign.adapters.sources.discovery import discover
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.devices import devices
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.settings import Version
from numalign.wire.checkpoints import state_files
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.host_settings import host_settings
from numalign.wire.pods.manifests import core_pod, load_all

GPU = "example.com/gpu"
SHAPE = "2s:1n:4c:2t,mem=8Gi,gpu=2"
CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0,8",
    "kubeReserved": {"memory": "924Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    "staticPodPath": "/etc/kubernetes/manifests",
    "staticPodURLHeader": {"Authorization": ["Bearer hunter2"]},
    "tlsPrivateKeyFile": "/etc/hunter2.key",
    "clusterDNS": ["10.96.0.10"],
    "maxPods": 20,
}
DEVICES = [devices.Device(f"g{n}", (n % 2,)) for n in range(4)]


def pod(name, cpu="2", memory="1Gi", gpus=0, uid="", **more):
    limits = {"cpu": cpu, "memory": memory}
    if gpus:
        limits[GPU] = str(gpus)
    container = {"name": "main", "resources": {"limits": limits}, **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"},
        "spec": {"containers": [container]},
    }


def records(*manifests):
    return [load_all(json.dumps(m).encode(), source="test")[0] for m in manifests]


def kubelet_state(manifests, version=Version.V1_36):
    """The host and the state of a kubelet that has admitted these pods."""
    machine = discover(SHAPE)
    config = kubelet_config.load(json.dumps(CONFIG), version=version)
    built = host.build(host_settings(config, machine, version=version), machine_info(machine))
    state = host.start(built)
    found = devices.with_reported(state.devices, GPU, devices.device_resource(DEVICES))
    state = host.replace(state, devices=found)
    for record in records(*manifests):
        uid = record.metadata.uid
        state, _ = admit(built, state, core_pod(record))
        assert uid in state.pods, uid
        for container, resources in state.devices.entries.get(uid, {}).items():
            for name in resources:
                given = devices.with_response(state.devices, uid, container, name, b"")
                state = host.replace(state, devices=given)
    return built, state


def make_root(root: Path, manifests=(), version=Version.V1_36, config=None) -> Path:
    """The directory with sysfs, procfs, /var/lib/kubelet and /var/log/pods."""
    for path, text in sysfs_files(discover(SHAPE)).items():
        _write(root / path, text.encode())
    _write(root / "var/lib/kubelet/config.yaml", json.dumps(config or CONFIG).encode())
    built, state = kubelet_state(manifests, version)
    for name, data in state_files.encoded(state, built.settings).items():
        _write(root / "var/lib/kubelet" / state_files.PLACES[name], data)
    return root


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
