"""What the PodResources API says about a host: who holds what, and what there is to hold.

Pods are listed by namespace and name, devices by resource and id; the kubelet leaves both open.
Regular init containers are never listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from numalign.core.kubelet.devices.devices import DeviceResource, Held
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.state import Block
from numalign.core.pod import Container, Pod, has_pod_level_managers, is_guaranteed_alike
from numalign.core.settings import Version
from numalign.core.values.sets import bits


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One device on one NUMA node, None where it has none; a device on two nodes has two."""

    resource: str
    id: str
    node: int | None


@dataclass(frozen=True, slots=True)
class ContainerView:
    name: str
    cpus: tuple[int, ...] = ()
    memory: tuple[Block, ...] = ()
    devices: tuple[DeviceUse, ...] = ()


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod: sidecars and app containers. The last two are of the pod as a whole (1.37)."""

    name: str
    namespace: str
    sidecars: tuple[ContainerView, ...] = ()
    apps: tuple[ContainerView, ...] = ()
    cpus: tuple[int, ...] = ()
    memory: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What could be given to pods on an empty host."""

    cpus: tuple[int, ...] = ()
    memory: tuple[Block, ...] = ()
    devices: tuple[DeviceUse, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that the API can be asked for. ``ended`` pods only show in v1alpha1."""

    pods: tuple[PodView, ...] = ()
    allocatable: Allocatable = Allocatable()
    ended: tuple[PodView, ...] = ()


def resources_view(host: Host, state: HostState, *, ended: Iterable[Pod] = ()) -> View:
    """The host as it is now; ``ended`` are pods that are still known but not active any more."""
    return View(
        tuple(_pod(host, state, pod) for pod in _by_name(state.pods.values())),
        allocatable(host, state),
        tuple(_pod(host, state, pod) for pod in _by_name(ended)),
    )


def _by_name(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))


def _pod(host: Host, state: HostState, pod: Pod) -> PodView:
    sidecars = [c for c in pod.init_containers if c.is_restartable]
    shown = PodView(
        pod.name,
        pod.namespace,
        tuple(_container(host, state, pod, c) for c in sidecars),
        tuple(_container(host, state, pod, c) for c in pod.containers),
    )
    if host.settings.version is Version.V1_36 or not host.settings.gate("PodLevelResourceManagers"):
        return shown
    cpus = tuple(bits(state.cpu.pod_sets.get(pod.uid, 0)))
    memory = state.memory.pod_blocks.get(pod.uid, ())
    return PodView(shown.name, shown.namespace, shown.sidecars, shown.apps, cpus, memory)


def _container(host: Host, state: HostState, pod: Pod, container: Container) -> ContainerView:
    uid, name = pod.uid, container.name
    cpus = state.cpu.entries.get(uid, {}).get(name, 0)
    memory = state.memory.entries.get(uid, {}).get(name, ())
    # Since 1.37 what a container shares with others of its pod is only told of the pod.
    if host.settings.version is not Version.V1_36 and has_pod_level_managers(pod, host.settings):
        if not _has_own_cpus(container):
            cpus = 0
        if not is_guaranteed_alike(container):
            memory = ()
    held = state.devices.entries.get(uid, {}).get(name, {})
    devices = [use for resource in sorted(held) for use in _uses(resource, held[resource])]
    return ContainerView(name, tuple(bits(cpus)), memory, tuple(devices))


def _has_own_cpus(container: Container) -> bool:
    limit = container.limits.get("cpu")
    return (
        is_guaranteed_alike(container)
        and limit is not None
        and limit.value() * 1000 == limit.milli()
    )


def _uses(resource: str, held: Held) -> list[DeviceUse]:
    pairs = sorted((id_, node) for node, ids in held.by_node.items() for id_ in ids)
    return [DeviceUse(resource, id_, node if node != -1 else None) for id_, node in pairs]


def allocatable(host: Host, state: HostState) -> Allocatable:
    """What there is to give: unreserved CPUs, memory as at the start, healthy devices."""
    cpus = host.cpu.topology.all & ~host.cpu.reserved if host.cpu is not None else 0
    memory = host.memory.empty if host.memory is not None else {}
    blocks = tuple(
        Block((node,), kind, table.allocatable)
        for node, accounts in memory.items()
        for kind, table in sorted(accounts.tables.items())
        if table.allocatable > 0
    )
    found = sorted(state.devices.resources.items())
    devices = tuple(use for name, resource in found for use in _offered(name, resource))
    return Allocatable(tuple(bits(cpus)), blocks, devices)


def _offered(name: str, resource: DeviceResource) -> Iterator[DeviceUse]:
    for number in bits(resource.healthy):
        device = resource.ids[number]
        # A plugin that names no topology at all has devices of no node; one that names an empty
        # topology has devices that are not told of.
        if not resource.topology_given >> number & 1:
            yield DeviceUse(name, device, None)
        for node in resource.nodes_of[device]:
            yield DeviceUse(name, device, node)
