"""A Machine answers by its parts, and an impossible one is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import CacheKind, HugePages, Machine, validate
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.values.sets import CpuSet

MACHINE = synthetic_machine("2s:1n:2c:2t,gpu=1,d=2")
FIRST, SECOND = MACHINE.nodes


def test_parts_are_found_by_their_ids() -> None:
    assert str(MACHINE.online) == "0-7"
    assert str(MACHINE.node_set) == "0-1"
    assert {k: str(v) for k, v in MACHINE.sockets.items()} == {0: "0-1,4-5", 1: "2-3,6-7"}
    assert {k: str(v) for k, v in MACHINE.cores.items()} == {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7"}
    assert str(MACHINE.dies[1, 0]) == "2,6"
    assert MACHINE.distance(0, 1) == 21
    assert [d.node for d in MACHINE.devices_on(1)] == [1]
    assert MACHINE.devices_on(None) == ()


def test_instruction_caches_are_not_counted_by_level() -> None:
    kinds = {cache.kind for cache in MACHINE.caches_of_level(1)}
    assert kinds == {CacheKind.DATA}


def _with_nodes(*nodes: Any) -> Machine:
    return replace(MACHINE, nodes=nodes)


def _with_cpu(**changes: Any) -> Machine:
    first, *others = MACHINE.cpus
    return replace(MACHINE, cpus=(replace(first, **changes), *others))


IMPOSSIBLE = {
    "no online CPU": replace(MACHINE, cpus=()),
    "no NUMA node": replace(MACHINE, nodes=()),
    "CPU numbers": replace(MACHINE, cpus=MACHINE.cpus[::-1]),
    "CPU number -1": _with_cpu(id=-1),
    "CPU number 70000": replace(MACHINE, cpus=(replace(MACHINE.cpus[0], id=70_000),)),
    "NUMA node numbers": _with_nodes(SECOND, FIRST),
    "on another one": _with_nodes(FIRST, replace(SECOND, cpus=FIRST.cpus)),
    "bytes of memory on NUMA node 1": _with_nodes(FIRST, replace(SECOND, memory_bytes=-1)),
    "of memory on the machine": replace(MACHINE, memory_bytes=1 << 63),
    "bytes of memory on NUMA node 0": _with_nodes(
        replace(FIRST, hugepages=(HugePages(1 << 21, -1),)), SECOND
    ),
    "1 distances for NUMA node 0": _with_nodes(replace(FIRST, distances=(10,)), SECOND),
    "CPU 0 on NUMA node 7": _with_cpu(node=7),
    "on NUMA node 1 by its own word and on 0": _with_cpu(node=1),
    "on NUMA node none by its own word": _with_cpu(node=None),
    "and on none by the nodes'": _with_nodes(replace(FIRST, cpus=CpuSet.parse("1,4-5")), SECOND),
    "a core 0 of CPUs 4": _with_cpu(core=1),
    "CPUs 0,4 of one core in several places": _with_cpu(socket=1),
    "a core 3 of CPUs 0": replace(
        MACHINE, cpus=(replace(MACHINE.cpus[0], core=3),), nodes=(replace(FIRST, distances=None),)
    ),
}


@pytest.mark.parametrize("message", IMPOSSIBLE)
def test_an_impossible_machine_is_refused(message: str) -> None:
    with pytest.raises(DiscoveryError) as caught:
        validate(IMPOSSIBLE[message])
    assert message in str(caught.value)


def test_a_possible_machine_passes_as_it_is() -> None:
    assert validate(MACHINE) is MACHINE
