"""Messages of the PodResources API (v1 and v1alpha1), from and to bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from numalign.core.kubelet.state import Block
from numalign.core.views.podresources import Allocatable, ContainerView, DeviceUse, PodView
from numalign.wire.grpc._generated import podresources_v1_pb2 as v1
from numalign.wire.grpc._generated import podresources_v1alpha1_pb2 as v1alpha1
from numalign.wire.grpc.protobuf import parsed

LIST: Final = "/v1.PodResourcesLister/List"
GET: Final = "/v1.PodResourcesLister/Get"
GET_ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"
LIST_V1ALPHA1: Final = "/v1alpha1.PodResourcesLister/List"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pod that a client asks about."""

    name: str
    namespace: str


def wanted_of(data: bytes) -> Wanted:
    request = parsed(v1.GetPodResourcesRequest, data)
    return Wanted(request.pod_name, request.pod_namespace)


def pods_of(data: bytes) -> tuple[PodView, ...]:
    """The content of a ListPodResourcesResponse.

    It does not tell sidecars from app containers: all are ``apps`` here.
    """
    response = parsed(v1.ListPodResourcesResponse, data)
    return tuple(_pod_view(pod) for pod in response.pod_resources)


def allocatable_of(data: bytes) -> Allocatable:
    response = parsed(v1.AllocatableResourcesResponse, data)
    return Allocatable(tuple(response.cpu_ids), _blocks(response.memory), _uses(response.devices))


def _pod_view(pod: v1.PodResources) -> PodView:
    return PodView(
        pod.name,
        pod.namespace,
        (),
        tuple(
            ContainerView(
                found.name, tuple(found.cpu_ids), _blocks(found.memory), _uses(found.devices)
            )
            for found in pod.containers
        ),
        tuple(pod.cpu_ids),
        _blocks(pod.memory),
    )


def _blocks(memory: Iterable[v1.ContainerMemory]) -> tuple[Block, ...]:
    return tuple(Block(_nodes(found.topology), found.memory_type, found.size) for found in memory)


def _uses(devices: Iterable[v1.ContainerDevices]) -> tuple[DeviceUse, ...]:
    return tuple(
        DeviceUse(found.resource_name, device, node)
        for found in devices
        for device in found.device_ids
        for node in (_nodes(found.topology) or (None,))
    )


def _nodes(topology: v1.TopologyInfo) -> tuple[int, ...]:
    return tuple(node.ID for node in topology.nodes)


def list_response(pods: Iterable[PodView]) -> bytes:
    return v1.ListPodResourcesResponse(pod_resources=map(_pod, pods)).SerializeToString()


def get_response(pod: PodView) -> bytes:
    return v1.GetPodResourcesResponse(pod_resources=_pod(pod)).SerializeToString()


def allocatable_response(found: Allocatable) -> bytes:
    return v1.AllocatableResourcesResponse(
        devices=map(_device, found.devices), cpu_ids=found.cpus, memory=map(_memory, found.memory)
    ).SerializeToString()


def list_response_v1alpha1(pods: Iterable[PodView]) -> bytes:
    """A ListPodResourcesResponse of the deprecated version: devices of app containers only."""
    found = [
        v1alpha1.PodResources(
            name=pod.name, namespace=pod.namespace, containers=map(_container_v1alpha1, pod.apps)
        )
        for pod in pods
    ]
    return v1alpha1.ListPodResourcesResponse(pod_resources=found).SerializeToString()


def _pod(pod: PodView) -> v1.PodResources:
    return v1.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=map(_container, pod.sidecars + pod.apps),
        cpu_ids=pod.cpus,
        memory=map(_memory, pod.memory),
    )


def _container(container: ContainerView) -> v1.ContainerResources:
    return v1.ContainerResources(
        name=container.name,
        devices=map(_device, container.devices),
        cpu_ids=container.cpus,
        memory=map(_memory, container.memory),
    )


def _device(use: DeviceUse) -> v1.ContainerDevices:
    where = _topology([use.node]) if use.node is not None else None
    return v1.ContainerDevices(resource_name=use.resource, device_ids=[use.id], topology=where)


def _memory(block: Block) -> v1.ContainerMemory:
    return v1.ContainerMemory(
        memory_type=block.type, size=block.size, topology=_topology(block.nodes)
    )


def _topology(nodes: Iterable[int]) -> v1.TopologyInfo:
    return v1.TopologyInfo(nodes=[v1.NUMANode(ID=node) for node in nodes])


def _container_v1alpha1(container: ContainerView) -> v1alpha1.ContainerResources:
    devices = [
        v1alpha1.ContainerDevices(resource_name=use.resource, device_ids=[use.id])
        for use in container.devices
    ]
    return v1alpha1.ContainerResources(name=container.name, devices=devices)
