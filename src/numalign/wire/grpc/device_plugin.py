"""Messages of the device plugin API (v1beta1) and of the plugin watcher, from and to bytes.

Everything that comes from a plugin is foreign: it is read within named limits, and a message that
does not keep to the form is a WireError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from numalign.core.errors import WireError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation, DeviceNode, Mount
from numalign.core.values.sets import ID_MAX
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as v1beta1
from numalign.wire.grpc._generated import pluginregistration_v1_pb2 as watcher
from numalign.wire.grpc.protobuf import parsed

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
WATCHER_TYPE: Final = "DevicePlugin"

REGISTER: Final = "/v1beta1.Registration/Register"
GET_OPTIONS: Final = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
LIST_AND_WATCH: Final = "/v1beta1.DevicePlugin/ListAndWatch"
GET_PREFERRED: Final = "/v1beta1.DevicePlugin/GetPreferredAllocation"
ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
PRE_START: Final = "/v1beta1.DevicePlugin/PreStartContainer"
GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
NOTIFY: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"

EMPTY: Final = b""  # any message without fields
DEVICES_MAX: Final = 10_000
NODES_PER_DEVICE_MAX: Final = 1_024
NAME_LENGTH_MAX: Final = 1_024  # of anything that a plugin says about itself; it is said back


@dataclass(frozen=True, slots=True)
class Registration:
    """A plugin asks to be connected: the name of its socket and what it offers."""

    version: str
    endpoint: str
    resource: str


@dataclass(frozen=True, slots=True)
class Options:
    """Which calls a plugin wants besides Allocate."""

    has_preferred: bool
    prestart: bool


@dataclass(frozen=True, slots=True)
class DeviceList:
    """One report of a plugin; ``faults`` says what in it was not taken as it stands."""

    devices: tuple[Device, ...]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """How a plugin presents itself to the plugin watcher; an empty endpoint: the same socket."""

    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]


def registration_of(data: bytes) -> Registration:
    """The content of a RegisterRequest; its options are not looked at, as in the kubelet."""
    found = parsed(v1beta1.RegisterRequest, data)
    _check_lengths(found.version, found.endpoint, found.resource_name)
    return Registration(found.version, found.endpoint, found.resource_name)


def options_of(data: bytes) -> Options:
    found = parsed(v1beta1.DevicePluginOptions, data)
    return Options(
        has_preferred=found.get_preferred_allocation_available, prestart=found.pre_start_required
    )


def devices_of(data: bytes) -> DeviceList:
    """The content of a ListAndWatchResponse; of two devices with the same id the later counts.

    Any health but exactly ``Healthy`` is unhealthy. A NUMA node that no machine can have is left
    out, since one large number would cost memory in every mask.
    """
    found = parsed(v1beta1.ListAndWatchResponse, data).devices
    if len(found) > DEVICES_MAX:
        raise WireError(f"found {len(found)} devices, at most {DEVICES_MAX} are taken")
    devices: dict[str, Device] = {}
    faults: list[str] = []
    for one in found:
        nodes: tuple[int, ...] | None = None
        if one.HasField("topology"):
            nodes = _nodes(one, faults)
        devices[one.ID] = Device(one.ID, nodes, one.health == HEALTHY)
    return DeviceList(tuple(devices.values()), tuple(faults[:1]))


def _nodes(device: v1beta1.Device, faults: list[str]) -> tuple[int, ...]:
    found = device.topology.nodes
    if len(found) > NODES_PER_DEVICE_MAX:
        raise WireError(
            f"device {device.ID!r}: found {len(found)} NUMA nodes, "
            f"at most {NODES_PER_DEVICE_MAX} are taken"
        )
    nodes = tuple(node.ID for node in found)
    if any(node > ID_MAX for node in nodes):
        faults.append(
            f"device {device.ID!r}: NUMA node {max(nodes)} is left out, "
            f"since no machine numbers nodes above {ID_MAX}"
        )
        nodes = tuple(node for node in nodes if node <= ID_MAX)
    return nodes


def preferred_request(available: Iterable[str], must: Iterable[str], size: int) -> bytes:
    one = v1beta1.ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
    )
    return v1beta1.PreferredAllocationRequest(container_requests=[one]).SerializeToString()


def preferred_of(data: bytes) -> tuple[str, ...]:
    """The ids that a plugin prefers: those of the first container, () without one."""
    found = parsed(v1beta1.PreferredAllocationResponse, data).container_responses
    return tuple(found[0].deviceIDs) if found else ()


def allocate_request(ids: Iterable[str]) -> bytes:
    one = v1beta1.ContainerAllocateRequest(devices_ids=ids)
    return v1beta1.AllocateRequest(container_requests=[one]).SerializeToString()


def allocation_of(data: bytes) -> Allocation:
    """The content of an AllocateResponse: what it says for the first container."""
    found = parsed(v1beta1.AllocateResponse, data).container_responses
    if not found:
        # The kubelet prints the answer behind these words; an answer without containers is empty.
        raise WireError("no containers return in allocation response ")
    return _allocation(found[0])


def saved_allocation_of(response: bytes) -> Allocation:
    """The answer to Allocate that a checkpoint kept."""
    return _allocation(parsed(v1beta1.ContainerAllocateResponse, response))


def _allocation(found: v1beta1.ContainerAllocateResponse) -> Allocation:
    for name, value in found.envs.items():
        # A process cannot be given such a variable, and the part behind "=" would be another one.
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise WireError(f"found the environment variable {name!r}, which cannot be set")
    paths = [(m.container_path, m.host_path) for m in found.mounts]
    paths += [(d.container_path, d.host_path) for d in found.devices]
    for inside, outside in paths:
        if not inside or not outside or "\0" in inside + outside:
            raise WireError(f"found the path {inside!r} from {outside!r}, which cannot be mounted")
    return Allocation(
        dict(sorted(found.envs.items())),
        tuple(Mount(m.container_path, m.host_path, m.read_only) for m in found.mounts),
        tuple(DeviceNode(d.container_path, d.host_path, d.permissions) for d in found.devices),
        dict(sorted(found.annotations.items())),
        tuple(cdi.name for cdi in found.cdi_devices),
        found.SerializeToString(deterministic=True),
    )


def pre_start_request(ids: Iterable[str]) -> bytes:
    return v1beta1.PreStartContainerRequest(devices_ids=ids).SerializeToString()


def plugin_info_of(data: bytes) -> PluginInfo:
    found = parsed(watcher.PluginInfo, data)
    versions = " ".join(found.supported_versions)
    _check_lengths(found.type, found.name, found.endpoint, versions)
    return PluginInfo(found.type, found.name, found.endpoint, tuple(found.supported_versions))


def registration_status(error: str = "") -> bytes:
    """A RegistrationStatus: registered, or refused for this reason."""
    status = watcher.RegistrationStatus(plugin_registered=not error, error=error)
    return status.SerializeToString()


def _check_lengths(*texts: str) -> None:
    length = max(map(len, texts))
    if length > NAME_LENGTH_MAX:
        raise WireError(f"found a name of {length} characters, at most {NAME_LENGTH_MAX} are taken")
