"""A machine from what the kubelet knows of it, which is all that a host publishes.

Cores, sockets, nodes and distances are there. Caches are known only where an L3 serves a part of a
NUMA node, and without their size; PCI devices and the kernel's numbers of cores are not.
"""

from __future__ import annotations

from numalign.core.machine.kubelet_view import MachineInfo, NodeInfo
from numalign.core.machine.machine import Cache, CacheKind, Cpu, Machine, NumaNode, cache_order
from numalign.core.values.sets import CpuSet

SIZE_UNKNOWN = 0


def machine_of(info: MachineInfo, name: str) -> Machine:
    cpus = [
        Cpu(cpu, node.id, core.socket, min(core.threads), number)
        for node in info.nodes
        for number, core in enumerate(node.cores)
        for cpu in core.threads
    ]
    return Machine(
        name,
        tuple(sorted((_node(node) for node in info.nodes), key=lambda node: node.id)),
        tuple(sorted(cpus, key=lambda cpu: cpu.id)),
        info.memory_bytes,
        tuple(sorted(_caches(info), key=cache_order)),
        notes=("this is what the host publishes: without PCI devices and sizes of caches",),
    )


def _node(node: NodeInfo) -> NumaNode:
    own = CpuSet.of(cpu for core in node.cores for cpu in core.threads)
    return NumaNode(node.id, own, node.memory_bytes, node.hugepages, node.distances)


def _caches(info: MachineInfo) -> list[Cache]:
    found: dict[tuple[int, int], list[int]] = {}  # by socket and number
    for node in info.nodes:
        for core in node.cores:
            if core.uncore is not None:
                found.setdefault((core.socket, core.uncore), []).extend(core.threads)
    return [
        Cache(3, CacheKind.UNIFIED, SIZE_UNKNOWN, CpuSet.of(cpus), number)
        for (_, number), cpus in found.items()
    ]
