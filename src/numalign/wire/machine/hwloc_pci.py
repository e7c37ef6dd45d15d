"""PCI devices in an hwloc XML export.

A device hangs on the object that is nearest to it. Where that is exactly one NUMA node, or a
part of one, the device is on this node; hwloc does not keep the kernel's own word for it.
"""

from __future__ import annotations

import re
from typing import Final

from numalign.core.machine.machine import NumaNode, PciDevice
from numalign.core.machine.pci_class import device_kind, is_bridge
from numalign.wire.machine.hwloc_objects import HwlocObject, of_kind

# class [vendor:device] [subsystem] revision, and since version 3 the programming interface
_TYPE: Final = re.compile(
    r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]"
    r"(?: \[[0-9a-f:]*\] [0-9a-f]{2}(?: ([0-9a-f]{2}))?)?",
    re.ASCII,
)
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_OPENFABRICS: Final = ("3", "32")  # hwloc's type of an InfiniBand port, before and since version 3


def devices(found: list[HwlocObject], nodes: tuple[NumaNode, ...]) -> tuple[PciDevice, ...]:
    """Every PCI device that is not a bridge, by address."""
    names = _names(found)
    made = {}
    for thing in of_kind(found, "PCIDev"):
        device = _device(thing, nodes, names.get(id(thing), ""))
        if device is not None:
            made[device.address] = device
    return tuple(made[address] for address in sorted(made))


def _device(thing: HwlocObject, nodes: tuple[NumaNode, ...], name: str) -> PciDevice | None:
    address = thing.element.get("pci_busid", "")
    match = _TYPE.match(thing.element.get("pci_type", ""))
    if match is None or not _ADDRESS.fullmatch(address):
        return None
    class_code = int(match[1], 16) << 8 | int(match[4] or "0", 16)
    if is_bridge(class_code):
        return None
    return PciDevice(
        address=address,
        kind=device_kind(class_code),
        class_code=class_code,
        vendor_id=int(match[2], 16),
        device_id=int(match[3], 16),
        node=_node(thing.local_cpus(), nodes),
        name=name,
    )


def _node(cpus: int, nodes: tuple[NumaNode, ...]) -> int | None:
    if not cpus:
        return None
    return next((node.id for node in nodes if not cpus & ~node.cpus.mask), None)


def _names(found: list[HwlocObject]) -> dict[int, str]:
    """The first name of each PCI device, that of a network interface before that of its port."""
    names: dict[int, str] = {}
    for port in (False, True):
        for device in of_kind(found, "OSDev"):
            name = device.element.get("name", "")
            is_port = device.element.get("osdev_type") in _OPENFABRICS
            if device.parent is not None and name and is_port is port:
                names.setdefault(id(device.parent), name)
    return names
