"""What is known of a host before anything is concluded from it, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numalign.core.settings import Fidelity, Version

if TYPE_CHECKING:
    from numalign.core.kubelet.admission.verdict import HostSnapshot
    from numalign.core.kubelet.devices.devices import Device
    from numalign.core.kubelet.older_versions import Kubernetes
    from numalign.core.machine.machine import Machine
    from numalign.core.views.podresources import View
    from numalign.wire.kubelet.config import KubeletConfig
    from numalign.wire.pods.records import PodRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInputs:
    """One host at one moment, as its files and answers show it."""

    source: str  # what to call it in a message
    machine: Machine
    config: KubeletConfig | None = None  # None: what suits the machine
    version: Version = Version.V1_36  # whose rules decide
    older: Kubernetes | None = None  # the version of a host for which these rules only stand in
    fidelity: Fidelity = Fidelity.KUBELET
    state: Mapping[str, bytes] = field(default_factory=dict)  # state files by name
    # Pods with or without uid. A pod without one is found in the state by what it asks for.
    pods: tuple[PodRecord, ...] = ()
    pods_complete: bool = False  # whether there are no others, so that all else is stale
    names: Mapping[str, str] = field(default_factory=dict)  # uid -> namespace/name
    pod_resources: View | None = None  # what the PodResources API answered
    devices: Mapping[str, tuple[Device, ...]] | None = None  # as the plugins report them
    pods_max: int | None = None  # None: what the configuration says
    notes: tuple[str, ...] = ()
    origin: str = ""  # of a bundle: kubelet, agent or simulation
    taken_at: str = ""  # when a bundle was made, in UTC


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot and where it comes from."""

    snapshot: HostSnapshot
    config: KubeletConfig
    inputs: SnapshotInputs
    unknown: frozenset[str] = frozenset()  # uids of pods that only the state files know
    notes: tuple[str, ...] = ()  # what the user should know before trusting an answer
