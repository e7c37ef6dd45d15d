"""cAdvisor's machine info gives the machine that the kubelet works with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from numalign.core.errors import DiscoveryError
from numalign.core.machine.kubelet_view import machine_info
from numalign.core.machine.machine import CacheKind, HugePages, Machine
from numalign.core.machine.synthetic import synthetic_machine
from numalign.wire.machine.cadvisor_json import read_cadvisor_json


def _spec(machine: Machine) -> dict[str, Any]:
    """What cAdvisor would print of this machine, with fields that we do not read."""
    info = machine_info(machine)
    names = sorted(info.nodes, key=lambda node: f"node{node.id}")  # its order is that of names
    return {
        "timestamp": "2026-11-16T00:00:00Z",
        "num_cores": info.cpu_count,
        "num_physical_cores": len(machine.cores),
        "num_sockets": info.socket_count,
        "memory_capacity": info.memory_bytes,
        "machine_id": "abc",
        "topology": [_node(machine, node.id) for node in names],
    }


def _node(machine: Machine, number: int) -> dict[str, Any]:
    node = next(node for node in machine.nodes if node.id == number)
    info = next(node for node in machine_info(machine).nodes if node.id == number)
    shared = [c for c in machine.caches if c.level > 2 and c.cpus == node.cpus]
    return {
        "node_id": number,
        "memory": node.memory_bytes,
        "hugepages": [
            {"page_size": pages.size_bytes >> 10, "num_pages": pages.count}
            for pages in node.hugepages
        ],
        "distances": list(node.distances) if node.distances else None,
        "cores": [
            {
                "core_id": machine.cpu_by_id[core.threads[0]].core_id,
                "thread_ids": list(core.threads),
                "caches": _caches(machine, core.threads[0], node.cpus.mask, up_to_2=True),
                "uncore_caches": _caches(machine, core.threads[0], node.cpus.mask, up_to_2=False),
                "socket_id": core.socket,
                "book_id": "",
            }
            for core in info.cores
        ]
        or None,
        "caches": [_cache(cache) for cache in shared],
    }


def _caches(machine: Machine, cpu: int, node: int, *, up_to_2: bool) -> list[dict[str, Any]] | None:
    found = [
        _cache(c)
        for c in machine.caches
        if cpu in c.cpus and (c.level <= 2) == up_to_2 and (up_to_2 or c.cpus.mask != node)
    ]
    return found or None


def _cache(cache: Any) -> dict[str, Any]:
    size, kind = cache.size_bytes, cache.kind.value
    return {"id": cache.id, "size": size, "type": kind, "level": cache.level}


def _read(spec: dict[str, Any]) -> Machine:
    return read_cadvisor_json(json.dumps(spec).encode(), "spec.json", "node-1")


@pytest.mark.parametrize(
    "shape",
    [
        "1c",
        "2s:1n:4c:2t,hp2Mi=5,hp1Gi=1",
        "2s:2n:4c:2t,l3=2,ht=adjacent",
        "12s:1n:1c",
        "1s:2n:2c,cxl=1",
    ],
)
def test_what_the_kubelet_sees_is_the_same_by_either_way(shape: str) -> None:
    machine = synthetic_machine(shape)
    found = _read(_spec(machine))
    assert machine_info(found) == machine_info(machine)
    assert found.caches == machine.caches
    assert found.cores == machine.cores
    assert found.notes == ()


SPEC = {
    "num_cores": 2,
    "num_sockets": 1,
    "memory_capacity": 4096,
    "topology": [
        {
            "node_id": 0,
            "memory": 4096,
            "hugepages": [{"page_size": 2048, "num_pages": 3}],
            "cores": [
                {
                    "core_id": 5,
                    "thread_ids": [1, 0],
                    "caches": [{"id": 7, "size": 32768, "type": "Data", "level": 1}],
                    "uncore_caches": None,
                    "socket_id": 3,
                }
            ],
        }
    ],
}


def test_a_report_is_read_field_by_field() -> None:
    machine = _read(SPEC)
    assert machine.name == "node-1"
    assert [(c.id, c.node, c.socket, c.core, c.core_id) for c in machine.cpus] == [
        (0, 0, 3, 0, 5),
        (1, 0, 3, 0, 5),
    ]
    assert machine.nodes[0].hugepages == (HugePages(2 << 20, 3),)
    [cache] = machine.caches
    assert (cache.kind, str(cache.cpus), cache.id) == (CacheKind.DATA, "0-1", 7)


def test_counts_that_contradict_the_topology_are_noted() -> None:
    notes = _read(SPEC | {"num_cores": 9, "num_sockets": 4}).notes
    assert notes == (
        "num_cores is 9, but the topology has 2 CPUs",
        "num_sockets is 4, but the topology has 1 sockets",
    )


def _with_core(**changes: object) -> dict[str, Any]:
    core = SPEC["topology"][0]["cores"][0] | changes
    return SPEC | {"topology": [SPEC["topology"][0] | {"cores": [core]}]}


BROKEN = {
    "no topology": {"num_cores": 3},
    "an empty topology": {"topology": []},
    "a topology of text": {"topology": "none"},
    "a node twice": SPEC | {"topology": [*SPEC["topology"], *SPEC["topology"]]},
    "a thread twice": _with_core(thread_ids=[0, 0]),
    "a negative thread": _with_core(thread_ids=[-1]),
    "a huge thread": _with_core(thread_ids=[10**9]),
    "a thread of text": _with_core(thread_ids=["0"]),
    "no threads": _with_core(thread_ids=None),
    "a cache of no kind": _with_core(caches=[{"id": 0, "size": 1, "type": "Odd", "level": 1}]),
    "a cache of no level": _with_core(caches=[{"id": 0, "size": 1, "type": "Data", "level": 0}]),
    "negative memory": SPEC | {"memory_capacity": -5},
}


@pytest.mark.parametrize("spec", BROKEN.values(), ids=BROKEN)
def test_a_broken_report_is_one_clear_error(spec: dict[str, Any]) -> None:
    with pytest.raises(DiscoveryError, match=r"found .*, expected"):
        _read(spec)
