"""The table has one row for each NUMA node, then the distances."""

import pytest
from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.apps.render import table
from numalign.apps.render.columns import columns
from numalign.apps.render.text import plain
from numalign.core.machine.blueprint import Blueprint, build
from numalign.core.machine.examples.catalogue import EXAMPLES


def rows(name: str, width: int = 100) -> list[str]:
    return plain(table.render(EXAMPLES[name].machine(), width=width)).splitlines()


def test_a_node_has_its_facts_on_one_row():
    row = next(line for line in rows("xeon-2s") if line.split()[:2] == ["0", "0"])
    assert "0-27,56-83" in row
    assert "251.7 GiB" in row
    assert "32 x 1 GiB + 1024 x 2 MiB" in row or "32 x 1 GiB" in row


@pytest.mark.parametrize("name", EXAMPLES)
def test_there_is_a_row_for_each_node(name):
    machine = EXAMPLES[name].machine()
    found = [row[0] for row in table.node_rows(machine) if row[0] != "none"]
    assert found == [str(node.id) for node in machine.nodes]


def test_what_is_at_no_node_has_a_row_of_its_own():
    assert table.node_rows(EXAMPLES["vm-2cpu"].machine())[-1][0] == "none"


def test_the_distance_matrix_is_whole_where_it_fits():
    lines = rows("epyc-2s-nps4")
    start = next(i for i, line in enumerate(lines) if line.startswith("DISTANCE"))
    numbers = [list(map(int, line.split())) for line in lines[start + 1 : start + 9]]
    machine = EXAMPLES["epyc-2s-nps4"].machine()
    assert [row[1:] for row in numbers] == [list(node.distances) for node in machine.nodes]


def test_a_matrix_of_34_nodes_is_put_together_to_fit():
    lines = rows("gb200")
    assert any(line.split()[:3] == ["DISTANCE", "0", "1"] and "10-17" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_wide_terminal_gets_all_34_columns():
    head = next(line for line in rows("gb200", width=300) if line.startswith("DISTANCE"))
    assert len(head.split()) == 35


def test_unknown_distances_are_said_to_be_unknown():
    assert "distances: not known" in plain(table.render(build(Blueprint("m", sockets=2))))


def test_long_cpu_lists_are_wrapped_within_their_column():
    lines = rows("xeon-4s", width=80)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(" " * 14 + "1") for line in lines)


def test_columns_without_room_keep_their_numbers_whole():
    lines = columns(("A", "B"), [("0,11,222", "x" * 30)], width=20, flexible=(0,))
    assert "222" in plain(lines)


@settings(max_examples=20, deadline=None)
@given(machines())
def test_any_machine_has_a_table(machine):
    assert len(table.node_rows(machine)) >= len(machine.nodes)
    assert plain(table.render(machine))
