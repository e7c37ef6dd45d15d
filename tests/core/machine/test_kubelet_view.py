"""The machine as the kubelet sees it through cAdvisor."""

from dataclasses import replace

from numalign.core.machine.blueprint import Blueprint, build
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.values.sets import CpuSet

EPYC = Blueprint("m", sockets=2, cores_per_socket=4, l3_per_socket=2, threads_per_core=2)


def test_cores_are_grouped_by_their_id_inside_a_node():
    info = machine_info(build(EPYC))
    assert [core.threads for core in info.nodes[0].cores] == [(0, 8), (1, 9), (2, 10), (3, 11)]
    assert info.cpu_count == 16
    assert info.socket_count == 2


def test_a_cache_is_an_uncore_cache_only_if_it_serves_a_part_of_the_node():
    split = machine_info(build(EPYC))
    assert [core.uncore for core in split.nodes[1].cores] == [2, 2, 3, 3]
    whole = machine_info(build(replace(EPYC, l3_per_socket=1)))
    assert {core.uncore for node in whole.nodes for core in node.cores} == {None}


def test_cpus_that_are_offline_are_not_seen():
    machine = build(EPYC)
    online = tuple(cpu for cpu in machine.cpus if cpu.id != 8)
    info = machine_info(replace(machine, cpus=online))
    assert info.nodes[0].cores[0].threads == (0,)


def test_a_node_without_cpus_has_no_cores():
    machine = build(EPYC)
    bare = replace(machine.nodes[1], cpus=CpuSet())
    info = machine_info(replace(machine, nodes=(machine.nodes[0], bare)))
    assert info.nodes[1].cores == ()
