"""The device manager's deciding part: which devices a container gets.

The devices of a resource are numbered by their sorted ids, so that sets of them are masks. The
original picks among equal devices at random; we take the lowest id, so that the same pod on the
same host always gets the same devices. A plugin's preferred allocation is a function from
(resource, available ids, ids that must be included, count) to ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from numalign.core.kubelet.decisions import AllocationError
from numalign.core.kubelet.topology.hints import Affinity, Hint, HintSet, Region, ResourceHints
from numalign.core.kubelet.topology.node_search import Need, fewest_nodes
from numalign.core.pod import Container
from numalign.core.values.sets import bits, ids_of, lowest, mask_of

Preferred = Callable[[str, tuple[str, ...], tuple[str, ...], int], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Device:
    """One device as its plugin reports it; ``nodes`` None: it said nothing about NUMA."""

    id: str
    nodes: tuple[int, ...] | None = None
    healthy: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class DeviceResource:
    """All devices of one resource, by number. Made anew whenever the plugin reports.

    Compared by identity, so that what follows from one report is worked out once.
    """

    ids: tuple[str, ...]  # sorted; the position is the device's number
    index: Mapping[str, int]
    healthy: int
    places: tuple[tuple[int, int], ...]  # (mask of NUMA nodes, mask of the devices there)
    placeless: int  # devices that name no NUMA node
    topology_given: int  # devices that said something about NUMA, even an empty list
    nodes_of: Mapping[str, tuple[int, ...]]
    has_preferred: bool = False  # the plugin offers preferred allocation

    @property
    def has_alignment(self) -> bool:
        """Whether any device names a NUMA node."""
        return bool(self.places)

    def mask(self, ids: Iterable[str]) -> int:
        """The mask of those ids that the plugin now reports."""
        index = self.index
        return mask_of(index[i] for i in ids if i in index)

    def named(self, mask: int) -> tuple[str, ...]:
        """The ids of a mask."""
        return tuple(self.ids[i] for i in bits(mask))


def device_resource(
    devices: Iterable[Device], *, has_preferred: bool = False, healthy: bool = True
) -> DeviceResource:
    """The resource with these devices; of two with the same id the later one counts."""
    by_id = {device.id: device for device in devices}
    ids = tuple(sorted(by_id))
    healthy_mask = placeless = given = 0
    places: dict[int, int] = {}
    for number, device_id in enumerate(ids):
        device = by_id[device_id]
        bit = 1 << number
        if device.healthy and healthy:
            healthy_mask |= bit
        if device.nodes is not None:
            given |= bit
        nodes = mask_of(n for n in device.nodes or () if n >= 0)
        if nodes:
            places[nodes] = places.get(nodes, 0) | bit
        else:
            placeless |= bit
    return DeviceResource(
        ids,
        {device_id: number for number, device_id in enumerate(ids)},
        healthy_mask,
        tuple(sorted(places.items())),
        placeless,
        given,
        {device_id: by_id[device_id].nodes or () for device_id in ids},
        has_preferred,
    )


EMPTY = device_resource(())


@dataclass(frozen=True, slots=True)
class Held:
    """The devices of one resource that a container holds, and what the plugin answered."""

    ids: tuple[str, ...]
    by_node: Mapping[int, tuple[str, ...]]  # -1: no NUMA node; several nodes: under each
    response: bytes = b""


Entries = Mapping[str, Mapping[str, Mapping[str, Held]]]  # pod, container, resource


@dataclass(frozen=True, slots=True)
class SavedDevices:
    """What the checkpoint file holds: who has which devices, and the healthy ones by resource."""

    entries: Entries
    resources: Mapping[str, DeviceResource]

    def registered(self) -> dict[str, tuple[str, ...]]:
        return {name: r.named(r.healthy) for name, r in self.resources.items()}


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What plugins report and what containers hold."""

    resources: Mapping[str, DeviceResource] = field(default_factory=dict)
    entries: Entries = field(default_factory=dict)
    in_use: Mapping[str, frozenset[str]] = field(default_factory=dict)  # resource -> ids
    busy: Mapping[str, int] = field(default_factory=dict)  # the same as masks
    # What the checkpoint file now says: it is written when plugins report and when devices
    # are given, but not when pods go.
    saved: SavedDevices | None = None

    def is_device(self, name: str) -> bool:
        """Whether the device manager deals with this resource."""
        return name in self.resources or name in self.in_use

    def held(self, uid: str, container: str, name: str) -> tuple[str, ...]:
        found = self.entries.get(uid, {}).get(container, {}).get(name)
        return found.ids if found is not None else ()


def with_saved(state: DeviceState) -> DeviceState:
    """The state after its checkpoint was written."""
    saved = SavedDevices(state.entries, state.resources)
    return DeviceState(state.resources, state.entries, state.in_use, state.busy, saved)


