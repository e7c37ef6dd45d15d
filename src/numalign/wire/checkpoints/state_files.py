"""The three state files of one host: what its kubelet would write, and what it takes up of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from numalign.core.errors import CorruptCheckpointError
from numalign.core.kubelet.devices.devices import Device, Held, SavedDevices, device_resource
from numalign.core.kubelet.host import HostState
from numalign.core.kubelet.state import CpuState, MemoryState
from numalign.core.settings import Settings
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.checkpoints.devices import DeviceCheckpoint, PodDevicesEntry

_T = TypeVar("_T")

CPU: Final = cpu_checkpoint.FILE_NAME
MEMORY: Final = memory_checkpoint.FILE_NAME
DEVICES: Final = device_checkpoint.FILE_NAME
# Where each is below the kubelet's directory, and below that of our agent.
PLACES: Final = {CPU: CPU, MEMORY: MEMORY, DEVICES: device_checkpoint.PLACE}
FILE_NAMES: Final = tuple(PLACES)


def encoded(
    state: HostState, settings: Settings, written: HostState | None = None
) -> dict[str, bytes]:
    """The bytes of each file; the device manager's is only there once it was written.

    With the state that was ``written`` last, only the files of what is another value since.
    """
    files: dict[str, bytes] = {}
    if written is None or state.cpu is not written.cpu:
        files[CPU] = cpu_checkpoint.encode(state.cpu, settings)
    if written is None or state.memory is not written.memory:
        files[MEMORY] = memory_checkpoint.encode(state.memory, settings)
    before = None if written is None else written.devices.saved
    if state.devices.saved is not None and state.devices.saved is not before:
        content = checkpoint_of(state.devices.saved)
        files[DEVICES] = device_checkpoint.encode(content)
    return files


@dataclass(frozen=True, slots=True)
class StateFiles:
    """What the files of a host say; None for one that is missing or cannot be taken up."""

    cpu: CpuState | None = None
    memory: MemoryState | None = None
    devices: SavedDevices | None = None
    faults: Mapping[str, CorruptCheckpointError] = field(default_factory=dict)  # by name

    def checked(self) -> StateFiles:
        """The same; CorruptCheckpointError, in the kubelet's words, if a file is at fault."""
        for fault in self.faults.values():
            raise fault
        return self


def decoded(files: Mapping[str, bytes], settings: Settings, *, root: str = "") -> StateFiles:
    """The content of the files by name, which lie below ``root``, as a kubelet takes them up."""
    faults: dict[str, CorruptCheckpointError] = {}

    def taken(name: str, decode: Callable[[bytes, str], _T]) -> _T | None:
        data = files.get(name)
        try:
            return None if data is None else decode(data, f"{root}{PLACES[name]}")
        except CorruptCheckpointError as error:
            faults[name] = error
            return None

    return StateFiles(
        taken(CPU, lambda data, path: cpu_checkpoint.decode(data, settings, path=path)),
        taken(MEMORY, lambda data, path: memory_checkpoint.decode(data, settings, path=path)),
        taken(DEVICES, lambda data, _: saved_devices(device_checkpoint.decode(data))),
        faults,
    )


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


def saved_devices(checkpoint: DeviceCheckpoint) -> SavedDevices:
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
