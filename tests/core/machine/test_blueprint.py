"""Machines from a few numbers."""

from dataclasses import replace

import pytest

from numalign.core.machine.blueprint import (
    GIB,
    Blueprint,
    Numbering,
    build,
    with_distances,
    with_memory_nodes,
)
from numalign.core.machine.machine import validate

PLAN = Blueprint("m", sockets=2, cores_per_socket=2, threads_per_core=2)


@pytest.mark.parametrize(
    ("numbering", "cpus"),
    [
        (Numbering.BLOCKS, "0-1,4-5"),
        (Numbering.ROUND_ROBIN, "0,2,4,6"),
        (Numbering.ADJACENT, "0-3"),
    ],
)
def test_cpus_are_numbered_as_the_firmware_lists_them(numbering, cpus):
    machine = validate(build(replace(PLAN, numbering=numbering)))
    assert str(machine.nodes[0].cpus) == cpus
    assert str(machine.sockets[0]) == cpus
    assert str(machine.online) == "0-7"


def test_one_cache_may_serve_several_nodes():
    machine = build(replace(PLAN, nodes_per_socket=2))
    shared = [cache for cache in machine.caches if cache.level == 3]
    assert len(machine.nodes) == 4
    assert [str(cache.cpus) for cache in shared] == ["0-1,4-5", "2-3,6-7"]


def test_memory_nodes_come_after_the_others_and_count():
    machine = with_memory_nodes(build(PLAN), [4 * GIB])
    assert machine.nodes[2].id == 2
    assert not machine.nodes[2].cpus
    assert machine.memory_bytes == 20 * GIB


def test_a_node_is_nearest_to_itself():
    machine = with_distances(build(PLAN), lambda start, end: 20 + start + end)
    assert [node.distances for node in machine.nodes] == [(10, 21), (21, 10)]
