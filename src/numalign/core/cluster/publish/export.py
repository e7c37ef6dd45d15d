"""What a host publishes: its NUMA nodes with what they have, offer and still have to give.

Follows the updater of node-feature-discovery: amounts come from the PodResources API, capacities
from the machine. Where that one's result depends on chance (the order of maps and lists) ours does
not: the same host always publishes the same object. docs/reference/cluster.md lists what differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.publish import fingerprint as fingerprints
from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.cluster.publish.zones import (
    FINGERPRINT_ATTRIBUTE,
    FINGERPRINT_METHOD_ATTRIBUTE,
    MAX_NODES_ATTRIBUTE,
    POLICY_ATTRIBUTE,
    POLICY_WORDS,
    SCOPE_ATTRIBUTE,
    Attribute,
    HostTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numalign.core.kubelet.devices.devices import Device, SavedDevices
from numalign.core.kubelet.state import Block, CpuState, MemoryState, NodeMemory
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.machine.machine import Machine, NumaNode
from numalign.core.pod import Pod, Qos, qos_class
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity, hugepage_type
from numalign.core.values.sets import mask_of
from numalign.core.views.podresources import ContainerView, PodView, View

CPU: Final = "cpu"
MEMORY: Final = "memory"
ALL_PODS: Final = "all"  # the fingerprint's method
NO_POLICY: Final = "None"  # the deprecated word for a host that does not align
MAX_NODES_OPTION: Final = "max-allowable-numa-nodes"
STRICT_RESERVATION: Final = "strict-cpu-reservation"

_Amounts = dict[int, dict[str, int]]  # node, resource
Key = tuple[str, str]  # namespace, name


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod as the API server knows it. A static pod has another uid in the state files."""

    pod: Pod
    state_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Everything that is known of a host at one moment.

    ``pods`` None: nobody knows them, so all that is reported counts. Modern kubelets report only
    what is held exclusively, so that this comes to the same.
    """

    name: str
    machine: Machine
    info: MachineInfo  # the same machine as the kubelet sees it
    settings: Settings
    view: View
    pods: Mapping[Key, KnownPod] | None = None
    cpu_state: CpuState | None = None  # the state files, where they can be read
    memory_state: MemoryState | None = None
    saved_devices: SavedDevices | None = None
    pods_max: int = 110
    excluded: Collection[str] = field(default_factory=frozenset)  # resources to leave out


def unknown_pods(report: HostReport) -> list[Key]:
    """Pods that the host lists but whose kind is not known: nothing can be said without it."""
    if report.pods is None:
        return []
    listed = {(pod.namespace, pod.name) for pod in report.view.pods}
    return sorted(listed - report.pods.keys())


def exported(report: HostReport) -> HostTopology:
    """What the host publishes; all its pods must be known."""
    assert not unknown_pods(report), (
        "the kind of every pod must be known before anything is counted"
    )
    allocatable = _allocatable(report)
    available = _available(report, allocatable)
    zones = tuple(
        Zone(
            zone_name(node.id),
            resources=tuple(
                ZoneResource(
                    name,
                    Quantity.of(_capacity(node, name, amount)),
                    Quantity.of(amount),
                    Quantity.of(available[node.id][name]),
                )
                for name, amount in sorted(allocatable[node.id].items())
                if name not in report.excluded
            ),
            costs=_costs(report.machine, node),
        )
        for node in report.machine.nodes
    )
    return HostTopology(
        report.name,
        zones,
        tuple(_attributes(report)),
        (_policy_word(report.settings),),
        placement=_placement(report),
    )


# Amounts.


def _allocatable(report: HostReport) -> _Amounts:
    machine, offered = report.machine, report.view.allocatable
    found: _Amounts = {node.id: {} for node in machine.nodes}

    def add(node: int | None, name: str, amount: int) -> None:
        if node in found:
            found[node][name] = found[node].get(name, 0) + amount

    for cpu in offered.cpus:
        if cpu in machine.cpu_by_id:
            add(machine.cpu_by_id[cpu].node, CPU, 1)
    for use in offered.devices:
        add(use.node, use.resource, 1)
    for block in offered.memory:
        for node in block.nodes:
            add(node, block.type, block.size)
    for amounts in found.values():
        if not amounts:
            amounts[CPU] = 0  # all its CPUs are reserved, or it has none
    return found


def _capacity(node: NumaNode, name: str, allocatable: int) -> int:
    if name == CPU:
        return len(node.cpus)
    if name == MEMORY:
        return node.memory_bytes or allocatable
    pages = {hugepage_type(p.size_bytes): p.size_bytes * p.count for p in node.hugepages}
    return pages.get(name, allocatable)


def _available(report: HostReport, allocatable: _Amounts) -> _Amounts:
    left = {node: dict(amounts) for node, amounts in allocatable.items()}
    machine = report.machine
    places: dict[tuple[str, str], list[int]] = {}
    for use in report.view.allocatable.devices:
        if use.node is not None:
            places.setdefault((use.resource, use.id), []).append(use.node)

    def take(node: int | None, name: str, amount: int) -> int:
        """How much of it could be taken there."""
        if node is None or name not in left.get(node, {}):
            return 0
        taken = min(amount, left[node][name])
        left[node][name] -= taken
        return taken

    blocks: list[Block] = []
    for pod in _by_name(report.view.pods):
        counts, counts_cpus = _counts(report, pod)
        if not counts:
            continue
        for cpu in _cpus(pod) if counts_cpus else ():
            if cpu in machine.cpu_by_id:
                take(machine.cpu_by_id[cpu].node, CPU, 1)
        held = {(use.resource, use.id) for c in _containers(pod) for use in c.devices}
        for resource, device in sorted(held):
            for node in places.get((resource, device), ()):
                take(node, resource, 1)
        blocks += pod.memory or (b for c in _containers(pod) for b in c.memory)
    # Blocks on one node first: what a group of nodes holds then comes out of what they left.
    for block in sorted(blocks, key=lambda b: (len(b.nodes), b.type, b.nodes)):
        rest = block.size
        for node in sorted(block.nodes):
            rest -= take(node, block.type, rest)
    return left


def _counts(report: HostReport, pod: PodView) -> tuple[bool, bool]:
    """Whether a pod's holdings count at all, and whether its CPUs do."""
    if report.pods is None:
        return True, True
    known = report.pods[pod.namespace, pod.name].pod
    guaranteed = qos_class(known, report.settings) is Qos.GUARANTEED
    has_devices = any(container.devices for container in _containers(pod))
    whole = any(_is_whole(container.requests.get(CPU)) for container in known.in_order)
    return guaranteed or has_devices, guaranteed and whole


