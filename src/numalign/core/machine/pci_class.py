"""What a PCI class code says of a device.

The code has 24 bits: base class, subclass, programming interface (PCI Code and ID Assignment
Specification). hwloc and lspci show only the upper 16 bits of it.
"""

from __future__ import annotations

from typing import Final

from numalign.core.machine.machine import DeviceKind

BRIDGE_BASE: Final = 0x06
_BY_SUBCLASS: Final = {
    0x0108: DeviceKind.NVME,
    0x0200: DeviceKind.NIC,  # Ethernet
    0x0207: DeviceKind.NIC,  # InfiniBand
    0x0280: DeviceKind.NIC,  # other networks
    0x0B40: DeviceKind.ACCELERATOR,  # co-processor: QuickAssist, vector engines
}
_BY_BASE: Final = {
    0x01: DeviceKind.STORAGE,
    0x03: DeviceKind.GPU,
    0x12: DeviceKind.ACCELERATOR,
}
# What to write for a device that is known only by its kind.
TYPICAL_CLASS: Final = {
    DeviceKind.NIC: 0x020000,
    DeviceKind.GPU: 0x030200,
    DeviceKind.NVME: 0x010802,
    DeviceKind.STORAGE: 0x010700,
    DeviceKind.ACCELERATOR: 0x120000,
    DeviceKind.OTHER: 0xFF0000,
}


def is_bridge(class_code: int) -> bool:
    """Whether the code is that of a bridge, which carries devices and is none."""
    return class_code >> 16 == BRIDGE_BASE


def device_kind(class_code: int) -> DeviceKind:
    """The kind of device that a 24-bit class code stands for."""
    by_subclass = _BY_SUBCLASS.get(class_code >> 8)
    return by_subclass or _BY_BASE.get(class_code >> 16, DeviceKind.OTHER)
