"""NRI's messages: from bytes to values, and from answers to bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from numalign.wire.grpc.protobuf import parsed
from numalign.wire.nri._generated import nri_v1alpha1_pb2 as pb
from numalign.wire.nri.values import (
    EVENT_MASK,
    Configuration,
    Container,
    MemoryMode,
    Placing,
    Resources,
    Sandbox,
    Update,
)

PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"
REQUEST_SECONDS_DEFAULT: Final = 2.0
_MODES: Final = {
    MemoryMode.BIND: pb.MPOL_BIND,
    MemoryMode.PREFERRED: pb.MPOL_PREFERRED,
    MemoryMode.INTERLEAVE: pb.MPOL_INTERLEAVE,
}


# What comes in. WireError where bytes are not the message that they should be.


def configuration_of(data: bytes) -> Configuration:
    found = parsed(pb.ConfigureRequest, data)
    seconds = found.request_timeout / 1000 if found.request_timeout > 0 else REQUEST_SECONDS_DEFAULT
    return Configuration(
        found.config,
        found.runtime_name,
        found.runtime_version,
        version_of(found.NRI_version),
        seconds,
    )


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version such as ``v0.12.1``; empty for a text without any."""
    match = re.match(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?", text)
    return () if match is None else tuple(int(part or 0) for part in match.groups())


def synchronization_of(
    data: bytes,
) -> tuple[tuple[Sandbox, ...], tuple[Container, ...], bool]:
    """Pods, containers, and whether more of them will come."""
    found = parsed(pb.SynchronizeRequest, data)
    pods = tuple(_sandbox(pod) for pod in found.pods)
    return pods, tuple(_container(one) for one in found.containers), found.more


def creation_of(data: bytes) -> tuple[Sandbox, Container]:
    found = parsed(pb.CreateContainerRequest, data)
    return _sandbox(found.pod), _container(found.container)


def update_of(data: bytes) -> tuple[Sandbox, Container, Resources]:
    found = parsed(pb.UpdateContainerRequest, data)
    return _sandbox(found.pod), _container(found.container), _resources(found.linux_resources)


def pod_event_of(data: bytes) -> tuple[Sandbox, Container]:
    """The content of a request about one pod, or one container of it."""
    found = parsed(pb.PodEvent, data)
    return _sandbox(found.pod), _container(found.container)


def state_change_of(data: bytes) -> tuple[int, Sandbox, Container]:
    found = parsed(pb.StateChangeEvent, data)
    return found.event, _sandbox(found.pod), _container(found.container)


def failed_updates_of(data: bytes) -> tuple[str, ...]:
    """The containers that could not be changed."""
    found = parsed(pb.UpdateContainersResponse, data)
    return tuple(update.container_id for update in found.failed)


def _sandbox(pod: pb.PodSandbox) -> Sandbox:
    return Sandbox(
        pod.id,
        pod.uid,
        pod.name,
        pod.namespace,
        dict(pod.annotations),
        pod.linux.cgroup_parent,
        _resources(pod.linux.pod_resources),
        pod.pid,
    )


def _container(one: pb.Container) -> Container:
    return Container(
        one.id,
        one.pod_sandbox_id,
        one.name,
        one.state,
        _resources(one.linux.resources),
        one.linux.cgroups_path,
        one.pid,
    )


def _resources(found: pb.LinuxResources) -> Resources:
    cpu, memory = found.cpu, found.memory
    # A wish that is not set comes as a message that is there, with 0 in it.
    return Resources(
        cpu.shares.value or None,
        cpu.quota.value or None,
        cpu.period.value or None,
        cpu.cpus,
        cpu.mems,
        memory.limit.value or None,
        {limit.page_size: limit.limit for limit in found.hugepage_limits if limit.limit},
    )


# What goes out.


def registration(name: str, index: str) -> bytes:
    return pb.RegisterPluginRequest(plugin_name=name, plugin_idx=index).SerializeToString()


def configured() -> bytes:
    return pb.ConfigureResponse(events=EVENT_MASK).SerializeToString()


def synchronized(updates: Iterable[Update], *, more: bool = False) -> bytes:
    return pb.SynchronizeResponse(update=map(_update, updates), more=more).SerializeToString()


def created(placing: Placing, updates: Iterable[Update]) -> bytes:
    answer = pb.CreateContainerResponse(update=map(_update, updates))
    cpu = answer.adjust.linux.resources.cpu
    cpu.cpus, cpu.mems = placing.cpus, placing.mems
    if placing.memory_mode is not None:
        policy = answer.adjust.linux.memory_policy
        policy.mode, policy.nodes = _MODES[placing.memory_mode], placing.memory_nodes
    return answer.SerializeToString()


def updated(updates: Iterable[Update]) -> bytes:
    """The answer to an update or the end of a container."""
    return pb.UpdateContainerResponse(update=map(_update, updates)).SerializeToString()


def unsolicited(updates: Iterable[Update]) -> bytes:
    return pb.UpdateContainersRequest(update=map(_update, updates)).SerializeToString()


def _update(update: Update) -> pb.ContainerUpdate:
    cpu = pb.LinuxCPU(cpus=update.cpus, mems=update.mems)
    # One container that has just ended must not make the creation of another one fail.
    return pb.ContainerUpdate(
        container_id=update.container,
        linux=pb.LinuxContainerUpdate(resources=pb.LinuxResources(cpu=cpu)),
        ignore_failure=True,
    )
