"""A Machine from cAdvisor's machine info, as the kubelet prints it at ``/spec``.

This is the very input of the kubelet's decisions, but less than sysfs shows: caches have no
CPUs of their own and are joined here by their ids, and there are no dies and no devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import (
    KIB,
    Cache,
    CacheKind,
    Cpu,
    HugePages,
    Machine,
    NumaNode,
    cache_order,
    validate,
)
from numalign.core.values.sets import ID_MAX, CpuSet, mask_of
from numalign.wire.faults import DECODE_FAULTS

_KINDS: Final = {kind.value: kind for kind in CacheKind}


class _Pages(msgspec.Struct):
    page_size: int  # in KiB
    num_pages: int = 0


class _Cache(msgspec.Struct):
    level: int
    type: str
    size: int = 0
    id: int = 0


class _Core(msgspec.Struct):
    core_id: int
    thread_ids: list[int] | None = None  # Go writes null for an empty list
    caches: list[_Cache] | None = None
    uncore_caches: list[_Cache] | None = None
    socket_id: int = 0


class _Node(msgspec.Struct):
    node_id: int
    memory: int = 0
    hugepages: list[_Pages] | None = None
    distances: list[int] | None = None
    cores: list[_Core] | None = None
    caches: list[_Cache] | None = None


class _MachineInfo(msgspec.Struct):
    topology: list[_Node]
    num_cores: int = 0
    num_sockets: int = 0
    memory_capacity: int = 0


def read_cadvisor_json(data: bytes, source: str, name: str = "") -> Machine:
    """The machine that cAdvisor reports; DiscoveryError where the text is no such report."""
    try:
        info = msgspec.json.decode(data, type=_MachineInfo)
    except DECODE_FAULTS as exc:
        raise DiscoveryError(
            source, f"unreadable JSON ({exc})", "machine info of cAdvisor", "Fetch /spec again."
        ) from exc
    found = sorted(info.topology, key=lambda node: node.node_id)
    cpus = _cpus(found, source)
    return validate(
        Machine(
            name=name or source,
            nodes=tuple(_node(node) for node in found),
            cpus=cpus,
            memory_bytes=info.memory_capacity or sum(node.memory for node in found),
            caches=_caches(found, source),
            notes=tuple(_contradictions(info, cpus)),
        )
    )


def _cpus(found: list[_Node], source: str) -> tuple[Cpu, ...]:
    cpus = {}
    for node in found:
        for core in node.cores or ():
            for thread in _threads(core, source):
                if thread in cpus:
                    raise DiscoveryError(source, f"CPU {thread} twice", "each CPU once")
                first = min(_threads(core, source))
                cpus[thread] = Cpu(thread, node.node_id, core.socket_id, first, core.core_id)
    return tuple(cpus[cpu] for cpu in sorted(cpus))


def _threads(core: _Core, source: str) -> list[int]:
    threads = core.thread_ids or []
    for thread in threads:
        if not 0 <= thread <= ID_MAX:
            raise DiscoveryError(source, f"the CPU number {thread}", f"0 to {ID_MAX}")
    return threads


def _node(node: _Node) -> NumaNode:
    pages = sorted((p.page_size * KIB, p.num_pages) for p in node.hugepages or ())
    return NumaNode(
        id=node.node_id,
        cpus=CpuSet.of(thread for core in node.cores or () for thread in core.thread_ids or ()),
        memory_bytes=node.memory,
        hugepages=tuple(HugePages(size, count) for size, count in pages),
        distances=tuple(node.distances) if node.distances else None,
    )


def _caches(found: list[_Node], source: str) -> tuple[Cache, ...]:
    """Caches with one level, kind and id are one cache, whichever core reports it."""
    masks: dict[tuple[int, CacheKind, int], int] = {}
    sizes: dict[tuple[int, CacheKind, int], int] = {}
    for cache, mask in _reported(found, source):
        kind = _KINDS.get(cache.type)
        if kind is None or cache.level < 1:
            raise DiscoveryError(
                source, f"a cache of type {cache.type!r}, level {cache.level}", "a kernel's cache"
            )
        key = (cache.level, kind, cache.id)
        masks[key] = masks.get(key, 0) | mask
        sizes[key] = cache.size
    caches = [
        Cache(level, kind, sizes[level, kind, number], CpuSet(mask), number)
        for (level, kind, number), mask in masks.items()
    ]
    return tuple(sorted(caches, key=cache_order))


def _reported(found: list[_Node], source: str) -> Iterable[tuple[_Cache, int]]:
    for node in found:
        whole = 0
        for core in node.cores or ():
            mask = mask_of(_threads(core, source))
            whole |= mask
            for cache in (*(core.caches or ()), *(core.uncore_caches or ())):
                yield cache, mask
        for cache in node.caches or ():
            yield cache, whole


def _contradictions(info: _MachineInfo, cpus: tuple[Cpu, ...]) -> Iterable[str]:
    sockets = len({cpu.socket for cpu in cpus})
    if info.num_cores != len(cpus):
        yield f"num_cores is {info.num_cores}, but the topology has {len(cpus)} CPUs"
    if info.num_sockets != sockets:
        yield f"num_sockets is {info.num_sockets}, but the topology has {sockets} sockets"
