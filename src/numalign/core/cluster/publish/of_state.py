"""A host's exact placement, from what its managers remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.kubelet.admission.admission import placements
from numalign.core.kubelet.devices.devices import Device, DeviceResource
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.state import NodeMemory
from numalign.core.pod import Pod


def placement_of(host: Host, state: HostState, pods_max: int) -> PublishedPlacement:
    """What the host would publish in this state."""
    return PublishedPlacement(
        host.info,
        host.settings,
        devices_of(state.devices.resources),
        tuple(placed_pod(state, pod) for pod in state.pods.values()),
        state.cpu.shared,
        pods_max,
        accounts_of(state),
    )


def placed_pod(state: HostState, pod: Pod) -> PlacedPod:
    return PlacedPod(
        pod.namespace,
        pod.name,
        pod.uid,
        tuple(_placed(state, pod)),
        state.cpu.pod_sets.get(pod.uid, 0),
        state.memory.pod_blocks.get(pod.uid, ()),
    )


def _placed(state: HostState, pod: Pod) -> Iterable[PlacedContainer]:
    for own in placements(state, pod):
        yield PlacedContainer(own.container, own.cpus or 0, own.memory, own.devices)


def devices_of(resources: Mapping[str, DeviceResource]) -> dict[str, tuple[Device, ...]]:
    return {
        name: tuple(
            Device(device, found.nodes_of[device], bool(found.healthy >> i & 1))
            for i, device in enumerate(found.ids)
        )
        for name, found in resources.items()
    }


def accounts_of(state: HostState) -> Mapping[int, NodeMemory]:
    """The memory manager's accounts, where they do not follow from the blocks."""
    is_grouped = any(len(node.cells) > 1 for node in state.memory.machine.values())
    return state.memory.machine if is_grouped else {}
