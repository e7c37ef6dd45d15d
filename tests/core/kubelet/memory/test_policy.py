"""Reserved memory, and the accounts that a machine begins with."""

from dataclasses import replace

import pytest
from tests.core.hosts import GI, MI, machine, settings

from numalign.core.errors import StartError
from numalign.core.kubelet.memory.policy import memory_policy
from numalign.core.settings import ReservedMemory
from numalign.core.values.quantity import Quantity


def made(*reserved, info=None, safe=False, total=None):
    items = tuple(ReservedMemory(node, kind, Quantity.of(size)) for node, kind, size in reserved)
    totals = {}
    for _, kind, size in reserved:
        totals[kind] = totals.get(kind, 0) + size
    amounts = {kind: Quantity.of(size) for kind, size in (total or totals).items()}
    configured = replace(
        settings(safe=safe),
        reserved_memory=items,
        node_allocatable_reservation={"cpu": Quantity.of(1), **amounts},
    )
    return memory_policy(configured, info or machine())


def test_huge_pages_and_reservations_are_taken_off_the_memory_of_their_node():
    found = made((0, "memory", GI), info=machine(hugepages=512))
    assert found.empty[0].tables["memory"].free == 14 * GI
    assert found.empty[1].tables["memory"].free == 15 * GI
    assert found.empty[0].tables["hugepages-2Mi"].free == GI


def test_what_is_reserved_on_nodes_must_add_up_to_what_is_reserved_in_total():
    with pytest.raises(StartError, match="is not equal to the value"):
        made((0, "memory", GI), total={"memory": 2 * GI})


def test_some_memory_must_be_reserved():
    with pytest.raises(StartError, match="you should specify the system reserved memory"):
        made((0, "hugepages-2Mi", 2 * MI), info=machine(hugepages=4))


def test_a_node_that_does_not_exist_is_named():
    with pytest.raises(StartError, match="NUMA node 7 that does not exist"):
        made((7, "memory", GI))


def test_only_kinds_of_memory_that_are_reserved_beyond_what_there_is_can_wrap_around():
    small = (1, "hugepages-2Mi", 2 * MI)
    assert made((0, "memory", GI), small, info=machine(hugepages=4)).wrapping == frozenset()
    over = (1, "hugepages-2Mi", 10 * MI)
    found = made((0, "memory", GI), over, info=machine(hugepages=4))
    assert found.wrapping == {"hugepages-2Mi"}
    safe = made((0, "memory", GI), over, info=machine(hugepages=4), safe=True)
    assert safe.wrapping == frozenset()
    assert safe.empty[1].tables["hugepages-2Mi"].allocatable == 0
