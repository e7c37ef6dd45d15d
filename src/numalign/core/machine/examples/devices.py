"""PCI devices for the built-in machines: a short list of models that data centres know.

``pci`` makes one device of a model, ``virtual_functions`` the SR-IOV functions of a card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numalign.core.machine.machine import DeviceKind, PciDevice

_NVIDIA: Final = 0x10DE
_MELLANOX: Final = 0x15B3
_INTEL: Final = 0x8086
_VIRTIO: Final = 0x1AF4
_SAMSUNG: Final = 0x144D


@dataclass(frozen=True, slots=True)
class Model:
    kind: DeviceKind
    class_code: int
    vendor_id: int
    device_id: int


CONNECTX_6: Final = Model(DeviceKind.NIC, 0x020000, _MELLANOX, 0x101D)
CONNECTX_6_VF: Final = Model(DeviceKind.NIC, 0x020000, _MELLANOX, 0x101E)
CONNECTX_7: Final = Model(DeviceKind.NIC, 0x020700, _MELLANOX, 0x1021)
BLUEFIELD_3: Final = Model(DeviceKind.NIC, 0x020000, _MELLANOX, 0xA2DC)
E810: Final = Model(DeviceKind.NIC, 0x020000, _INTEL, 0x1592)
E810_VF: Final = Model(DeviceKind.NIC, 0x020000, _INTEL, 0x1889)
X710: Final = Model(DeviceKind.NIC, 0x020000, _INTEL, 0x1572)
A30: Final = Model(DeviceKind.GPU, 0x030200, _NVIDIA, 0x20B7)
H100: Final = Model(DeviceKind.GPU, 0x030200, _NVIDIA, 0x2331)
B200: Final = Model(DeviceKind.GPU, 0x030200, _NVIDIA, 0x2941)
QAT: Final = Model(DeviceKind.ACCELERATOR, 0x0B4000, _INTEL, 0x4940)
NVME: Final = Model(DeviceKind.NVME, 0x010802, _SAMSUNG, 0xA80A)
VIRTIO_NET: Final = Model(DeviceKind.NIC, 0x020000, _VIRTIO, 0x1041)
VIRTIO_BLOCK: Final = Model(DeviceKind.STORAGE, 0x010000, _VIRTIO, 0x1042)


def pci(
    model: Model, address: str, node: int | None, name: str = "", *, is_virtual: bool = False
) -> PciDevice:
    return PciDevice(
        address=address,
        kind=model.kind,
        class_code=model.class_code,
        vendor_id=model.vendor_id,
        device_id=model.device_id,
        node=node,
        name=name,
        virtual_function=is_virtual,
    )


def virtual_functions(model: Model, bus: str, node: int, count: int) -> tuple[PciDevice, ...]:
    """The first SR-IOV functions of the card on this bus; they begin after its two ports."""
    places = (f"{bus}:{i // 8:02x}.{i % 8}" for i in range(2, 2 + count))
    return tuple(pci(model, place, node, is_virtual=True) for place in places)
