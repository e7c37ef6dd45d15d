"""A machine from a short text, for trying things out: ``2s:1n:16c:2t,mem=96Gi,gpu=2``.

The shape comes first, its parts in this order with colons between them:

    2s   sockets (1 unless told)
    1n   NUMA nodes in each socket (1 unless told)
    16c  cores in each NUMA node
    2t   threads in each core (1 unless told)

Options follow, with commas between them, each at most once:

    mem=96Gi          memory of each NUMA node (64Gi unless told), huge pages included
    hp2Mi=1024        huge pages of one size on each NUMA node; likewise hp1Gi and the like
    gpu=2             devices on each NUMA node; likewise nic, nvme and accel
    l3=2              L3 caches in each NUMA node (1 unless told)
    d=2               dies in each socket (1 unless told)
    ht=adjacent       threads of a core have numbers side by side; split, as on most machines,
                      gives the first threads of all cores the lower numbers
    cxl=2             nodes of memory without CPUs, on the sockets in turn
    cxlmem=256Gi      memory of each of them (as mem unless told)
    dist=12/32        distance within a socket and between sockets (12/21, or 12/32 with
                      several NUMA nodes in a socket), and with dist=12/32/17/28 also from a
                      memory without CPUs to its own socket and to all else

So ``2s:1n:16c:2t`` has 64 CPUs: core 0 of socket 0 has the CPUs 0 and 32.
"""

from __future__ import annotations

from typing import Final

from numalign.core.machine.machine import (
    SELF_DISTANCE,
    Cache,
    CacheKind,
    Cpu,
    DeviceKind,
    HugePages,
    Machine,
    NumaNode,
    PciDevice,
    cache_order,
    validate,
)
from numalign.core.machine.pci_class import TYPICAL_CLASS
from numalign.core.machine.synthetic_plan import DEVICE_OPTIONS, Plan, looks_synthetic, plan_of
from numalign.core.values.sets import CpuSet

__all__ = ["looks_synthetic", "synthetic_machine"]

_L1_BYTES: Final = 32 << 10
_L2_BYTES: Final = 1 << 20
_L3_BYTES: Final = 32 << 20
_DEVICES: Final = {
    "gpu": (DeviceKind.GPU, 0x10DE, 0x20B5, "gpu"),
    "nic": (DeviceKind.NIC, 0x8086, 0x1592, "eth"),
    "nvme": (DeviceKind.NVME, 0x144D, 0xA80A, "nvme"),
    "accel": (DeviceKind.ACCELERATOR, 0x8086, 0x0B25, "accel"),
}


def synthetic_machine(text: str) -> Machine:
    """The machine that a text asks for; DiscoveryError naming the part that makes no sense."""
    plan = plan_of(text)
    nodes = tuple(_node(plan, node) for node in range(plan.node_count + plan.cxl_count))
    devices = [device for node in range(plan.node_count) for device in _devices(plan, node)]
    return validate(
        Machine(
            name=text,
            nodes=nodes,
            cpus=tuple(sorted(_cpus(plan), key=lambda cpu: cpu.id)),
            memory_bytes=sum(node.memory_bytes for node in nodes),
            caches=tuple(sorted(_caches(plan), key=cache_order)),
            devices=tuple(sorted(devices, key=lambda device: device.address)),
        )
    )


def _cpus(plan: Plan) -> list[Cpu]:
    cores_per_die = plan.cores_per_socket // plan.counts.get("d", 1)
    return [
        Cpu(
            id=plan.cpu(core, thread),
            node=core // plan.cores_per_node,
            socket=core // plan.cores_per_socket,
            core=plan.cpu(core, 0),
            core_id=core % plan.cores_per_socket,
            die=core % plan.cores_per_socket // cores_per_die,
        )
        for core in range(plan.core_count)
        for thread in range(plan.threads)
    ]


def _cores_cpus(plan: Plan, first: int, count: int) -> CpuSet:
    cores = range(first, first + count)
    return CpuSet.of(plan.cpu(core, thread) for core in cores for thread in range(plan.threads))


def _node(plan: Plan, node: int) -> NumaNode:
    total = plan.node_count + plan.cxl_count
    distances = tuple(_distance(plan, node, other) for other in range(total))
    if node >= plan.node_count:
        return NumaNode(node, CpuSet(), plan.cxl_memory_bytes, (), distances)
    return NumaNode(
        id=node,
        cpus=_cores_cpus(plan, node * plan.cores_per_node, plan.cores_per_node),
        memory_bytes=plan.memory_bytes,
        hugepages=tuple(HugePages(size, count) for size, count in plan.hugepages.items()),
        distances=distances,
    )


def _distance(plan: Plan, start: int, end: int) -> int:
    same, other, near, far = plan.distances
    if start == end:
        return SELF_DISTANCE
    together = _socket_of(plan, start) == _socket_of(plan, end)
    memories = (start >= plan.node_count) + (end >= plan.node_count)
    if memories:
        return near if together and memories == 1 else far
    return same if together else other


def _socket_of(plan: Plan, node: int) -> int:
    beyond = node - plan.node_count
    return beyond % plan.sockets if beyond >= 0 else node // plan.nodes_per_socket


def _caches(plan: Plan) -> list[Cache]:
    caches = []
    for core in range(plan.core_count):
        cpus = _cores_cpus(plan, core, 1)
        caches += [
            Cache(1, CacheKind.DATA, _L1_BYTES, cpus, core),
            Cache(1, CacheKind.INSTRUCTION, _L1_BYTES, cpus, core),
            Cache(2, CacheKind.UNIFIED, _L2_BYTES, cpus, core),
        ]
    width = plan.cores_per_node // plan.counts.get("l3", 1)
    for number in range(plan.core_count // width):
        cpus = _cores_cpus(plan, number * width, width)
        caches.append(Cache(3, CacheKind.UNIFIED, _L3_BYTES, cpus, number))
    return caches


def _devices(plan: Plan, node: int) -> list[PciDevice]:
    found = []
    for place, key in enumerate(DEVICE_OPTIONS):
        kind, vendor, device, prefix = _DEVICES[key]
        count = plan.counts.get(key, 0)
        found += [
            PciDevice(
                address=f"{node:04x}:{0x10 * (place + 1):02x}:{i:02x}.0",
                kind=kind,
                class_code=TYPICAL_CLASS[kind],
                vendor_id=vendor,
                device_id=device,
                node=node,
                name=f"{prefix}{node * count + i}",
            )
            for i in range(count)
        ]
    return found
