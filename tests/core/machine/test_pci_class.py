"""What the class code of a PCI device says."""

import pytest

from numalign.core.machine.machine import DeviceKind
from numalign.core.machine.pci_class import TYPICAL_CLASS, device_kind, is_bridge


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0x010802, DeviceKind.NVME),
        (0x010700, DeviceKind.STORAGE),
        (0x020700, DeviceKind.NIC),
        (0x030200, DeviceKind.GPU),
        (0x0B4000, DeviceKind.ACCELERATOR),
        (0x0B3000, DeviceKind.OTHER),
    ],
)
def test_the_subclass_is_asked_before_the_base_class(code, kind):
    assert device_kind(code) is kind


@pytest.mark.parametrize("kind", DeviceKind)
def test_the_typical_code_of_a_kind_is_of_that_kind(kind):
    assert device_kind(TYPICAL_CLASS[kind]) is kind


def test_a_bridge_is_known_by_its_base_class():
    assert is_bridge(0x060400)
    assert not is_bridge(0x020600)
