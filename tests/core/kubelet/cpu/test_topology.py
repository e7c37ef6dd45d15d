"""CPUs by socket, node, core and cache, and the kubelet's own counts of them."""

import pytest
from tests.core.hosts import GI, machine

from numalign.core.errors import StartError
from numalign.core.kubelet.cpu.topology import cpu_topology
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.values.sets import parse_list


def test_a_core_is_named_by_its_lowest_cpu():
    topology = cpu_topology(machine(nodes=1, cores=2))
    assert topology.cores == {0: 0b0011, 2: 0b1100}


def test_counts_per_core_are_rounded_down_over_the_whole_machine():
    cores = (CoreInfo((0, 1), 0), CoreInfo((2,), 0))
    topology = cpu_topology(MachineInfo((NodeInfo(0, GI, (), (10,), cores),), 1, GI))
    assert topology.cpus_per_core == 1
    assert not topology.is_even


def test_the_socket_stands_in_for_a_cache_that_is_not_told():
    topology = cpu_topology(machine(nodes=2, cores=2, sockets=1))
    assert topology.uncores == {0: parse_list("0-7")}


def test_nodes_come_before_sockets_only_where_there_are_no_more_nodes_than_sockets():
    assert cpu_topology(machine(nodes=2, sockets=2)).nodes_first
    assert not cpu_topology(machine(nodes=4, sockets=2)).nodes_first


def test_the_fewest_nodes_are_those_of_an_empty_machine():
    topology = cpu_topology(machine(nodes=4, cores=4))
    assert [topology.fewest_nodes(count) for count in (1, 8, 9, 32, 33)] == [1, 1, 2, 4, 4]


def test_one_cpu_touches_its_whole_core():
    assert cpu_topology(machine()).cores_touched(0b10) == 0b11


def test_a_machine_without_cpus_does_not_start():
    with pytest.raises(StartError, match="could not detect number of cpus"):
        cpu_topology(machine(cpu_nodes=()))
