"""What an operator can tell the agent.

A KubeletConfiguration is understood as it is. For what the kubelet has no word for there is a small
file of ours, which may name the other one:

    apiVersion: numalign.io/v1
    kind: AgentConfiguration
    kubernetes: "1.36"
    fidelity: safe
    kubeletConfig: /etc/kubernetes/kubelet.yaml
    cgroupParent: numalign
    backoffSeconds: 10
    podsMax: 110
    offlineCpus: keep  # or end: what a pod does when a CPU of its own goes offline
    devices:
    - resource: example.com/fpga
      devices: [{id: fpga0, nodes: [0]}, {id: fpga1, nodes: [1]}]
    - resource: example.com/nic
      pci: nic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from numalign.core.errors import ConfigError, WireError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.machine import DeviceKind, Machine
from numalign.core.settings import Fidelity, Version
from numalign.core.values import resource_names
from numalign.wire import yaml as plain_yaml
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import KubeletConfig

API_VERSION: Final = "numalign.io/v1"
KIND: Final = "AgentConfiguration"
PODS_MAX: Final = 10_000


class _Device(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    nodes: list[int] | None = None


class _Devices(msgspec.Struct, forbid_unknown_fields=True):
    resource: str
    devices: list[_Device] | None = None
    pci: DeviceKind | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    kubernetes: str = Version.V1_36.value
    fidelity: Fidelity = Fidelity.SAFE
    kubelet_config: str | None = None
    cgroup_parent: str | None = None
    backoff_seconds: float = 10.0
    pods_max: int | None = None
    offline_cpus: Literal["keep", "end"] = "keep"
    devices: list[_Devices] = []


@dataclass(frozen=True, slots=True)
class DeclaredDevices:
    """Devices of one resource that no plugin reports."""

    resource: str
    devices: tuple[Device, ...] = ()
    pci: DeviceKind | None = None  # or: all PCI devices of this kind

    def on(self, machine: Machine) -> tuple[Device, ...]:
        if self.pci is None:
            return self.devices
        return tuple(
            Device(found.address, None if found.node is None else (found.node,))
            for found in machine.devices
            if found.kind is self.pci and not found.virtual_function
        )


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Everything that can be configured; ``kubelet`` None: what suits the machine."""

    version: Version = Version.V1_36
    fidelity: Fidelity = Fidelity.SAFE
    kubelet: KubeletConfig | None = None
    cgroup_parent: str | None = None  # None: one for each state directory
    backoff_seconds: float = 10.0
    pods_max: int | None = None  # None: what the kubelet's configuration says
    devices: tuple[DeclaredDevices, ...] = field(default_factory=tuple)
    offline_cpus: Literal["keep", "end"] = "keep"  # what a pod does that loses some of its CPUs


def load(data: bytes, *, source: str, read: Callable[[str], bytes]) -> AgentConfig:
    """The configuration in a file; ``read`` gives the bytes of the file that it may name."""
    try:
        content = plain_yaml.load(data)
    except WireError as error:
        raise ConfigError(f"{source}: {error}") from error
    if isinstance(content, Mapping) and content.get("kind") == kubelet_config.KIND:
        return AgentConfig(kubelet=kubelet_config.load(data, version=Version.V1_36))
    try:
        found = msgspec.convert(content, _File, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{source}: {error}; expected kind {KIND} ({API_VERSION}) or {kubelet_config.KIND}"
        ) from error
    return _checked(found, source, read)


def _checked(found: _File, source: str, read: Callable[[str], bytes]) -> AgentConfig:
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        raise ConfigError(
            f"{source}: found {found.kind} of {found.api_version}, expected {KIND} of {API_VERSION}"
        )
    if found.kubernetes not in set(Version):
        known = " or ".join(Version)
        raise ConfigError(f"{source}: kubernetes: found {found.kubernetes!r}, expected {known}")
    if not 0 < found.backoff_seconds <= 300:
        raise ConfigError(
            f"{source}: backoffSeconds: found {found.backoff_seconds:g}, expected more than 0 and "
            "at most 300"
        )
    if found.pods_max is not None and not 0 < found.pods_max <= PODS_MAX:
        raise ConfigError(f"{source}: podsMax: found {found.pods_max}, expected 1 to {PODS_MAX}")
    version = Version(found.kubernetes)
    kubelet = None
    if found.kubelet_config is not None:
        kubelet = kubelet_config.load(read(found.kubelet_config), version=version)
    return AgentConfig(
        version,
        found.fidelity,
        kubelet,
        found.cgroup_parent,
        found.backoff_seconds,
        found.pods_max,
        tuple(_declared(item, source) for item in found.devices),
        found.offline_cpus,
    )


def _declared(item: _Devices, source: str) -> DeclaredDevices:
    where = f"{source}: devices: {item.resource}"
    if not resource_names.is_extended(item.resource):
        raise ConfigError(f"{where}: expected a name such as example.com/gpu")
    if (item.devices is None) == (item.pci is None):
        raise ConfigError(f"{where}: expected either devices or pci")
    found = tuple(
        Device(d.id, None if d.nodes is None else tuple(d.nodes)) for d in item.devices or ()
    )
    if len({d.id for d in found}) != len(found):
        raise ConfigError(f"{where}: found an id twice, expected each once")
    return DeclaredDevices(item.resource, found, item.pci)
