"""The built-in machines are what they say, and numbered as Linux numbers them."""

import pytest

from numalign.core.machine.examples.catalogue import EXAMPLES
from numalign.core.machine.machine import DeviceKind, validate
from numalign.core.machine.nesting import nest
from numalign.core.values.sets import CpuSet

ALL = pytest.mark.parametrize("example", EXAMPLES.values(), ids=lambda e: e.name)


@ALL
def test_every_example_is_a_possible_machine(example):
    machine = example.machine()
    assert validate(machine) is machine
    assert machine.name == example.name
    assert example.title
    assert example.description.endswith(".")


@ALL
def test_every_cpu_is_on_the_node_that_lists_it(example):
    machine = example.machine()
    for cpu in machine.cpus:
        assert [node.id for node in machine.nodes if cpu.id in node.cpus] == [cpu.node]


@ALL
def test_a_core_is_named_by_its_lowest_cpu_and_lies_in_one_cache(example):
    machine = example.machine()
    for core, cpus in machine.cores.items():
        assert core == min(cpus)
        assert any(cpus.issubset(cache.cpus) for cache in machine.caches_of_level(3))


@ALL
def test_distances_are_symmetric_and_least_to_the_node_itself(example):
    machine = example.machine()
    for a in machine.node_set:
        for b in machine.node_set:
            assert machine.distance(a, b) == machine.distance(b, a)
            assert machine.distance(a, a) == 10 <= machine.distance(a, b)


@ALL
def test_huge_pages_fit_into_the_memory_of_their_node(example):
    for node in example.machine().nodes:
        assert sum(p.size_bytes * p.count for p in node.hugepages) <= node.memory_bytes


@ALL
def test_devices_are_in_order_and_at_nodes_that_exist(example):
    machine = example.machine()
    addresses = [device.address for device in machine.devices]
    assert addresses == sorted(set(addresses))
    assert all(d.node is None or d.node in machine.node_set for d in machine.devices)


@ALL
def test_memory_of_the_machine_is_that_of_its_nodes(example):
    machine = example.machine()
    assert machine.memory_bytes == sum(node.memory_bytes for node in machine.nodes)


@pytest.mark.parametrize(
    ("name", "sockets", "nodes", "cores", "cpus"),
    [
        ("vm-2cpu", 1, 1, 1, 2),
        ("edge-nosmt", 1, 1, 20, 20),
        ("xeon-2s", 2, 2, 56, 112),
        ("xeon-2s-snc2", 2, 4, 112, 224),
        ("xeon-2s-cxl", 2, 3, 64, 128),
        ("xeon-4s", 4, 4, 96, 192),
        ("xeon-8s", 8, 8, 128, 256),
        ("epyc-2s-nps4", 2, 8, 128, 256),
        ("gb200", 2, 34, 144, 144),
    ],
)
def test_each_example_has_its_shape(name, sockets, nodes, cores, cpus):
    machine = EXAMPLES[name].machine()
    shape = (len(machine.sockets), len(machine.nodes), len(machine.cores), len(machine.cpus))
    assert shape == (sockets, nodes, cores, cpus)


def test_an_epyc_node_has_two_caches_and_second_threads_after_all_first_ones():
    machine = EXAMPLES["epyc-2s-nps4"].machine()
    assert str(machine.nodes[0].cpus) == "0-15,128-143"
    assert machine.cores[0] == CpuSet.of([0, 128])
    on_node = [c for c in machine.caches_of_level(3) if c.cpus.issubset(machine.nodes[0].cpus)]
    assert [str(cache.cpus) for cache in on_node] == ["0-7,128-135", "8-15,136-143"]


def test_sub_numa_clustering_leaves_one_cache_for_two_nodes():
    socket = nest(EXAMPLES["xeon-2s-snc2"].machine()).sockets[0]
    assert [str(cache.cpus) for cache in socket.shared_caches] == ["0-55,112-167"]


def test_the_four_socket_machine_deals_its_numbers_to_the_sockets_in_turn():
    machine = EXAMPLES["xeon-4s"].machine()
    assert [machine.cpu_by_id[cpu].socket for cpu in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_the_gb200_has_two_nodes_with_cpus_and_sixteen_of_gpu_memory_near_each():
    machine = EXAMPLES["gb200"].machine()
    assert [node.id for node in machine.nodes if node.cpus] == [0, 1]
    near = [[node.id for node in s.memory_nodes] for s in nest(machine).sockets]
    assert near == [list(range(2, 18)), list(range(18, 34))]
    assert [n.id for n in machine.nodes[2:] if n.memory_bytes] == [2, 10, 18, 26]
    assert (machine.distance(0, 1), machine.distance(0, 2), machine.distance(0, 18)) == (
        40,
        80,
        120,
    )


def test_the_memory_expander_has_no_cpus_and_is_nearest_to_socket_0():
    machine = EXAMPLES["xeon-2s-cxl"].machine()
    assert not machine.nodes[2].cpus
    assert [node.id for node in nest(machine).sockets[0].memory_nodes] == [2]


def test_the_edge_server_shows_its_second_threads_as_offline():
    assert str(EXAMPLES["edge-nosmt"].machine().offline) == "20-39"


def test_virtual_functions_hang_on_the_node_of_their_card():
    machine = EXAMPLES["xeon-2s"].machine()
    virtual = [d for d in machine.devices if d.virtual_function]
    assert len(virtual) == 8
    assert {(d.kind, d.node) for d in virtual} == {(DeviceKind.NIC, 0)}
