"""A short text builds exactly the machine that it asks for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.core.errors import DiscoveryError
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import CacheKind, DeviceKind, HugePages
from numalign.core.machine.synthetic import looks_synthetic, synthetic_machine

GIB = 1 << 30


def test_the_text_of_the_manual_gives_64_cpus() -> None:
    machine = synthetic_machine("2s:1n:16c:2t,mem=96Gi,hp2Mi=1024,gpu=2")
    assert (len(machine.cpus), len(machine.cores), len(machine.sockets)) == (64, 32, 2)
    assert [str(node.cpus) for node in machine.nodes] == ["0-15,32-47", "16-31,48-63"]
    assert [node.memory_bytes for node in machine.nodes] == [96 * GIB, 96 * GIB]
    assert machine.nodes[0].hugepages == (HugePages(2 << 20, 1024),)
    assert [node.distances for node in machine.nodes] == [(10, 21), (21, 10)]
    gpus = [(device.kind, device.node) for device in machine.devices]
    assert gpus == [(DeviceKind.GPU, node) for node in (0, 0, 1, 1)]


def test_only_the_cores_must_be_told() -> None:
    machine = synthetic_machine("4c")
    assert (len(machine.cpus), len(machine.nodes), len(machine.sockets)) == (4, 1, 1)
    assert machine.memory_bytes == 64 * GIB


def test_threads_are_split_unless_asked_to_be_adjacent() -> None:
    assert [str(c) for c in synthetic_machine("2c:2t").cores.values()] == ["0,2", "1,3"]
    adjacent = synthetic_machine("2c:2t,ht=adjacent")
    assert [str(c) for c in adjacent.cores.values()] == ["0-1", "2-3"]


def test_l3_caches_cut_a_node_so_that_the_kubelet_sees_uncore_caches() -> None:
    machine = synthetic_machine("1s:2n:4c:2t,l3=2")
    assert [str(c.cpus) for c in machine.caches_of_level(3)] == [
        "0-1,8-9",
        "2-3,10-11",
        "4-5,12-13",
        "6-7,14-15",
    ]
    uncore = [core.uncore for node in machine_info(machine).nodes for core in node.cores]
    assert uncore == [0, 0, 1, 1, 2, 2, 3, 3]


def test_dies_cut_a_socket() -> None:
    machine = synthetic_machine("2s:1n:4c,d=2")
    assert {key: str(cpus) for key, cpus in machine.dies.items()} == {
        (0, 0): "0-1",
        (0, 1): "2-3",
        (1, 0): "4-5",
        (1, 1): "6-7",
    }


def test_memory_without_cpus_is_on_the_sockets_in_turn() -> None:
    machine = synthetic_machine("2s:1n:1c,mem=1Gi,hp2Mi=1,cxl=3,cxlmem=7Gi")
    assert [(str(n.cpus), n.memory_bytes // GIB, len(n.hugepages)) for n in machine.nodes] == [
        ("0", 1, 1),
        ("1", 1, 1),
        ("", 7, 0),
        ("", 7, 0),
        ("", 7, 0),
    ]
    assert machine.nodes[2].distances == (17, 28, 10, 28, 28)
    assert machine.nodes[3].distances == (28, 17, 28, 10, 28)
    assert machine.memory_bytes == 23 * GIB


def test_distances_follow_the_shape_and_may_be_told() -> None:
    assert synthetic_machine("2s:2n:1c").nodes[0].distances == (10, 12, 32, 32)
    told = synthetic_machine("2s:2n:1c,cxl=1,dist=15/40/50/60")
    assert told.nodes[0].distances == (10, 15, 40, 40, 50)
    assert told.nodes[3].distances == (40, 40, 15, 10, 60)
    assert synthetic_machine("2s:1n:1c,cxl=1,dist=15/40").nodes[1].distances == (40, 10, 28)


def test_each_kind_of_device_is_on_each_node() -> None:
    machine = synthetic_machine("2s:1n:1c,gpu=1,nic=2,nvme=1,accel=1")
    kinds = [device.kind for device in machine.devices_on(1)]
    assert sorted(kinds) == ["accelerator", "gpu", "nic", "nic", "nvme"]
    assert len({device.address for device in machine.devices}) == 10
    assert len({device.name for device in machine.devices}) == 10


@settings(max_examples=60, deadline=None)
@given(
    sockets=st.integers(1, 4),
    nodes=st.integers(1, 4),
    cores=st.integers(1, 6),
    threads=st.integers(1, 4),
    ht=st.sampled_from(["split", "adjacent"]),
    cxl=st.integers(0, 3),
)
def test_every_shape_has_the_parts_it_asks_for(
    sockets: int, nodes: int, cores: int, threads: int, ht: str, cxl: int
) -> None:
    text = f"{sockets}s:{nodes}n:{cores}c:{threads}t,ht={ht},cxl={cxl},l3={cores}"
    machine = synthetic_machine(text)
    assert machine.name == text
    assert len(machine.sockets) == sockets
    assert len(machine.nodes) == sockets * nodes + cxl
    assert len(machine.cores) == sockets * nodes * cores
    assert list(machine.online) == list(range(sockets * nodes * cores * threads))
    assert {len(cpus) for cpus in machine.cores.values()} == {threads}
    assert len({(c.socket, c.core_id) for c in machine.cpus}) == len(machine.cores)
    for level in (1, 2, 3):
        caches = machine.caches_of_level(level)
        assert sum(len(cache.cpus) for cache in caches) == len(machine.cpus)
    assert all(c.kind is not CacheKind.INSTRUCTION for c in machine.caches_of_level(1))
    for start in machine.nodes:
        assert start.distances is not None
        assert machine.distance(start.id, start.id) == 10
        for end in machine.nodes:
            assert machine.distance(start.id, end.id) == machine.distance(end.id, start.id)


WRONG = {
    "": "found nothing",
    "2s:1n": "found 2s:1n",
    "2x:4c": "found 2x",
    "4c:2s": "found 4c:2s",
    "0s:4c": "found 0s",
    "2s:0c": "found 0c",
    "12345c": "found 12345c",
    "9s:99n:999c": "found 890109 CPUs",
    "999s:1c": "found 999 NUMA nodes",
    "4c,": "found nothing",
    "4c,mem": "found mem",
    "4c,ram=5": "found ram=5",
    "4c,hp2MB=5": "found hp2MB=5",
    "4c,hp0Mi=5": "found hp0Mi",
    "4c,mem=much": "found mem=much",
    "4c,mem=-1Gi": "found mem=-1Gi",
    "4c,mem=1Gi,mem=2Gi": "found mem=2Gi",
    "4c,mem=1Gi,hp1Gi=2": "huge pages, expected at most mem",
    "4c,l3=3": "found l3=3",
    "4c,l3=0": "found l3=0",
    "4c,d=3": "found d=3",
    "4c,gpu=-1": "found gpu=-1",
    "4c,gpu=33": "found gpu=33",
    "4c,gpu=\u0663": "found gpu=\u0663",
    "4c,ht=maybe": "found ht=maybe",
    "4c,dist=10": "found dist=10",
    "4c,dist=10/999": "found dist=10/999",
    "4c,mem=8Ei,cxl=1": "bytes of memory",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_a_text_that_makes_no_sense_is_one_error_naming_the_part(text: str, message: str) -> None:
    with pytest.raises(DiscoveryError) as caught:
        synthetic_machine(text)
    assert message in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text("0123456789sncthpmegidl=:,/GiMx", max_size=25))
def test_any_text_gives_a_machine_or_one_clear_error(text: str) -> None:
    try:
        synthetic_machine(text)
    except DiscoveryError as exc:
        assert "expected" in str(exc)


def test_texts_meant_as_machines_are_told_from_other_words() -> None:
    assert all(map(looks_synthetic, ["4c", "2s:1n:16c:2t", "2x:4c", "4c,colour=red"]))
    assert not any(map(looks_synthetic, ["", "host", "xeon-2s", "4node.tar.xz", "./4c/x"]))
