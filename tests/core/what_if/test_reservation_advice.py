"""Which CPUs and which memory to keep for the system."""

from dataclasses import replace

from tests.core.hosts import GI, machine, settings

from numalign.core.kubelet import host
from numalign.core.settings import ReservedMemory
from numalign.core.values.quantity import Quantity
from numalign.core.what_if.reservation_advice import applied, reservations


def test_a_core_that_is_partly_reserved_is_reserved_as_a_whole():
    found = reservations(settings(reserved="0,4"), machine())
    assert found.cpus == "0-1,4-5"
    assert "grow by 1,5" in found.reasons[0]


def test_without_a_list_the_first_whole_cores_are_named_rounded_up():
    amounts = {"cpu": Quantity.parse("2100m"), "memory": Quantity.of(GI)}
    loose = replace(settings(), reserved_cpus="", node_allocatable_reservation=amounts)
    assert reservations(loose, machine()).cpus == "0-3"


def test_memory_that_adds_up_is_kept():
    assert reservations(settings(), machine()).memory == settings().reserved_memory


def test_memory_that_does_not_add_up_is_put_beside_the_reserved_cpus():
    wrong = replace(settings(reserved="8-9"), reserved_memory=())
    found = reservations(wrong, machine())
    assert found.memory == (ReservedMemory(1, "memory", Quantity.of(GI, binary=True)),)
    host.build(applied(wrong, found), machine())  # the kubelet would start with it


def test_no_node_gives_more_than_half_of_its_memory_while_others_can():
    amounts = {"cpu": Quantity.of(1), "memory": Quantity.of(10 * GI)}
    wrong = replace(settings(), reserved_memory=(), node_allocatable_reservation=amounts)
    found = reservations(wrong, machine()).memory
    assert [(item.node, item.amount.value()) for item in found] == [(0, 8 * GI), (1, 2 * GI)]
