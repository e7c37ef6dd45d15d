"""The tree shows every CPU once, folds what is alike, and fits the terminal."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests import paths
from tests.apps.render.odd_machines import machines

from numalign.apps.render import tree
from numalign.apps.render.text import Tone, plain
from numalign.core.machine.blueprint import Blueprint, build
from numalign.core.machine.examples.catalogue import EXAMPLES
from numalign.core.machine.machine import Machine
from numalign.core.values.sets import CpuSet, parse_list

GOLDEN = sorted((paths.GOLDEN / "tree").glob("*.txt"))


def text(machine: Machine, **options) -> str:
    return plain(tree.render(machine, **options))


def listed_cpus(machine: Machine, *, full: bool) -> list[int]:
    """All CPU numbers of the spans that are about CPUs, in order of size."""
    spans = [span for line in tree.render(machine, full=full) for span in line]
    words = "".join(f"{s.text} " for s in spans if s.tone is Tone.CPU)
    found = []
    for part in re.findall(r"\d+(?:-\d+)?", words):
        found += CpuSet(parse_list(part))
    return sorted(found)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_tree_is_as_recorded(path):
    # To record it anew: numalign topology -m NAME > tests/golden/tree/NAME.txt
    assert text(EXAMPLES[path.stem].machine()) == path.read_text()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_cpu_is_listed_exactly_once(name, full):
    machine = EXAMPLES[name].machine()
    assert listed_cpus(machine, full=full) == list(machine.online)


@settings(max_examples=30, deadline=None)
@given(machines())
def test_every_cpu_of_any_machine_is_listed_exactly_once(machine):
    for full in (False, True):
        assert listed_cpus(machine, full=full) == list(machine.online)


@pytest.mark.parametrize("width", [60, 80, 132])
def test_lines_stay_within_the_width(width):
    for example in EXAMPLES.values():
        assert max(map(len, text(example.machine(), width=width).splitlines())) <= width


def test_256_cpus_fit_on_one_screen():
    assert len(text(EXAMPLES["epyc-2s-nps4"].machine()).splitlines()) <= 36


def test_full_has_a_line_for_each_core_and_device():
    machine = EXAMPLES["xeon-2s"].machine()
    shown = text(machine, full=True)
    assert len(re.findall(r"core \d+: CPUs", shown)) == 56
    assert all(device.address in shown for device in machine.devices)


def test_alike_caches_share_a_line_and_others_do_not():
    plan = Blueprint("m", l3_per_socket=4, cores_per_socket=8)
    machine = build(plan)
    assert "4 x L3 32 MiB, each 2 cores / 2 CPUs: 0-1 | 2-3 | 4-5 | 6-7" in text(machine)
    first = replace(machine.caches[-4], size_bytes=16 << 20)
    other = replace(machine, caches=(*machine.caches[:-4], first, *machine.caches[-3:]))
    assert "L3 16 MiB, 2 cores: CPUs 0-1" in text(other)
    assert "3 x L3 32 MiB" in text(other)


def test_what_is_missing_or_odd_is_said():
    machine = EXAMPLES["edge-nosmt"].machine()
    assert "offline CPUs: 20-39" in text(machine)
    assert "note: the second thread of each core is offline" in text(machine)
    shown = text(EXAMPLES["gb200"].machine())
    assert "NUMA node 2: no CPUs, 184 GiB" in shown
    assert "NUMA nodes 3-9: no CPUs, no memory" in shown
    assert "At no NUMA node" in text(EXAMPLES["vm-2cpu"].machine())


def test_dies_and_shared_caches_and_nodes_in_parts_have_their_lines():
    machine = build(Blueprint("m", nodes_per_socket=2, cores_per_socket=4))
    assert "L3 32 MiB for NUMA nodes 0-1" in text(machine)
    cpus = tuple(replace(cpu, die=cpu.node) for cpu in machine.cpus)
    assert "Die 1" in text(replace(machine, cpus=cpus))
    whole = build(Blueprint("m", sockets=2, cores_per_socket=2))
    one = (replace(whole.nodes[0], cpus=whole.online),)
    cpus = tuple(replace(cpu, node=0) for cpu in whole.cpus)
    shown = text(replace(whole, nodes=one, cpus=cpus))
    assert shown.count("NUMA node 0 (in part)") == 2
    assert shown.count("8 GiB") == 1
    loose = tuple(replace(cpu, node=None) for cpu in whole.cpus)
    assert "On no NUMA node" in text(replace(whole, cpus=loose))


def test_a_long_note_is_broken_between_words():
    machine = replace(EXAMPLES["vm-2cpu"].machine(), notes=("word " * 40,))
    lines = [line for line in text(machine, width=60).splitlines() if "word" in line]
    assert len(lines) == 4
    assert all(line.endswith("word") for line in lines)


def test_the_firmware_speeds_are_told_at_the_memory_they_are_about():
    shown = text(EXAMPLES["xeon-2s-cxl"].machine())
    assert "read from node 0: 245 ns, 48 GiB/s; from node 1: 385 ns, 24 GiB/s" in shown


def test_caches_of_a_core_are_told_once_if_all_cores_are_alike():
    machine = EXAMPLES["xeon-2s"].machine()
    assert "each core L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB" in text(machine, width=200)
    uneven = replace(machine, caches=machine.caches[1:])
    assert "L1d" not in text(uneven)
