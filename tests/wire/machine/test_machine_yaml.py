"""Our own files hold a machine without loss, and say what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.sources.captures import small_machine
from tests.adapters.sources.shared_machines import captures, exports, machine_of, needs_machines
from tests.paths import DOCS

from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import DeviceKind, MemoryPath
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet
from numalign.wire.machine import machine_yaml
from numalign.wire.machine.machine_yaml import dump, load, to_json
from numalign.wire.machine.writing import amount, runs

REFERENCE = DOCS / "reference" / "machine-yaml.md"
WRITTEN = """
apiVersion: numalign.io/v1
kind: Machine
name: by-hand
sockets:
- {id: 0, cores: '0,2 1,3'}
nodes:
- {id: 0, cpus: 0-3, memory: 8Gi, hugepages: {2Mi: 4}, distances: [10, 17]}
- {id: 4, memory: 16Gi, distances: [17, 10]}
caches:
- {level: 2, type: Unified, size: 1Mi, per: core}
- {level: 3, type: Unified, size: 8Mi, cpus: 0-3, ids: 5}
devices:
- {address: 0000:3b:00.0, kind: gpu, node: 0}
- {address: 0000:3c:00.0, class: 0x020000, vendor: 0x8086, virtualFunction: true}
offline: 4-5
"""


@needs_machines
@pytest.mark.parametrize("path", [*captures(), *exports()], ids=lambda path: path.name)
def test_every_snapshot_survives_yaml_and_json(path: Path) -> None:
    machine = machine_of(path)
    assert load(dump(machine)) == machine
    assert load(to_json(machine)) == machine


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(["", ",ht=adjacent", ",l3=1,gpu=2,cxl=1", ",hp1Gi=3,nic=1,mem=5000001Ki"]),
    st.text(max_size=12),
)
def test_every_shape_and_name_survives_yaml(
    sockets: int, nodes: int, cores: int, threads: int, options: str, name: str
) -> None:
    machine = synthetic_machine(f"{sockets}s:{nodes}n:{cores}c:{threads}t{options}")
    # PyYAML cannot hold these at all; a name comes from a file or a host and has none of them.
    printable = "".join(c for c in name if c.isprintable())
    machine = replace(machine, name=printable or "x", notes=(printable, "a: b # c", "- [", "yes"))
    assert load(dump(machine)) == machine
    assert load(to_json(machine)) == machine


def test_rare_fields_survive_too() -> None:
    machine = small_machine()
    machine = replace(
        machine,
        memory_bytes=machine.memory_bytes + 1,
        cpus=tuple(
            replace(cpu, die=None, cluster=cpu.core + 40, core_id=7 - cpu.core)
            for cpu in machine.cpus
        ),
        caches=tuple(
            replace(cache, id=None if cache.level == 3 else cache.id) for cache in machine.caches
        ),
        devices=(replace(machine.devices[0], node=None, virtual_function=True),),
        memory_paths=(MemoryPath(0, 1, 80, None, 100_000), MemoryPath(1, 1)),
        offline=CpuSet.parse("8,12-13"),
    )
    assert load(dump(machine)) == machine
    assert load(to_json(machine)) == machine


def test_a_file_written_by_hand_may_leave_out_what_follows() -> None:
    machine = load(WRITTEN)
    assert [(c.id, c.core, c.core_id, c.node) for c in machine.cpus] == [
        (0, 0, 0, 0),
        (1, 1, 1, 0),
        (2, 0, 0, 0),
        (3, 1, 1, 0),
    ]
    assert machine.memory_bytes == 24 << 30
    assert [(str(c.cpus), c.id) for c in machine.caches] == [
        ("0,2", None),
        ("1,3", None),
        ("0-3", 5),
    ]
    gpu, nic = machine.devices
    assert (gpu.address, gpu.kind, gpu.class_code) == ("0000:3b:00.0", DeviceKind.GPU, 0x030200)
    assert (nic.kind, nic.vendor_id, nic.virtual_function) == (DeviceKind.NIC, 0x8086, True)


def test_json_has_the_same_shape_as_yaml() -> None:
    shape = json.loads(to_json(load(WRITTEN)))
    assert shape["apiVersion"] == "numalign.io/v1"
    assert shape["sockets"] == [{"id": 0, "cores": "0,2 1,3"}]
    assert shape["nodes"][1] == {"id": 4, "memory": "16Gi", "distances": [17, 10]}


def test_yaml_in_braces_is_yaml() -> None:
    machine = load(
        "{apiVersion: numalign.io/v1, kind: Machine, sockets: [{id: 0, cores: 0}],"
        " nodes: [{id: 0, cpus: 0}]}"
    )
    assert str(machine.online) == "0"


def test_the_text_stays_small() -> None:
    assert len(dump(synthetic_machine("2s:8n:16c:2t"))) < 5_000


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 3 << 20, 5 << 30, (1 << 40) + 1024, 7 << 41])
def test_amounts_are_short_and_exact(size: int) -> None:
    assert Quantity.parse(str(amount(size))).value() == size
    assert len(str(amount(size))) <= 13


def test_numbers_in_a_row_are_joined() -> None:
    assert runs([0, 1, 2, 8, 7, 6, 9, 10]) == "0-2 8 7 6 9-10"


HEAD = "apiVersion: numalign.io/v1\nkind: Machine\n"
SMALL = HEAD + "sockets: [{id: 0, cores: 0 1}]\nnodes: [{id: 0, cpus: 0-1}]\n"
BROKEN = {
    "JSON of an unknown key": ('{"apiVersion": "x", "kind": "y", "sort": 1}', "`sort`"),
    "nothing": ("", "Expected `object`, got `null`"),
    "a list": ("- 1\n", "got `array`"),
    "no kind": ("apiVersion: numalign.io/v1\n", "missing required field"),
    "another version": (SMALL.replace("v1", "v2"), "apiVersion and kind"),
    "another kind": (SMALL.replace("Machine", "Pod"), "apiVersion and kind"),
    "an unknown key": (SMALL + "colour: red\n", "unknown field `colour`"),
    "an unknown key inside": (SMALL.replace("id: 0, cpus", "id: 0, ram: 5, cpus"), "`ram`"),
    "a key twice": (SMALL + "name: a\nname: b\n", "'name' comes 2 times"),
    "an alias": (SMALL + "notes: [&a x, *a]\n", "aliases are not allowed"),
    "a tag": (SMALL + "name: !!python/object/apply:os.system [ls]\n", "could not determine"),
    "not YAML": ("{a: b", "unreadable text"),
    "too deep": ("[" * 100_000, "more than 10 levels"),
    "a control character": (SMALL + "name: a\x07b\n", "unreadable text"),
    "no CPUs": (HEAD + "sockets: []\nnodes: [{id: 0}]\n", "no online CPU"),
    "no nodes": (HEAD + "sockets: [{id: 0, cores: 0}]\nnodes: []\n", "no NUMA node"),
    "a CPU in two cores": (SMALL.replace("0 1}", "0 0-1}"), "sockets 0 cores: found 0-1"),
    "a CPU in two sockets": (
        SMALL.replace("}]\nnodes", "}, {id: 1, cores: 1}]\nnodes"),
        "each once",
    ),
    "a CPU of no socket": (SMALL.replace("0-1}", "0-2}"), "nodes 0 cpus: found 2"),
    "a set that is none": (SMALL.replace("0-1}", "0..1}"), "nodes 0 cpus: found '0..1'"),
    "a huge CPU": (SMALL.replace("0 1}", "0 999999}"), "sockets 0 cores: found '999999'"),
    "an amount that is none": (SMALL + "memory: lots\n", "memory: found 'lots'"),
    "negative memory": (SMALL + "memory: -5\n", "-5 bytes of memory"),
    "too few core ids": (SMALL.replace("0 1}", "0 1, coreIds: 3}"), "coreIds: found 1 numbers"),
    "wrong core ids": (SMALL.replace("0 1}", "0 1, coreIds: a}"), "coreIds: found 'a'"),
    "a run of billions": (
        SMALL.replace("0 1}", "0 1, coreIds: 0-999999999999}"),
        "coreIds: found '0-999999999999'",
    ),
    "a cache of no place": (SMALL + "caches: [{level: 3, type: Data, size: 1}]\n", "one of them"),
    "a cache of two places": (
        SMALL + "caches: [{level: 3, type: Data, size: 1, per: core, cpus: 0}]\n",
        "one of them",
    ),
    "a type of no cache": (SMALL + "caches: [{level: 3, type: X, size: 1, per: core}]\n", "'X'"),
    "a device of no address": (
        SMALL + "devices: [{address: here}]\n",
        "devices address: found here",
    ),
    "a device of no code": (
        SMALL + "devices: [{address: 0000:00:00.0, vendor: intel}]\n",
        "vendor: found 'intel'",
    ),
    "a device on no node": (
        SMALL + "devices: [{address: 0000:00:00.0, node: 3}]\n",
        "node: found 3",
    ),
    "too few distances": (
        SMALL.replace("cpus: 0-1", "cpus: 0-1, distances: [10, 20]"),
        "2 distances for NUMA node 0",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_clear_error_that_names_the_place(text: str, message: str) -> None:
    with pytest.raises(DiscoveryError) as caught:
        load(text, "broken.yaml")
    assert message in str(caught.value)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefghi")]
    with pytest.raises(DiscoveryError, match="aliases are not allowed"):
        load("\n".join(lines))


def test_a_text_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_yaml, "TEXT_CHARACTERS_MAX", 10)
    with pytest.raises(DiscoveryError, match="at most 10"):
        load(SMALL)


def test_the_examples_in_the_reference_can_be_loaded() -> None:
    blocks = REFERENCE.read_text().split("```yaml\n")[1:]
    assert blocks
    for block in blocks:
        machine = load(block.partition("```")[0])
        assert load(dump(machine)) == machine
