"""The settings of one host that decisions depend on: what a KubeletConfiguration says, reduced.

Texts are kept as the operator wrote them: the managers check them when they start, in the
kubelet's order and with its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from numalign.core.values.quantity import Quantity


class Version(StrEnum):
    """The Kubernetes minor version whose decisions are made."""

    V1_36 = "1.36"
    V1_37 = "1.37"


class Fidelity(StrEnum):
    """How to treat the kubelet's defects."""

    KUBELET = "kubelet"  # reproduce every decision; stop where the real code would break
    SAFE = "safe"  # repair what hurts, see docs/decisions/0005-two-fidelities.md


@dataclass(frozen=True, slots=True)
class ReservedMemory:
    node: int
    type: str
    amount: Quantity


# Gates that the managers look at, with their defaults (the same in both versions).
GATE_DEFAULTS: Final[Mapping[str, bool]] = {
    "CPUManagerPolicyAlphaOptions": False,
    "CPUManagerPolicyBetaOptions": True,
    "TopologyManagerPolicyAlphaOptions": False,
    "TopologyManagerPolicyBetaOptions": True,
    "PodLevelResources": True,
    "PodLevelResourceManagers": False,
    "InPlacePodVerticalScalingExclusiveCPUs": False,
    "InPlacePodVerticalScalingExclusiveMemory": False,
    "DRAExtendedResource": True,
    "DisableCPUQuotaWithExclusiveCPUs": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the four managers are configured with."""

    version: Version = Version.V1_36
    fidelity: Fidelity = Fidelity.KUBELET
    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Mapping[str, str] = field(default_factory=dict)
    cpu_policy: str = "none"
    cpu_options: Mapping[str, str] = field(default_factory=dict)
    reserved_cpus: str = ""  # an explicit list; its size is then the CPU reservation
    memory_policy: str = "None"
    reserved_memory: tuple[ReservedMemory, ...] = ()
    # kube-reserved + system-reserved + hard eviction per resource; zero amounts are left out.
    node_allocatable_reservation: Mapping[str, Quantity] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)

    def gate(self, name: str) -> bool:
        return self.gates.get(name, GATE_DEFAULTS[name])
