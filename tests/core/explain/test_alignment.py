"""Where the parts of a placement lie, and whether they lie together."""

import pytest
from tests.core.hosts import GI, machine, settings

from numalign.core.explain.alignment import placed
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.decisions import Placement
from numalign.core.kubelet.devices.devices import Device, DeviceState, device_resource
from numalign.core.kubelet.host import NO_HINT
from numalign.core.kubelet.state import Block
from numalign.core.values.sets import parse_list

HOST = hosts.build(settings("best-effort"), machine(nodes=2, cores=2, threads=2))
NIC = "a.com/nic"
DEVICES = DeviceState(
    {NIC: device_resource([Device("n0", (0,)), Device("n1", (1,)), Device("both", (0, 1))])}
)
POOL = parse_list("0-7")


def on(cpus=None, memory=(), devices=()):
    blocks = (Block(tuple(memory), "memory", GI),) if memory else ()
    mask = None if cpus is None else parse_list(cpus)
    held = {NIC: tuple(devices)} if devices else {}
    return placed(HOST, DEVICES, Placement("c", NO_HINT, mask, blocks, held), POOL)


def test_everything_on_one_node_is_aligned_and_local():
    found = on("0-1", [0], ["n0"])
    assert (found.cpu_nodes, found.memory_nodes, found.device_nodes) == (1, 1, {NIC: ((0,),)})
    assert (found.aligned, found.distance) == (True, 10.0)


@pytest.mark.parametrize(
    ("cpus", "memory", "devices", "aligned"),
    [
        ("0,4", [], [], False),
        ("0", [1], [], False),
        ("0", [0, 1], [], False),
        ("0", [0], ["n1"], False),
        ("0", [0], ["both"], True),
        ("4", [1], ["both"], True),
        (None, [1], ["n1"], True),
        (None, [], ["n0", "n1"], False),
    ],
)
def test_two_nodes_are_not_aligned_unless_a_device_is_near_both(cpus, memory, devices, aligned):
    assert on(cpus, memory, devices).aligned is aligned


def test_a_distance_is_the_mean_of_the_ways_to_memory_and_to_devices():
    assert on("0", [1]).distance == 32.0
    assert on("0", [1], ["n0"]).distance == 21.0
    assert on("0").distance is None


def test_one_with_nothing_of_its_own_is_neither_and_sits_in_the_pool():
    found = on()
    assert (found.aligned, found.distance, found.memory_nodes) == (None, None, None)
    assert (found.cpus, found.cpu_nodes) == (POOL, 3)


def test_a_device_that_no_plugin_reports_any_more_is_nowhere():
    found = placed(HOST, DeviceState(), Placement("c", NO_HINT, 1, (), {NIC: ("n0",)}), POOL)
    assert (found.device_nodes, found.aligned) == ({NIC: ((),)}, True)
