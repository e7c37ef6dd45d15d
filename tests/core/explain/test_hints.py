"""Hints for people: which resources conflict, and the table of node sets."""

from tests.core.hosts import machine, settings

from numalign.core.explain.hints import by_resource, conflicts, preferred_singles, table
from numalign.core.kubelet.decisions import MergeStep
from numalign.core.kubelet.topology.hints import Affinity, Hint, HintSet
from numalign.core.kubelet.topology.policy import topology_policy

SINGLE = topology_policy(settings("single-numa-node"), machine())


def on(*masks, count=1):
    return HintSet((0, 1), count, None, frozenset(masks))


def step(**answers):
    named = {"cpu_manager": answers, "memory_manager": None}
    return MergeStep("c", named, Hint(0b11, preferred=False), admitted=False)


def test_a_provider_that_does_not_care_is_listed_under_its_own_name():
    assert by_resource(step(cpu=on(1)))["memory_manager"] is Affinity.ANYWHERE


def test_the_smallest_conflict_is_named_and_nothing_beyond_it():
    assert conflicts(SINGLE, step(cpu=on(1), gpu=on(2), nic=on(1, 2))) == [("cpu", "gpu")]
    assert conflicts(SINGLE, step(cpu=on(1), gpu=on(3, count=2))) == [("gpu",)]
    assert conflicts(SINGLE, step(cpu=on(1), gpu=on(1))) == []


def test_what_is_nowhere_comes_first():
    found = conflicts(SINGLE, step(cpu=on(3, count=2), gpu=Affinity.NOWHERE))
    assert found == [("gpu",), ("cpu",)]


def test_the_table_has_a_row_for_each_set_with_a_hint():
    found = table(step(cpu=on(1, 3), gpu=on(2)), 0b11)
    assert found.resources == ("cpu", "gpu")
    assert [(row.nodes, row.cells) for row in found.rows] == [
        (0b01, (True, None)),
        (0b10, (None, True)),
        (0b11, (False, None)),
    ]
    assert not found.left_out
    assert found.anywhere == ("memory_manager",)


def test_without_any_hint_there_is_no_table():
    assert table(step(), 0b11) is None


def test_single_nodes_count_only_where_one_node_is_preferred():
    assert preferred_singles(on(1, 2)) == 0b11
    assert preferred_singles(on(1, 2, 3, count=2)) == 0
