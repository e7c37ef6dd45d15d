"""PCI devices, from ``sys/bus/pci/devices`` or, where a capture lacks it, ``sys/devices/pci*``.

Bridges are left out: they carry devices and are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from numalign.adapters.sources.sysfs.text import SysfsText
from numalign.core.machine.machine import DeviceKind, NumaNode, PciDevice
from numalign.core.machine.pci_class import device_kind, is_bridge

BUS_ROOT: Final = "sys/bus/pci/devices"
DEVICES_ROOT: Final = "sys/devices"
DEPTH_MAX: Final = 16  # bridges behind bridges
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
# Where the kernel puts the names that people know a device by.
_NAME_DIRECTORIES: Final = {
    DeviceKind.NIC: ("net", "infiniband"),
    DeviceKind.GPU: ("drm",),
    DeviceKind.NVME: ("nvme",),
    DeviceKind.STORAGE: ("block",),
    DeviceKind.ACCELERATOR: ("drm", "accel"),
    DeviceKind.OTHER: ("net", "block", "infiniband"),
}
_NAMES_PASSED_OVER: Final = re.compile(r"renderD.*|controlD.*|card[0-9]+-.*")


def read_devices(text: SysfsText, nodes: tuple[NumaNode, ...]) -> tuple[PciDevice, ...]:
    """Every PCI function that is not a bridge, by address."""
    found = {}
    for address, path in _functions(text):
        device = _device(text, address, path, nodes)
        if device is not None:
            found[address] = device
    return tuple(found[address] for address in sorted(found))


def _functions(text: SysfsText) -> Iterator[tuple[str, str]]:
    names = [name for name in text.tree.names(BUS_ROOT) if _ADDRESS.fullmatch(name)]
    if names:
        yield from ((name, f"{BUS_ROOT}/{name}") for name in names)
        return
    for name in text.tree.names(DEVICES_ROOT):
        if name.startswith("pci"):
            yield from _below(text, f"{DEVICES_ROOT}/{name}", DEPTH_MAX)


def _below(text: SysfsText, path: str, depth: int) -> Iterator[tuple[str, str]]:
    for name in text.tree.names(path) if depth else ():
        if _ADDRESS.fullmatch(name):
            yield name, f"{path}/{name}"
            yield from _below(text, f"{path}/{name}", depth - 1)


def _device(
    text: SysfsText, address: str, path: str, nodes: tuple[NumaNode, ...]
) -> PciDevice | None:
    class_code = text.code(f"{path}/class")
    if class_code is None:
        text.notes.add(f"the PCI device {address} has no class; left out")
        return None
    if is_bridge(class_code):
        return None
    kind = device_kind(class_code)
    return PciDevice(
        address=address,
        kind=kind,
        class_code=class_code & 0xFFFFFF,
        vendor_id=(text.code(f"{path}/vendor") or 0) & 0xFFFF,
        device_id=(text.code(f"{path}/device") or 0) & 0xFFFF,
        node=_node(text, address, path, nodes),
        name=_name(text, path, kind),
        virtual_function=text.tree.exists(f"{path}/physfn"),
    )


def _node(text: SysfsText, address: str, path: str, nodes: tuple[NumaNode, ...]) -> int | None:
    node = text.number(f"{path}/numa_node")
    if node is None:
        return _node_of_cpus(text.mask(f"{path}/local_cpus", f"{path}/local_cpulist"), nodes)
    if node < 0 or any(known.id == node for known in nodes):
        return None if node < 0 else node
    text.notes.add(f"the PCI device {address} is on NUMA node {node}, which is not there")
    return None


def _node_of_cpus(cpus: int | None, nodes: tuple[NumaNode, ...]) -> int | None:
    """The one node that all these CPUs are on: old kernels name only the CPUs near a device."""
    return next((node.id for node in nodes if cpus and not cpus & ~node.cpus.mask), None)


def _name(text: SysfsText, path: str, kind: DeviceKind) -> str:
    wanted = _NAME_DIRECTORIES[kind]
    entries = text.tree.names(path)
    # A virtio device hangs its names one step lower, under virtio0.
    bases = [path, *(f"{path}/{entry}" for entry in entries if entry.startswith("virtio"))]
    for base in bases:
        for directory in wanted:
            for name in text.tree.names(f"{base}/{directory}"):
                if name.isprintable() and not _NAMES_PASSED_OVER.fullmatch(name):
                    return name
    return ""