def with_reported(state: DeviceState, name: str, resource: DeviceResource) -> DeviceState:
    """The state after a plugin sent its whole list of devices."""
    busy = {**state.busy, name: resource.mask(state.in_use.get(name, ()))}
    resources = {**state.resources, name: resource}
    return with_saved(DeviceState(resources, state.entries, state.in_use, busy))


def restored(saved: SavedDevices | None) -> DeviceState:
    """The state right after a start: holdings from the checkpoint, plugins not yet back."""
    if saved is None:
        return DeviceState()
    used: dict[str, set[str]] = {}
    for containers in saved.entries.values():
        for resources in containers.values():
            for name, held in resources.items():
                used.setdefault(name, set()).update(held.ids)
    in_use = {name: frozenset(ids) for name, ids in used.items()}
    return DeviceState(dict.fromkeys(saved.resources, EMPTY), saved.entries, in_use, {}, saved)


def without_pods(state: DeviceState, gone: Iterable[str]) -> DeviceState:
    entries, in_use, busy = dict(state.entries), dict(state.in_use), dict(state.busy)
    for uid in gone:
        for resources in entries.pop(uid, {}).values():
            for name, held in resources.items():
                in_use[name] -= frozenset(held.ids)
                if name in busy:
                    busy[name] &= ~state.resources[name].mask(held.ids)
    # A resource that nobody uses and no plugin reports is none of ours any more.
    in_use = {name: ids for name, ids in in_use.items() if ids or name in state.resources}
    return DeviceState(state.resources, entries, in_use, busy, state.saved)


# Hints.


def hint(
    state: DeviceState,
    name: str,
    count: int,
    machine_nodes: int,
    *,
    held: frozenset[str],
    reusable: frozenset[str],
) -> ResourceHints:
    """On which NUMA nodes ``count`` devices could be given."""
    resource = state.resources.get(name, EMPTY)
    if not resource.has_alignment:
        return Affinity.ANYWHERE
    if held:
        if len(held) != count:
            return Affinity.NOWHERE
        return hint_set(resource, resource.mask(held), 0, count, machine_nodes)
    again = resource.mask(reusable)
    available = _available(state, name, resource)
    if (available | again).bit_count() < count:
        return Affinity.NOWHERE
    return hint_set(resource, available, again, count, machine_nodes)


def _available(state: DeviceState, name: str, resource: DeviceResource) -> int:
    return resource.healthy & ~state.busy.get(name, 0)


def hint_set(
    resource: DeviceResource, available: int, reusable: int, count: int, machine_nodes: int
) -> ResourceHints:
    """The sets of NUMA nodes that enough devices touch.

    Only nodes that have devices take part. Preferred are sets with as few nodes as an idle and
    healthy machine would need.
    """
    support, places = _seen_places(resource, machine_nodes)
    again = reusable & resource.topology_given
    free = tuple([(nodes, (devices & available).bit_count()) for nodes, devices in places])
    needs = [Need(count - again.bit_count(), free)]
    if again:
        needs += [Need(1, ((nodes, 1),)) for nodes in _touched(resource, again)]
    region = Region(support, 0, tuple(needs))
    if not region.contains(support):
        return Affinity.NOWHERE
    return HintSet(ids_of(support), _fewest(resource, machine_nodes, count), region)


