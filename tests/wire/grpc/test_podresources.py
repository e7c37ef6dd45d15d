"""PodResources messages, byte by byte: the field numbers are those of the published API."""

from __future__ import annotations

import pytest
from tests.wire.grpc.test_device_plugin import field

from numalign.core.errors import WireError
from numalign.core.kubelet.state import Block
from numalign.core.views.podresources import Allocatable, ContainerView, DeviceUse, PodView
from numalign.wire.grpc import podresources as wire

ON_0, ON_1 = field(1, b""), field(1, field(1, 1))
MEMORY = Block((0, 1), "memory", 7)
MEMORY_BYTES = field(1, "memory") + field(2, 7) + field(3, ON_0 + ON_1)
USES = (DeviceUse("v/g", "d", 0), DeviceUse("v/g", "e", None))
APP = ContainerView("app", (2, 3), (MEMORY,), USES)
POD = PodView("p", "ns", (ContainerView("side"),), (APP,), (2, 3, 4), (MEMORY,))
DEVICES = (
    field(1, "v/g") + field(2, "d") + field(3, ON_0),
    field(1, "v/g") + field(2, "e"),
)
POD_BYTES = (
    field(1, "p")
    + field(2, "ns")
    + field(3, field(1, "side"))
    + field(
        3,
        field(1, "app")
        + field(2, DEVICES[0])
        + field(2, DEVICES[1])
        + field(3, b"\x02\x03")
        + field(4, MEMORY_BYTES),
    )
    + field(4, b"\x02\x03\x04")
    + field(5, MEMORY_BYTES)
)


def test_a_pod_is_written_as_published():
    assert wire.list_response([POD, POD]) == field(1, POD_BYTES) * 2
    assert wire.get_response(POD) == field(1, POD_BYTES)


def test_allocatable_is_written_as_published():
    found = Allocatable((2, 3), (MEMORY,), POD.apps[0].devices)
    assert wire.allocatable_response(found) == (
        field(1, DEVICES[0]) + field(1, DEVICES[1]) + field(2, b"\x02\x03") + field(3, MEMORY_BYTES)
    )


def test_the_deprecated_version_knows_apps_and_ids_only():
    devices = [field(2, field(1, "v/g") + field(2, name)) for name in "de"]
    app = field(3, field(1, "app") + devices[0] + devices[1])
    assert wire.list_response_v1alpha1([POD]) == field(1, field(1, "p") + field(2, "ns") + app)


def test_sizes_reach_up_to_64_bits():
    block = Block((0,), "memory", 2**64 - 1)
    assert b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" in wire.list_response(
        [PodView("p", "ns", memory=(block,))]
    )


def test_a_question_is_read():
    assert wire.wanted_of(field(1, "p") + field(2, "ns")) == wire.Wanted("p", "ns")
    with pytest.raises(WireError, match="1 bytes that are not a GetPodResourcesRequest"):
        wire.wanted_of(b"\xff")


def test_a_list_is_read_as_it_was_written_but_for_the_kind_of_container():
    (found,) = wire.pods_of(wire.list_response([POD]))
    assert found == PodView("p", "ns", (), (ContainerView("side"), APP), (2, 3, 4), (MEMORY,))


def test_what_there_is_to_give_is_read_as_it_was_written():
    offered = Allocatable((2, 3), (MEMORY,), USES)
    assert wire.allocatable_of(wire.allocatable_response(offered)) == offered


@pytest.mark.parametrize("read", [wire.pods_of, wire.allocatable_of])
def test_other_bytes_are_refused_in_one_line(read):
    with pytest.raises(WireError, match="bytes that are not a"):
        read(b"\xff\xff")
