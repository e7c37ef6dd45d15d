"""The parts for the page: all of the machine, each CPU once, and as the picture has it."""

import pytest
from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.adapters.sources.discovery import discover
from numalign.apps.render.drawing.boxes import Label
from numalign.apps.render.drawing.picture import picture
from numalign.apps.render.drawing.structure import structure
from numalign.core.machine.examples.catalogue import EXAMPLES
from numalign.core.values.sets import CpuSet, parse_list


def nodes_of(layout):
    return [n for socket in layout.sockets for die in socket.dies for n in die.nodes]


def cores_of(layout):
    return [core for node in nodes_of(layout) for cache in node.caches for core in cache.cores]


@settings(max_examples=50)
@given(machines())
def test_every_online_cpu_and_every_numa_node_is_there_once(machine):
    layout = structure(machine)
    cpus = [cpu for core in cores_of(layout) for cpu in CpuSet(parse_list(core))]
    assert sorted(cpus) == list(machine.online)
    shown = [node.node for node in nodes_of(layout) if node.node is not None and node.first]
    without = [n for s in layout.sockets for n in s.memory_nodes] + layout.memory_nodes
    assert sorted(shown + without) == list(machine.node_set)


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_texts_are_those_of_the_picture(name):
    machine = discover(name)
    drawn = {shape.text for shape in picture(machine).shapes if isinstance(shape, Label)}
    layout = structure(machine)
    names = {cache.name for node in nodes_of(layout) for cache in node.caches if cache.name}
    assert names <= drawn
    assert {one.address for one in layout.pci if one.address} <= drawn
    assert {one.text for one in layout.memory if one.size_bytes} <= drawn
    assert {f"huge pages {one.huge_pages}" for one in layout.memory if one.huge_pages} <= drawn
    if layout.distances is not None:
        assert set(layout.distances.groups) <= drawn


def test_many_nodes_that_are_alike_share_a_row_of_distances():
    found = structure(discover("gb200"))
    assert found.distances.groups == ["0", "1", "2-9", "10-17", "18-25", "26-33"]
    assert found.distances.rows[2][2] == [10, 11]
    assert found.distances.shades["10"] == 0.0
    assert [len(socket.memory_nodes) for socket in found.sockets] == [16, 16]
    assert structure(discover("vm-2cpu")).distances is None


def test_virtual_functions_are_counted_and_not_named():
    found = [one for one in structure(discover("xeon-2s")).pci if one.count > 1]
    assert [(one.node, one.name, one.address) for one in found] == [(0, "NIC VF", "")]