@lru_cache(maxsize=256)
def _seen_places(
    resource: DeviceResource, machine_nodes: int
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The nodes that have devices, and the devices by node set, without unknown nodes."""
    places: dict[int, int] = {}
    support = 0
    for nodes, devices in resource.places:
        seen = nodes & machine_nodes
        if seen:
            support |= seen
            places[seen] = places.get(seen, 0) | devices
    return support or machine_nodes, tuple(places.items())


@lru_cache(maxsize=1024)
def _fewest(resource: DeviceResource, machine_nodes: int, count: int) -> int:
    support, places = _seen_places(resource, machine_nodes)
    everything = tuple((nodes, devices.bit_count()) for nodes, devices in places)
    return fewest_nodes([Need(count, everything)], support, support.bit_count())


def _touched(resource: DeviceResource, devices: int) -> list[int]:
    """The node sets of these devices, each once; 0 for one that names an empty list."""
    found = [nodes for nodes, there in resource.places if there & devices]
    return [*found, 0] if devices & resource.placeless else found


# Allocation.


@dataclass(frozen=True, slots=True)
class Wanted:
    uid: str
    container: str
    resource: str
    count: int


def chosen(
    state: DeviceState, wanted: Wanted, hint_: Hint, reusable: frozenset[str], preferred: Preferred
) -> tuple[str, ...]:
    """The ids to give, () where nothing is missing; AllocationError with the kubelet's words."""
    name = wanted.resource
    resource = _checked(state, wanted)
    held = state.held(wanted.uid, wanted.container, name)
    missing = wanted.count - len(held)
    if missing == 0:
        return ()
    taken = lowest(resource.mask(reusable), missing) if reusable else 0
    missing -= taken.bit_count()
    available = _available(state, name, resource) & ~taken
    if available.bit_count() < missing:
        raise AllocationError(
            f"requested number of devices unavailable for {name}. "
            f"Requested: {missing}, Available: {available.bit_count()}",
            (name,),
        )
    if missing:
        taken |= _split_and_take(resource, wanted, hint_, (available, taken, missing), preferred)
    return resource.named(taken)


def check_unchanged(state: DeviceState, wanted: Wanted) -> None:
    """Refuses a container that now asks for another number of devices than it holds."""
    held = state.held(wanted.uid, wanted.container, wanted.resource)
    if held and len(held) != wanted.count:
        raise AllocationError(
            f'pod "{wanted.uid}" container "{wanted.container}" changed request for resource '
            f'"{wanted.resource}" from {len(held)} to {wanted.count}',
            (wanted.resource,),
        )


def _checked(state: DeviceState, wanted: Wanted) -> DeviceResource:
    name = wanted.resource
    held = state.held(wanted.uid, wanted.container, name)
    if name not in state.resources:
        raise AllocationError(f"cannot allocate unregistered device {name}", (name,))
    resource = state.resources[name]
    if not resource.healthy:
        raise AllocationError(
            f"no healthy devices present; cannot allocate unhealthy devices {name}", (name,)
        )
    healthy = resource.mask(held) & resource.healthy
    if healthy.bit_count() != len(held):
        raise AllocationError(
            "previously allocated devices are no longer healthy; "
            f"cannot allocate unhealthy devices {name}",
            (name,),
        )
    return resource


def split(resource: DeviceResource, available: int, nodes: int | None) -> tuple[int, int, int]:
    """The available devices that are on these nodes, on others, and on none."""
    if nodes is None or not resource.has_alignment:
        return 0, 0, available
    aligned = 0
    for there, devices in resource.places:
        if there & nodes:
            aligned |= devices
    aligned &= available
    return aligned, available & ~aligned & ~resource.placeless, available & resource.placeless


def _split_and_take(
    resource: DeviceResource,
    wanted: Wanted,
    hint_: Hint,
    need: tuple[int, int, int],
    preferred: Preferred,
) -> int:
    available, already, missing = need
    aligned, unaligned, placeless = split(resource, available, hint_.nodes)

    def asked(among: int) -> int:
        if not resource.has_preferred:
            return 0
        must = resource.named(already | got)
        offered = resource.named(among | already | got)
        answer = preferred(wanted.resource, offered, must, wanted.count)
        return resource.mask(answer)

    got = 0
    if missing < aligned.bit_count():
        order = [asked(aligned) & aligned, aligned]
    else:
        got = aligned
        if got.bit_count() == missing:
            return got
        order = [asked(available) & available, unaligned, placeless]
    for group in order:
        group &= ~got  # noqa: PLW2901 what is left of it
        rest = missing - got.bit_count()
        got |= group if group.bit_count() <= rest else lowest(group, rest)
    if got.bit_count() < missing:
        raise AllocationError(
            "unexpectedly allocated less resources than required. "
            f"Requested: {wanted.count}, Got: {(already | got).bit_count()}",
            (wanted.resource,),
        )
    return got


def with_held(
    state: DeviceState, wanted: Wanted, ids: tuple[str, ...], response: bytes = b""
) -> DeviceState:
    resource = state.resources[wanted.resource]
    by_node: dict[int, list[str]] = {}
    for device_id in ids:
        for node in resource.nodes_of[device_id] or (-1,):
            by_node.setdefault(node, []).append(device_id)
    held = Held(ids, {node: tuple(found) for node, found in by_node.items()}, response)
    pod = state.entries.get(wanted.uid, {})
    container = {**pod.get(wanted.container, {}), wanted.resource: held}
    entries = {**state.entries, wanted.uid: {**pod, wanted.container: container}}
    name = wanted.resource
    in_use = {**state.in_use, name: state.in_use.get(name, frozenset()) | frozenset(ids)}
    busy = {**state.busy, name: state.busy.get(name, 0) | resource.mask(ids)}
    return DeviceState(state.resources, entries, in_use, busy, state.saved)


def with_response(
    state: DeviceState, uid: str, container: str, name: str, response: bytes
) -> DeviceState:
    """The state after the plugin answered; the checkpoint then holds its answer."""
    pod = state.entries.get(uid, {})
    held = pod.get(container, {}).get(name)
    if held is None:
        return state
    own = {**pod[container], name: Held(held.ids, held.by_node, response)}
    entries = {**state.entries, uid: {**pod, container: own}}
    return with_saved(DeviceState(state.resources, entries, state.in_use, state.busy, state.saved))


Reusable = Mapping[str, frozenset[str]]  # resource -> ids


def reusable_after(
    reusable: Reusable, container: Container, held: Mapping[str, tuple[str, ...]]
) -> dict[str, frozenset[str]]:
    """What later containers of the pod may use again, once this one has its devices."""
    after = dict(reusable)
    for name, ids in held.items():
        before = after.get(name, frozenset())
        if container.is_regular_init:
            after[name] = before | frozenset(ids)
        else:
            after[name] = before - frozenset(ids)
    return after
