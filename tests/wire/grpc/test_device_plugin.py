"""Device plugin messages, byte by byte: the field numbers are those of the published API."""

from __future__ import annotations

import pytest

from numalign.core.errors import WireError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation, DeviceNode, Mount
from numalign.wire.grpc import device_plugin as wire


def field(number: int, content: bytes | str | int) -> bytes:
    """One field by hand: a length and bytes, or a small number."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


def test_a_registration_is_read_and_its_options_are_not():
    data = field(1, "v1beta1") + field(2, "a.sock") + field(3, "v/g") + field(4, field(1, 1))
    assert wire.registration_of(data) == wire.Registration("v1beta1", "a.sock", "v/g")


def test_options_are_told_apart():
    assert wire.options_of(field(1, 1)) == wire.Options(has_preferred=False, prestart=True)
    assert wire.options_of(field(2, 1)) == wire.Options(has_preferred=True, prestart=False)


def test_a_device_tells_no_topology_from_an_empty_one_and_node_zero_from_none():
    plain = field(1, field(1, "a") + field(2, "Healthy"))
    empty = field(1, field(1, "b") + field(2, "Unhealthy") + field(3, b""))
    zero = field(1, field(1, "c") + field(2, "Healthy") + field(3, field(1, b"")))
    two = field(1, field(1, "d") + field(3, field(1, field(1, 1)) + field(1, field(1, 2))))
    assert wire.devices_of(plain + empty + zero + two) == wire.DeviceList(
        (
            Device("a", None),
            Device("b", (), healthy=False),
            Device("c", (0,)),
            Device("d", (1, 2), healthy=False),
        )
    )


def test_requests_have_one_container():
    ids = field(1, "a") + field(1, "b")
    assert wire.allocate_request(["a", "b"]) == field(1, ids)
    assert wire.pre_start_request(["a", "b"]) == ids
    preferred = wire.preferred_request(["a", "b"], ["b"], 2)
    assert preferred == field(1, ids + field(2, "b") + field(3, 2))


def test_a_preference_is_that_of_the_first_container():
    assert wire.preferred_of(field(1, field(1, "a") + field(1, "b")) + field(1, b"")) == ("a", "b")
    assert wire.preferred_of(b"") == ()


def test_an_allocation_is_read_and_kept_as_the_checkpoint_wants_it():
    one = (
        field(1, field(1, "A") + field(2, "1"))
        + field(2, field(1, "/in") + field(2, "/out") + field(3, 1))
        + field(3, field(1, "/dev/a") + field(2, "/dev/b") + field(3, "rw"))
        + field(4, field(1, "k") + field(2, "v"))
        + field(5, field(1, "v/g=0"))
    )
    found = wire.allocation_of(field(1, one))
    assert found == Allocation(
        {"A": "1"},
        (Mount("/in", "/out", True),),
        (DeviceNode("/dev/a", "/dev/b", "rw"),),
        {"k": "v"},
        ("v/g=0",),
        one,
    )
    assert wire.saved_allocation_of(one) == found


def test_maps_are_kept_in_one_order_whatever_order_they_came_in():
    a, b = field(1, field(1, "A") + field(2, "1")), field(1, field(1, "B") + field(2, "2"))
    assert wire.allocation_of(field(1, a + b)) == wire.allocation_of(field(1, b + a))


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", field(1, b"\xff\xfe")])
def test_bytes_that_are_no_message_are_named(data):
    with pytest.raises(WireError, match="bytes that are not a"):
        wire.registration_of(data)


@pytest.mark.parametrize("read", [wire.registration_of, wire.plugin_info_of])
def test_a_name_that_is_no_name_is_not_taken(read):
    read(b"\x1a\x80\x08" + b"x" * 1_024)
    with pytest.raises(WireError, match="found a name of 1025 characters, at most 1024 are taken"):
        read(b"\x1a\x81\x08" + b"x" * 1_025)


def test_the_plugin_watchers_messages():
    data = field(1, "DevicePlugin") + field(2, "v/g") + field(3, "/x") + field(4, "v1beta1")
    assert wire.plugin_info_of(data) == wire.PluginInfo("DevicePlugin", "v/g", "/x", ("v1beta1",))
    assert wire.registration_status() == field(1, 1)
    assert wire.registration_status("no") == field(2, "no")
