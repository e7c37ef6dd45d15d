"""A memory without CPUs is near to those that the firmware or the distances name."""

from __future__ import annotations

from dataclasses import replace

from tests.wire.machine.locality import near_cpus

from numalign.core.machine.machine import MemoryPath
from numalign.core.machine.synthetic import synthetic_machine

MACHINE = synthetic_machine("2s:1n:2c,cxl=1")


def test_a_node_with_cpus_is_near_to_its_own() -> None:
    assert str(near_cpus(MACHINE, 1)) == "2-3"


def test_a_memory_is_near_to_the_nearest_node() -> None:
    assert str(near_cpus(MACHINE, 2)) == "0-1"


def test_the_word_of_the_firmware_comes_first() -> None:
    machine = replace(MACHINE, memory_paths=(MemoryPath(1, 2, 80), MemoryPath(0, 0, 70)))
    assert str(near_cpus(machine, 2)) == "2-3"


def test_equal_distances_say_nothing() -> None:
    machine = synthetic_machine("2s:1n:2c,cxl=1,dist=12/21/28/28")
    assert not near_cpus(machine, 2)


def test_the_only_node_with_cpus_is_the_nearest() -> None:
    assert str(near_cpus(synthetic_machine("1s:1n:2c,cxl=2"), 1)) == "0-1"


def test_without_distances_nothing_is_near() -> None:
    nodes = tuple(replace(node, distances=None) for node in MACHINE.nodes)
    assert not near_cpus(replace(MACHINE, nodes=nodes), 2)
