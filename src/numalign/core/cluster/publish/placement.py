"""The exact placement that a host publishes beside its NodeResourceTopology.

It holds what the node managers' decisions depend on: the machine as the kubelet sees it, the
settings, the devices, and who holds what. From it and the pods themselves a scheduler rebuilds the
host (``rebuilt``) and asks the deciding core instead of guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.state import Block, NodeMemory
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.settings import Settings


@dataclass(frozen=True, slots=True)
class PlacedContainer:
    """What one container holds for itself. Init containers count while something is held."""

    name: str
    cpus: int = 0  # a mask; 0: the shared pool
    memory: tuple[Block, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # resource -> ids


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """One active pod; ``cpus`` and ``memory`` are those of the pod as a whole."""

    namespace: str
    name: str
    uid: str = ""  # empty where the source knows none
    containers: tuple[PlacedContainer, ...] = ()
    cpus: int = 0
    memory: tuple[Block, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class PublishedPlacement:
    machine: MachineInfo
    settings: Settings
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    pods: tuple[PlacedPod, ...] = ()  # all active ones, also those that hold nothing
    shared_cpus: int = 0  # the default CPU set
    pods_max: int = 110
    # The memory manager's accounts, where nodes hold memory together: how that is spread over them
    # depends on the past. Empty where it follows from the blocks.
    accounts: Mapping[int, NodeMemory] = field(default_factory=dict)
