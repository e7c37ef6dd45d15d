"""Packed CPUs: whole units first, the fullest unit that still has room before the others."""

import pytest
from tests.core.hosts import GI, machine

from numalign.core.kubelet.cpu.pack import (
    PACKED,
    NotEnoughCpusError,
    Strategy,
    node_order,
    take_packed,
)
from numalign.core.kubelet.cpu.topology import cpu_topology
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.values.sets import format_list, parse_list

TWO = cpu_topology(machine(nodes=2, cores=4))  # node 0: 0-7, node 1: 8-15


def taken(available, count, topology=TWO, strategy=PACKED):
    return format_list(take_packed(topology, parse_list(available), count, strategy))


def test_a_whole_node_is_taken_before_parts_of_two():
    assert taken("1-15", 8) == "8-15"


def test_the_fuller_node_is_used_up_first():
    assert taken("2-15", 2) == "2-3"
    assert taken("0-7,12-15", 2) == "12-13"


def test_whole_cores_come_before_single_cpus():
    assert taken("1-15", 2) == "2-3"
    assert taken("1-15", 1) == "1"
    assert taken("1-7", 3) == "1-3"


def test_spreading_over_cores_takes_single_cpus_only():
    assert taken("1-7", 3, strategy=Strategy(spread_cores=True)) == "1-3"
    assert taken("1-7", 2, strategy=Strategy(spread_cores=True)) == "1-2"


def test_a_part_of_one_cache_is_taken_where_it_is_just_enough():
    cores = tuple(CoreInfo((2 * i, 2 * i + 1), 0, uncore=i // 2) for i in range(4))
    topology = cpu_topology(MachineInfo((NodeInfo(0, GI, (), (10,), cores),), 1, GI))
    aligned = Strategy(align_uncore=True)
    assert taken("0,2-7", 4, topology, aligned) == "4-7"
    assert taken("0,2-7", 4, topology) == "2-5"


def test_nodes_are_listed_by_what_is_free_and_then_by_their_number():
    assert [node for node, _ in node_order(TWO, parse_list("0-7,8-11"))] == [1, 0]
    assert [node for node, _ in node_order(TWO, parse_list("0-15"))] == [0, 1]


def test_more_than_there_is_fails_with_the_kubelets_words():
    with pytest.raises(NotEnoughCpusError, match="requested=3, available=2"):
        take_packed(TWO, 0b11, 3)
