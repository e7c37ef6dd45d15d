"""The exact placement as an annotation: nothing is lost, and nobody needs to be trusted."""

import base64
import hashlib
import json
import zlib

import pytest
from tests.core import hosts as examples

from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.errors import WireError
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.state import Block, MemoryTable, NodeMemory
from numalign.wire.kubernetes import placement as wire

GI = 1 << 30
HELD = PlacedContainer("app", 0b110 << 70, (Block((0, 1), "memory", GI),), {"v.com/nic": ("n0",)})
POD = PlacedPod("ns", "p", "uid-1", (HELD, PlacedContainer("side")), 0b1111, (Block((0,), "m", 1),))


def placement(*pods, devices=None):
    return PublishedPlacement(
        examples.machine(nodes=4, hugepages=8),
        examples.settings("restricted", scope="pod", cpu_options=["full-pcpus-only"]),
        devices or {"v.com/nic": (Device("n0", (0, 1)), Device("n1", None, healthy=False))},
        pods,
        0xFF << 64,
        250,
        {1: NodeMemory(2, (0, 1), {"memory": MemoryTable(9, 1, 8, 3, 5)})},
    )


def packed(content):
    return f"1:{base64.b64encode(zlib.compress(content)).decode()}"


def unpacked(text):
    return json.loads(zlib.decompress(base64.b64decode(text.partition(":")[2])))


def test_a_placement_comes_back_whole():
    before = placement(POD, PlacedPod("a", "idle"))
    after = wire.decode(wire.encode(before))
    assert after.pods == (PlacedPod("a", "idle"), POD)
    assert (after.machine, after.settings) == (before.machine, before.settings)
    assert (after.devices, after.shared_cpus, after.pods_max) == (before.devices, 0xFF << 64, 250)
    assert after.accounts == before.accounts


def test_the_order_of_pods_and_devices_does_not_change_the_text():
    other = PlacedPod("ns", "q")
    nics = (Device("b", (1,)), Device("a", (0,)))
    one = placement(POD, other, devices={"x/y": nics, "v/w": ()})
    two = placement(other, POD, devices={"v/w": (), "x/y": nics[::-1]})
    assert wire.encode(one) == wire.encode(two)


def test_a_full_large_host_takes_a_few_kilobytes():
    machine = examples.machine(nodes=8, cores=32)
    pods = [
        PlacedPod("ns", f"web-{i}", f"0b6c1e2a-5f39-4c1e-9d2b-{i:012d}", (HELD,))
        for i in range(110)
    ]
    full = PublishedPlacement(machine, examples.settings(), {}, tuple(pods))
    assert len(wire.encode(full)) < 8_000


def test_a_placement_that_no_annotation_can_hold_is_left_out():
    names = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(8_000)]
    pods = tuple(PlacedPod("ns", name) for name in names)
    assert wire.encode(placement(*pods)) is None


def spoilt(place, value):
    content = unpacked(wire.encode(placement(POD)))
    target = content
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    return packed(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "version ''"),
        ("2:abc", "version '2', expected '1'"),
        ("1:!!!", "cannot be read"),
        ("1:" + base64.b64encode(b"no zlib").decode(), "cannot be read"),
        (packed(b"[]"), "cannot be read"),
        (packed(b"{" * 1000), "cannot be read"),
        (packed(bytes(5 << 20)), "does not end within"),
        ("1:" + "A" * (2 << 20), "of 2097154 characters, expected at most"),
        (spoilt([0, 0, 0, 0], -1), "expected 0 to"),
        (spoilt([0, 0, 1, 0], 0), "each once"),
        (spoilt([0, 0, 0, 1], -5), "expected 0 to"),
        (spoilt([0, 0, 1, 4, 0, 0], [0, 1]), "found a CPU twice"),
        (spoilt([3, 0, 3, 0, 1], "0-99999999"), "cannot be read"),
        (spoilt([3, 0, 3, 0, 2, 0, 2], -GI), "expected 0 to"),
        (spoilt([1, 10], {"cpu": "-1"}), "expected 0 or more"),
        (spoilt([6, 0, 3, "memory"], [9, 1, 8, -3, 5]), "expected 0 to"),
        (spoilt([1, 0], "9.99"), "Invalid enum value"),
    ],
)
def test_what_cannot_be_trusted_is_refused_in_one_line(text, words):
    with pytest.raises(WireError, match=words) as caught:
        wire.decode(text)
    assert "\n" not in str(caught.value)