def _is_whole(request: Quantity | None) -> bool:
    return request is None or request.value() * 1000 == request.milli()


def _containers(pod: PodView) -> tuple[ContainerView, ...]:
    return pod.sidecars + pod.apps


def _cpus(pod: PodView) -> list[int]:
    """The CPUs that are not in the shared pool because of this pod."""
    own = {cpu for container in _containers(pod) for cpu in container.cpus}
    return sorted(cpu for cpu in own.union(pod.cpus) if cpu >= 0)


def _by_name(pods: Iterable[PodView]) -> list[PodView]:
    return sorted(pods, key=lambda pod: (pod.namespace, pod.name))


def _costs(machine: Machine, node: NumaNode) -> dict[str, int]:
    if node.distances is None:
        return {}
    others = (zone_name(other.id) for other in machine.nodes)
    return dict(zip(others, node.distances, strict=True))


# Words.


def _policy_word(settings: Settings) -> str:
    chosen = settings.topology_policy, settings.topology_scope
    return next((word for word, pair in POLICY_WORDS.items() if pair == chosen), NO_POLICY)


def _attributes(report: HostReport) -> Iterable[Attribute]:
    settings = report.settings
    yield Attribute(POLICY_ATTRIBUTE, settings.topology_policy)
    yield Attribute(SCOPE_ATTRIBUTE, settings.topology_scope)
    most = settings.topology_options.get(MAX_NODES_OPTION)
    if most is not None:
        yield Attribute(MAX_NODES_ATTRIBUTE, most)
    if settings.topology_options:
        yield Attribute("topologyManagerPolicyOptions", _options(settings.topology_options))
    yield Attribute("cpuManagerPolicy", settings.cpu_policy)
    if settings.cpu_options:
        yield Attribute("cpuManagerPolicyOptions", _options(settings.cpu_options))
    yield Attribute("memoryManagerPolicy", settings.memory_policy)
    names = [(pod.namespace, pod.name) for pod in report.view.pods]
    yield Attribute(FINGERPRINT_ATTRIBUTE, fingerprints.fingerprint(names))
    yield Attribute(FINGERPRINT_METHOD_ATTRIBUTE, ALL_PODS)


