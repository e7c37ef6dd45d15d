"""Machines that do not nest are still shown whole, each CPU once."""

from dataclasses import replace

from hypothesis import given, settings
from tests.apps.render.odd_machines import machines

from numalign.core.machine.blueprint import Blueprint, build, with_distances, with_memory_nodes
from numalign.core.machine.machine import Machine, NumaNode
from numalign.core.machine.nesting import last_level, nest
from numalign.core.values.sets import CpuSet


def two_sockets(**more) -> Machine:
    return build(Blueprint("m", sockets=2, cores_per_socket=4, **more))


@settings(max_examples=30, deadline=None)
@given(machines())
def test_every_cpu_is_in_exactly_one_part(machine):
    parts = [
        cpu
        for socket in nest(machine).sockets
        for node in socket.nodes
        for cache in node.caches
        for core in cache.cores
        for cpu in core.cpus
    ]
    assert sorted(parts) == list(machine.online)


@settings(max_examples=30, deadline=None)
@given(machines())
def test_every_node_is_shown_first_exactly_once(machine):
    nesting = nest(machine)
    shown = [n.node.id for s in nesting.sockets for n in s.nodes if n.node and n.first]
    shown += [n.id for s in nesting.sockets for n in s.memory_nodes]
    shown += [n.id for n in nesting.memory_nodes]
    assert sorted(shown) == list(machine.node_set)


def test_a_node_over_two_sockets_is_shown_in_parts():
    machine = two_sockets()
    cpus = tuple(replace(cpu, node=0) for cpu in machine.cpus)
    machine = replace(machine, cpus=cpus, nodes=(NumaNode(0, machine.online, 1 << 30),))
    parts = [node for socket in nest(machine).sockets for node in socket.nodes]
    assert [(part.whole, part.first) for part in parts] == [(False, True), (False, False)]


def test_a_cache_over_two_nodes_belongs_to_the_socket():
    first = nest(two_sockets(nodes_per_socket=2)).sockets[0]
    assert [str(cache.cpus) for cache in first.shared_caches] == ["0-3"]
    assert all(part.shared for node in first.nodes for part in node.caches)


def test_dies_are_told_where_each_node_lies_in_one_die():
    machine = two_sockets(nodes_per_socket=2)
    apart = tuple(replace(cpu, die=(cpu.id // 2) % 2) for cpu in machine.cpus)
    assert [d.die for d in nest(replace(machine, cpus=apart)).sockets[0].dies] == [0, 1]
    across = tuple(replace(cpu, die=cpu.id % 2) for cpu in machine.cpus)
    assert [d.die for d in nest(replace(machine, cpus=across)).sockets[0].dies] == [None]


def test_memory_without_cpus_goes_to_the_one_nearest_socket():
    machine = with_memory_nodes(two_sockets(), [1 << 30, 1 << 30])
    distances = {(0, 2): 14, (1, 2): 24, (0, 3): 20, (1, 3): 20}
    machine = with_distances(machine, lambda a, b: distances.get((min(a, b), max(a, b)), 21))
    nesting = nest(machine)
    assert [[n.id for n in s.memory_nodes] for s in nesting.sockets] == [[2], []]
    assert [n.id for n in nesting.memory_nodes] == [3]


def test_without_distances_memory_is_near_to_no_socket_of_several():
    machine = with_memory_nodes(two_sockets(), [1 << 30])
    assert [n.id for n in nest(machine).memory_nodes] == [2]


def test_the_last_level_is_the_highest_that_serves_several_cores():
    machine = two_sockets()
    assert last_level(machine) == 3
    private = tuple(c for c in machine.caches if c.level < 3)
    assert last_level(replace(machine, caches=private)) == 3
    pairs = tuple(replace(c, cpus=CpuSet.of([0, 1])) for c in private if c.level == 2)
    assert last_level(replace(machine, caches=pairs)) == 2
