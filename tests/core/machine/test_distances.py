"""Distances are made short without losing any."""

from dataclasses import replace

from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.core.machine import distances
from numalign.core.machine.blueprint import Blueprint, build, with_memory_nodes
from numalign.core.machine.examples.catalogue import EXAMPLES


def test_words_put_equal_distances_together():
    machine = EXAMPLES["xeon-8s"].machine()
    assert distances.in_words(machine, 0) == "21 to 1-2,4; 31 to 3,5-7"


def test_words_are_empty_for_a_machine_of_one_node_or_without_distances():
    assert distances.in_words(EXAMPLES["vm-2cpu"].machine(), 0) == ""
    assert distances.in_words(build(Blueprint("m", sockets=2)), 0) == ""


def test_nodes_that_the_matrix_does_not_tell_apart_become_one_row():
    groups = distances.alike(EXAMPLES["gb200"].machine())
    assert groups is not None
    assert [str(g) for g in groups.groups] == ["0", "1", "2-9", "10-17", "18-25", "26-33"]
    assert groups.rows[2][2] == (10, 11)
    assert groups.rows[0][2] == (80,)


def test_nodes_that_differ_in_the_distance_to_themselves_only_stay_apart():
    machine = with_memory_nodes(build(Blueprint("m")), [1, 1])
    rows = ((10, 20, 20), (20, 10, 20), (20, 20, 11))
    nodes = tuple(replace(n, distances=r) for n, r in zip(machine.nodes, rows, strict=True))
    groups = distances.alike(replace(machine, nodes=nodes))
    assert groups is not None
    assert [str(group) for group in groups.groups] == ["0", "1", "2"]


def test_nodes_with_cpus_keep_their_own_rows():
    groups = distances.alike(EXAMPLES["xeon-4s"].machine())
    assert groups is not None
    assert len(groups.groups) == 4


@settings(max_examples=30, deadline=None)
@given(machines())
def test_the_short_matrix_says_the_same_as_the_whole(machine):
    whole, short = distances.matrix(machine), distances.alike(machine)
    if whole is None or short is None:
        assert whole is short is None
        return
    at = {node.id: i for i, node in enumerate(machine.nodes)}
    for a, row in zip(short.groups, short.rows, strict=True):
        for b, values in zip(short.groups, row, strict=True):
            for i in a:
                for j in b:
                    said = values[0] if i == j or len(values) == 1 else values[1]
                    assert whole[at[i]][at[j]] == said