def _options(options: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(options.items()))


# The exact placement.


def _placement(report: HostReport) -> PublishedPlacement:
    return PublishedPlacement(
        report.info,
        report.settings,
        _devices(report.view),
        tuple(_placed(report, pod) for pod in _by_name(report.view.pods)),
        _shared(report),
        report.pods_max,
        _accounts(report),
    )


def _accounts(report: HostReport) -> Mapping[int, NodeMemory]:
    state = report.memory_state
    if state is None:
        return {}
    held = [b for containers in state.entries.values() for own in containers.values() for b in own]
    grouped = any(len(node.cells) > 1 for node in state.machine.values())
    return state.machine if grouped or any(len(b.nodes) > 1 for b in held) else {}


def _devices(view: View) -> dict[str, tuple[Device, ...]]:
    """All devices that there are; those that only a pod still holds are not healthy any more."""
    nodes: dict[tuple[str, str], list[int]] = {}
    offered = set()
    placeless = set()
    held = [use for pod in view.pods for c in _containers(pod) for use in c.devices]
    for use in view.allocatable.devices:
        offered.add((use.resource, use.id))
    known = [*view.allocatable.devices, *(u for u in held if (u.resource, u.id) not in offered)]
    for use in known:
        key = use.resource, use.id
        own = nodes.setdefault(key, [])
        if use.node is None:
            placeless.add(key)
        elif use.node not in own:
            own.append(use.node)
    found: dict[str, list[Device]] = {}
    for key, own in sorted(nodes.items()):
        resource, device = key
        places = None if key in placeless else tuple(sorted(own))
        found.setdefault(resource, []).append(Device(device, places, key in offered))
    return {resource: tuple(devices) for resource, devices in found.items()}


def _placed(report: HostReport, pod: PodView) -> PlacedPod:
    known = (report.pods or {}).get((pod.namespace, pod.name))
    containers = [
        PlacedContainer(
            found.name,
            mask_of(cpu for cpu in found.cpus if cpu >= 0),
            _sorted_blocks(found.memory),
            _ids(found),
        )
        for found in _containers(pod)
    ]
    if known is not None:
        containers += _finished(report, known, {found.name for found in containers})
    return PlacedPod(
        pod.namespace,
        pod.name,
        known.pod.uid if known is not None else "",
        tuple(sorted(containers, key=lambda found: found.name)),
        mask_of(cpu for cpu in pod.cpus if cpu >= 0),
        _sorted_blocks(pod.memory),
    )


def _finished(report: HostReport, known: KnownPod, listed: set[str]) -> list[PlacedContainer]:
    """Init containers, which the API never lists: the state files say what is held for them."""
    uid = known.state_uid
    cpus = report.cpu_state.entries.get(uid, {}) if report.cpu_state is not None else {}
    blocks = report.memory_state.entries.get(uid, {}) if report.memory_state is not None else {}
    saved = report.saved_devices
    devices = saved.entries.get(uid, {}) if saved is not None else {}
    names = {c.name for c in known.pod.init_containers if not c.is_restartable} - listed
    return [
        PlacedContainer(
            name,
            cpus.get(name, 0),
            _sorted_blocks(blocks.get(name, ())),
            {
                resource: tuple(sorted(held.ids))
                for resource, held in sorted(devices.get(name, {}).items())
            },
        )
        for name in sorted(names & (cpus.keys() | blocks.keys() | devices.keys()))
    ]


def _ids(container: ContainerView) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for use in container.devices:
        found.setdefault(use.resource, set()).add(use.id)
    return {resource: tuple(sorted(ids)) for resource, ids in sorted(found.items())}


def _sorted_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    return tuple(sorted(blocks, key=lambda b: (b.type, b.nodes, b.size)))


def _shared(report: HostReport) -> int:
    """The shared pool: as the state file says, unless the pods have changed since it was read."""
    held = mask_of(cpu for pod in report.view.pods for cpu in _cpus(pod))
    state = report.cpu_state
    if state is not None and not state.shared & held:
        return state.shared
    every = mask_of(cpu for node in report.info.nodes for c in node.cores for cpu in c.threads)
    if report.settings.cpu_options.get(STRICT_RESERVATION) == "true":
        every &= mask_of(cpu for cpu in report.view.allocatable.cpus if cpu >= 0)
    return every & ~held
