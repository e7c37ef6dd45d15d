"""What is asked for of each resource and how much of it is free where, in numbers and words."""

from tests.core.hosts import GI, Driver, container, machine, pod, settings
from tests.core.snapshots import gpus

from numalign.core.explain.demands import (
    Demand,
    Room,
    amount_text,
    demands,
    free_text,
    shortage_text,
)
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.admission.node_fit import Shortage

GPU = "example.com/gpu"


def wanted(new, *running):
    driver = Driver(settings("best-effort"), machine(), {GPU: gpus(0, 1, 1, sick={2})})
    for one in running:
        driver.admit(one)
    return demands(Draft(driver.host, driver.state, new), new.containers[0])


def test_each_resource_is_counted_by_node_without_what_is_reserved_or_taken():
    found = wanted(pod("b", container("c", 2, "1Gi", gpu=1)), pod("a", container("c", 3, "4Gi")))
    assert list(found) == [GPU, "cpu", "memory"]
    assert [(room.free, room.most) for room in found["cpu"].rooms] == [(4, 7), (8, 8)]
    assert [room.free for room in found["memory"].rooms] == [11 * GI, 16 * GI]


def test_sick_devices_are_counted_apart():
    found = wanted(pod("b", container("c", 2, "1Gi", gpu=1)))[GPU]
    assert (found.free, found.most, found.unhealthy) == (2, 2, 1)


def test_the_most_on_one_node_leaves_out_what_lies_at_several():
    rooms = (Room(0b01, 2, 4), Room(0b11, 5, 5))
    assert Demand("x/y", "device_manager", 3, rooms).free_on_one == 2


def test_free_amounts_are_named_node_by_node_on_small_machines_only():
    few = Demand("cpu", "cpu_manager", 9, (Room(0b01, 6, 8), Room(0b10, 3, 8)))
    assert free_text(few) == "node 0 has 6 free, node 1 has 3"
    many = Demand("cpu", "cpu_manager", 9, tuple(Room(1 << i, i, 8) for i in range(5)))
    assert free_text(many) == "node 4 has the most free, 4, and all together have 10"
    assert free_text(Demand("cpu", "cpu_manager", 1, (Room(1, 0, 8),))) == "nothing of it is free"


def test_amounts_have_their_nouns():
    assert amount_text("cpu", 1) == "1 exclusive CPU"
    assert amount_text("memory", 2 * GI) == "2 GiB of memory"
    assert amount_text(GPU, 4) == "4 example.com/gpu"


def test_a_missing_total_says_asked_offered_used_and_missing():
    assert shortage_text(Shortage("cpu", 1500, 14500, 15000)) == (
        "the pod asks for 1.5 CPUs; the host offers 15 CPUs to pods, of which 14.5 CPUs are "
        "requested already: 1 CPUs too few"
    )
