"""The configurations of the kubelet that are run, each with its machine and its devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.twin import sequences
from tests.twin.kubelet import MANIFESTS, PORT, RUNTIME
from tests.twin.sequences import GPU, NIC, Step

DRAWN: Final = 19

_BASE: Final[dict[str, Any]] = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "staticPodPath": str(MANIFESTS),
    "cgroupDriver": "cgroupfs",
    "containerRuntimeEndpoint": f"unix://{RUNTIME}/containerd.sock",
    "failSwapOn": False,
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "systemReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    # What is reserved and the threshold together, or the kubelet does not start.
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "200Mi"}}],
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "address": "127.0.0.1",
    "readOnlyPort": PORT,
    "podLogsDir": "/run/pod-logs",
    "localStorageCapacityIsolation": False,
    "enforceNodeAllocatable": ["pods"],
    "cpuManagerReconcilePeriod": "1s",
    "logging": {"verbosity": 2},
}
# Devices without a node have the last names: the plugin prefers the lowest, as the core does.
_DEVICES: Final = {
    "two-sockets": {GPU: ["g0=0", "g1=0", "g2=1"], NIC: ["n0=1", "n1=0,1"]},
    "four-nodes": {GPU: ["g0=0", "g1=1", "g2=2", "g3=3"], NIC: ["n0=0", "n1=0", "n2=3", "n3="]},
    "memory-node": {GPU: ["g0=0", "g1=1"], NIC: ["n0=0", "n1=1", "n2="]},
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to configure the kubelet, on one machine."""

    name: str
    topology: str
    reserved_cpus: str
    settings: dict[str, Any] = field(default_factory=dict)
    versions: tuple[str, ...] = ("1.36.4",)

    @property
    def kubelet(self) -> dict[str, Any]:
        """The whole KubeletConfiguration."""
        return {**_BASE, "reservedSystemCPUs": self.reserved_cpus, **self.settings}

    @property
    def devices(self) -> dict[str, list[str]]:
        """The devices of the plugins, as records write them."""
        return _DEVICES[self.topology]

    @property
    def steps(self) -> list[Step]:
        """What happens to it."""
        return sequences.whole(self.name, DRAWN)


BOTH: Final = ("1.36.4", "1.37.1")
CONFIGURATIONS: Final = {
    one.name: one
    for one in (
        Configuration(
            "restricted-container",
            "four-nodes",
            "0",
            {"topologyManagerPolicy": "restricted"},
            BOTH,
        ),
        Configuration(
            "single-pod",
            "four-nodes",
            "0",
            {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"},
            BOTH,
        ),
        Configuration(
            "best-effort-closest",
            "four-nodes",
            "0",
            {
                "topologyManagerPolicy": "best-effort",
                "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
            },
        ),
        Configuration(
            "single-full-cores",
            "two-sockets",
            "0-1",
            {
                "topologyManagerPolicy": "single-numa-node",
                "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
            },
        ),
        Configuration(
            "restricted-distribute",
            "two-sockets",
            "0-1",
            {
                "topologyManagerPolicy": "restricted",
                "cpuManagerPolicyOptions": {"distribute-cpus-across-numa": "true"},
            },
        ),
        Configuration(
            "best-effort-strict",
            "two-sockets",
            "0-1",
            {
                "topologyManagerPolicy": "best-effort",
                "topologyManagerScope": "pod",
                "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"},
            },
        ),
        Configuration(
            "restricted-memory-node",
            "memory-node",
            "0",
            {"topologyManagerPolicy": "restricted"},
            BOTH,
        ),
    )
}
