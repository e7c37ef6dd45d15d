"""Which devices a host has and where, from the best that is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.apps.snapshots.inputs import SnapshotInputs
from numalign.core.kubelet.devices.devices import Device, SavedDevices

Nodes = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Reported:
    """The devices by resource, and what is uncertain about them."""

    devices: Mapping[str, tuple[Device, ...]]
    notes: tuple[str, ...] = ()


def reported(inputs: SnapshotInputs, saved: SavedDevices | None) -> Reported:
    """The devices that plugins report: told outright, or put together from checkpoint and API.

    The checkpoint lists the healthy devices of each resource but knows the NUMA nodes of given
    ones only; GetAllocatableResources knows them all. A device whose id is a PCI address is looked
    up on the machine.
    """
    if inputs.devices is not None:
        return Reported(inputs.devices)
    told = _told(inputs)
    if saved is None:
        found = {
            name: tuple(Device(device, nodes) for device, nodes in sorted(own.items()))
            for name, own in (told or {}).items()
        }
        return Reported(found)
    held = _held(saved)
    by_address = {pci.address: pci.node for pci in inputs.machine.devices}
    found = {}
    notes: list[str] = []
    registered = saved.registered()
    for name in sorted(registered.keys() | (told or {}).keys()):
        # The kubelet writes the file beside its work: it may lag behind and lack devices.
        known = registered.get(name, ())
        ids = (*known, *sorted((told or {}).get(name, {}).keys() - set(known)))
        own = held.get(name, {}) if told is None else {**held.get(name, {}), **told.get(name, {})}
        unknown = [device for device in ids if device not in own]
        # The API tells of every healthy device but those with an empty list of NUMA nodes.
        fallback = {
            device: _nodes(by_address[device]) if device in by_address else () if told else None
            for device in unknown
        }
        guessed = [device for device in unknown if told is None and device not in by_address]
        if guessed:
            # Half a topology would refuse what fits: none at all lets the devices be anywhere.
            notes.append(
                f"the NUMA nodes of {len(guessed)} free devices of {name} are not known, so the "
                "alignment with these devices is not checked. A capture with the PodResources "
                "socket knows them."
            )
            found[name] = tuple(Device(device) for device in ids)
            continue
        found[name] = tuple(
            Device(device, own[device] if device in own else fallback[device]) for device in ids
        )
    return Reported(found, tuple(notes))


def _nodes(node: int | None) -> Nodes:
    return None if node is None else (node,)


def _told(inputs: SnapshotInputs) -> dict[str, dict[str, Nodes]] | None:
    if inputs.pod_resources is None:
        return None
    found: dict[str, dict[str, Nodes]] = {}
    for use in inputs.pod_resources.allocatable.devices:
        own = found.setdefault(use.resource, {})
        before = own.get(use.id) or ()
        own[use.id] = None if use.node is None else (*before, use.node)
    return found


def _held(saved: SavedDevices) -> dict[str, dict[str, Nodes]]:
    found: dict[str, dict[str, Nodes]] = {}
    for containers in saved.entries.values():
        for resources in containers.values():
            for name, held in resources.items():
                for node, ids in held.by_node.items():
                    for device in ids:
                        own = found.setdefault(name, {})
                        before = own.get(device) or ()
                        own[device] = None if node == -1 else (*before, node)
    return found
