"""A host from its published placement: the managers and what they remember, ready to decide.

Hosts with the same machine and settings share their managers, which are never changed: a thousand
equal machines cost the memory of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.publish.placement import PlacedPod, PublishedPlacement
from numalign.core.errors import NumalignError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.node_fit import Totals
from numalign.core.kubelet.devices import devices as device_rules
from numalign.core.kubelet.devices.devices import (
    DeviceResource,
    DeviceState,
    Wanted,
    device_resource,
)
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.state import CpuState, MemoryState, NodeMemory
from numalign.core.pod import Pod, exclusive_cpus
from numalign.core.settings import Settings
from numalign.core.values.sets import mask_of

_FRAMES_KEPT_MAX: Final = 512
_DEVICES_KEPT_MAX: Final = 2_048


@dataclass(frozen=True, slots=True)
class Frame:
    """What does not change while a host runs: its managers, totals and devices."""

    host: Host
    totals: Totals
    empty: HostState  # with all devices reported and nothing given


@dataclass(frozen=True, slots=True)
class Rebuilt:
    frame: Frame
    state: HostState
    confirmed: frozenset[str]  # uids of the named pods that are in it


class _Same:
    """A key by content for values that hold mappings."""

    __slots__ = ("key", "value")

    def __init__(self, key: object, value: PublishedPlacement) -> None:
        self.key = key
        self.value = value

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.key == other.key


def frame_of(placement: PublishedPlacement) -> Frame:
    """The managers of a host; StartError where its kubelet would not start either."""
    devices = tuple(
        (name, tuple((d.id, d.nodes, d.healthy) for d in found))
        for name, found in sorted(placement.devices.items())
    )
    key = (placement.machine, _settings_key(placement.settings), devices, placement.pods_max)
    return _frame(_Same(key, placement))


def _settings_key(settings: Settings) -> tuple[object, ...]:
    def items(found: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((name, str(value)) for name, value in found.items()))

    return (
        settings.version,
        settings.fidelity,
        settings.topology_policy,
        settings.topology_scope,
        items(settings.topology_options),
        settings.cpu_policy,
        items(settings.cpu_options),
        settings.reserved_cpus,
        settings.memory_policy,
        settings.reserved_memory,
        items(settings.node_allocatable_reservation),
        items(settings.gates),
    )


@lru_cache(_FRAMES_KEPT_MAX)
def _frame(same: _Same) -> Frame:
    placement = same.value
    host = hosts.build(placement.settings, placement.machine)
    state = hosts.start(host)
    devices = DeviceState()
    for name, found in sorted(placement.devices.items()):
        reported = _resource(tuple((d.id, d.nodes, d.healthy) for d in found))
        devices = device_rules.with_reported(devices, name, reported)
    totals = node_fit.allocatable(host.settings, host.info, pods_max=placement.pods_max)
    empty = HostState(state.cpu, state.memory, devices)
    return Frame(host, totals, empty)


@lru_cache(_DEVICES_KEPT_MAX)
def _resource(found: tuple[tuple[str, tuple[int, ...] | None, bool], ...]) -> DeviceResource:
    return device_resource(device_rules.Device(*device) for device in found)


def frame_now(host: Host, totals: Totals, state: HostState) -> Frame:
    """The managers of a running host, with the devices that it has now."""
    empty = hosts.start(host)
    devices = DeviceState(state.devices.resources)
    return Frame(host, totals, HostState(empty.cpu, empty.memory, devices))


def rebuilt(placement: PublishedPlacement, known: Iterable[Pod]) -> Rebuilt | None:
    """The host at the moment of publishing; None if the placement contradicts itself.

    A pod that is listed but does not hold what it must was caught in the middle of its
    admission: it is left out, and is not confirmed. Pods that nobody knows count with what they
    hold.
    """
    try:
        return _rebuilt(placement, {(pod.namespace, pod.name): pod for pod in known})
    except (NumalignError, KeyError, IndexError):
        return None


def _rebuilt(placement: PublishedPlacement, known: Mapping[tuple[str, str], Pod]) -> Rebuilt:
    frame = frame_of(placement)
    settings = frame.host.settings
    pods: dict[str, Pod] = {}
    entries: dict[str, dict[str, int]] = {}
    pod_sets: dict[str, int] = {}
    taken = 0
    memory = MemoryState(frame.empty.memory.policy, frame.empty.memory.machine)
    devices = frame.empty.devices
    confirmed: set[str] = set()
    for placed in placement.pods:
        pod = known.get(placed.key)
        if pod is not None and placed.uid not in ("", pod.uid):
            pod = None  # an older pod of the same name, on its way out
        elif pod is not None:
            if not _is_complete(frame, placed, pod, settings):
                continue
            confirmed.add(pod.uid)
        uid = pod.uid if pod is not None else placed.uid or "/".join(placed.key)
        pods[uid] = pod if pod is not None else Pod(uid, placed.name, placed.namespace)
        held = {c.name: c.cpus for c in placed.containers if c.cpus}
        for cpus in (*held.values(), placed.cpus):
            taken |= cpus
        if held:
            entries[uid] = held
        if placed.cpus:
            pod_sets[uid] = placed.cpus
        memory = _with_memory(frame.host, memory, uid, placed)
        devices = _with_devices(devices, uid, placed)
    memory = _with_accounts(memory, placement)
    cpu = frame.empty.cpu
    cpu = CpuState(cpu.policy, cpu.shared & ~taken, entries, pod_sets)
    return Rebuilt(frame, HostState(cpu, memory, devices, pods), frozenset(confirmed))


def _is_complete(frame: Frame, placed: PlacedPod, pod: Pod, settings: Settings) -> bool:
    """Whether a pod has the CPUs that it must have once it is admitted."""
    if frame.host.cpu is None or pod.has_pod_level_resources:
        return True
    held = {c.name: c.cpus.bit_count() for c in placed.containers}
    return all(
        c.is_regular_init or held.get(c.name, 0) == exclusive_cpus(pod, c, settings)
        for c in pod.in_order
    )


def _with_memory(host: Host, state: MemoryState, uid: str, placed: PlacedPod) -> MemoryState:
    own = {c.name: c.memory for c in placed.containers if c.memory}
    if host.memory is None or not (own or placed.memory):
        return state
    accounts = state.machine
    charged = placed.memory or [block for blocks in own.values() for block in blocks]
    for block in charged:
        mask = mask_of(block.nodes)
        accounts = memory_static.charged(accounts, mask, {block.type: block.size}, {})
    pod_blocks = state.pod_blocks
    if placed.memory:
        pod_blocks = {**pod_blocks, uid: placed.memory}
    entries = {**state.entries, uid: own} if own else state.entries
    return MemoryState(state.policy, accounts, entries, pod_blocks)


def _with_accounts(state: MemoryState, placement: PublishedPlacement) -> MemoryState:
    """The state with the published accounts, as far as they are those of the same blocks."""
    accounts = placement.accounts
    if not accounts or _account_sums(accounts) != _account_sums(state.machine):
        return state
    return MemoryState(state.policy, accounts, state.entries, state.pod_blocks)


def _account_sums(accounts: Mapping[int, NodeMemory]) -> tuple[object, object]:
    """What blocks alone decide. Not who is grouped with whom: the kubelet loses that at times."""
    counts = {i: (n.assignments, sorted(n.tables)) for i, n in accounts.items()}
    given: dict[str, int] = {}
    for node in accounts.values():
        for kind, table in node.tables.items():
            given[kind] = given.get(kind, 0) + table.reserved
    return counts, given


def _with_devices(state: DeviceState, uid: str, placed: PlacedPod) -> DeviceState:
    for container in placed.containers:
        for name, ids in container.devices.items():
            resource = state.resources.get(name)
            there = tuple(i for i in ids if resource is not None and i in resource.index)
            if there:
                state = device_rules.with_held(
                    state, Wanted(uid, container.name, name, len(there)), there
                )
    return state


def free_by_node(frame: Frame, state: HostState) -> dict[int, dict[str, int]]:
    """What could still be given on each NUMA node, in billionths, as a host would publish it."""
    host = frame.host
    found: dict[int, dict[str, int]] = {node.id: {} for node in host.info.nodes}
    if host.cpu is not None:
        free = state.cpu.shared & ~host.cpu.reserved
        cpus_of = host.cpu_topology.nodes
        for node, amounts in found.items():
            amounts["cpu"] = (free & cpus_of.get(node, 0)).bit_count() * NANOS
    if host.memory is not None:
        for node, accounts in state.memory.machine.items():
            for kind, table in accounts.tables.items():
                found[node][kind] = table.free * NANOS
    for name, resource in state.devices.resources.items():
        left = resource.healthy & ~state.devices.busy.get(name, 0)
        for nodes, there in resource.places:
            for node, amounts in found.items():
                if nodes >> node & 1:
                    more = (there & left).bit_count() * NANOS
                    amounts[name] = amounts.get(name, 0) + more
    return found


def nodes_held(frame: Frame, state: HostState, uid: str) -> int:
    """The NUMA nodes on which a pod holds CPUs or memory, as a mask."""
    cpus = state.cpu.pod_sets.get(uid, 0)
    for own in state.cpu.entries.get(uid, {}).values():
        cpus |= own
    found = 0
    for node, there in frame.host.cpu_topology.nodes.items():
        if cpus & there:
            found |= 1 << node
    blocks = [*state.memory.pod_blocks.get(uid, ())]
    for more in state.memory.entries.get(uid, {}).values():
        blocks += more
    for block in blocks:
        found |= mask_of(block.nodes)
    return found
