"""Between what the device manager remembers and its checkpoint file."""

from __future__ import annotations

from numalign.core.kubelet.devices.devices import Device, Held, SavedDevices, device_resource
from numalign.wire.checkpoints.devices import DeviceCheckpoint, PodDevicesEntry


def checkpoint_of(saved: SavedDevices) -> DeviceCheckpoint:
    """The content of the file, entries in the order of pods and containers."""
    entries = tuple(
        PodDevicesEntry(uid, container, resource, held.by_node, held.response)
        for uid, containers in saved.entries.items()
        for container, resources in containers.items()
        for resource, held in resources.items()
    )
    # The kubelet appends to a list that starts as nil: without entries it writes null.
    return DeviceCheckpoint(entries or None, saved.registered())


def saved_of(checkpoint: DeviceCheckpoint) -> SavedDevices:
    """What the device manager takes up from a file when it starts."""
    entries: dict[str, dict[str, dict[str, Held]]] = {}
    for entry in checkpoint.entries or ():
        by_node = {node: tuple(ids or ()) for node, ids in (entry.devices or {}).items()}
        ids = tuple(sorted({device for found in by_node.values() for device in found}))
        held = Held(ids, by_node, entry.response or b"")
        entries.setdefault(entry.pod, {}).setdefault(entry.container, {})[entry.resource] = held
    resources = {
        name: device_resource(Device(device) for device in ids or ())
        for name, ids in (checkpoint.registered or {}).items()
    }
    return SavedDevices(entries, resources)
