"""The short texts about parts of a machine that all its views use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from numalign.core.machine.machine import (
    Cache,
    DeviceKind,
    HugePages,
    Machine,
    MemoryPath,
    NumaNode,
    PciDevice,
)
from numalign.core.machine.nesting import last_level
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.core.values.sizes import counted, human

KIND_ORDER: Final = (
    DeviceKind.GPU,
    DeviceKind.NIC,
    DeviceKind.NVME,
    DeviceKind.STORAGE,
    DeviceKind.ACCELERATOR,
    DeviceKind.OTHER,
)
KIND_NAMES: Final = {
    DeviceKind.GPU: ("GPU", "GPUs"),
    DeviceKind.NIC: ("NIC", "NICs"),
    DeviceKind.NVME: ("NVMe", "NVMe"),
    DeviceKind.STORAGE: ("disk", "disks"),
    DeviceKind.ACCELERATOR: ("accelerator", "accelerators"),
    DeviceKind.OTHER: ("other PCI device", "other PCI devices"),
}


def shape(machine: Machine) -> str:
    """The whole machine in numbers: ``2 sockets, 8 NUMA nodes, 128 cores, 256 CPUs, 1 TiB``."""
    return ", ".join(
        (
            counted(len(machine.sockets), "socket"),
            counted(len(machine.nodes), "NUMA node"),
            counted(len(machine.cores), "core"),
            counted(len(machine.cpus), "CPU"),
            human(machine.memory_bytes),
        )
    )


def memory(node: NumaNode) -> str:
    return human(node.memory_bytes) if node.memory_bytes else "no memory"


def huge_pages(pages: Iterable[HugePages]) -> str:
    """The huge pages that exist, largest first: ``32 x 1 GiB + 1024 x 2 MiB``; may be empty."""
    some = sorted((p for p in pages if p.count), key=lambda p: -p.size_bytes)
    return " + ".join(f"{p.count} x {human(p.size_bytes)}" for p in some)


def reading(path: MemoryPath) -> str:
    """How fast memory is read on a path, as the firmware has it: ``105 ns, 256 GiB/s``."""
    facts = [] if path.read_latency_ns is None else [f"{path.read_latency_ns} ns"]
    if path.read_bandwidth_mib_s is not None:
        facts.append(f"{human(path.read_bandwidth_mib_s << 20)}/s")
    return ", ".join(facts)


def nodes(ids: NodeSet) -> str:
    """The NUMA nodes with their noun: ``NUMA node 3`` or ``NUMA nodes 0-1``."""
    return f"NUMA node {ids}" if len(ids) == 1 else f"NUMA nodes {ids}"


def cpus(ids: CpuSet) -> str:
    """The CPUs with their noun: ``CPU 3`` or ``CPUs 0-3,8``."""
    return f"CPU {ids}" if len(ids) == 1 else f"CPUs {ids}"


def cache(one: Cache) -> str:
    """A cache: ``L3 32 MiB``."""
    return f"L{one.level} {human(one.size_bytes)}"


def device(one: PciDevice) -> str:
    """A device by its name and address, or by its address alone."""
    return f"{one.name} ({one.address})" if one.name else one.address


def by_kind(devices: Sequence[PciDevice]) -> list[tuple[DeviceKind, list[PciDevice]]]:
    """The devices of each kind that there are, the most wanted kinds first."""
    groups = [(kind, [d for d in devices if d.kind is kind]) for kind in KIND_ORDER]
    return [(kind, found) for kind, found in groups if found]


def device_counts(devices: Sequence[PciDevice]) -> str:
    """How many devices of each kind: ``1 GPU, 2 NICs + 8 VFs``; may be empty."""
    real = Counter(d.kind for d in devices if not d.virtual_function)
    virtual = Counter(d.kind for d in devices if d.virtual_function)
    parts = []
    for kind in KIND_ORDER:
        texts = [counted(real[kind], *KIND_NAMES[kind])] if real[kind] else []
        texts += [f"{virtual[kind]} VFs"] if virtual[kind] else []
        parts += [" + ".join(texts)] if texts else []
    return ", ".join(parts)


def private_caches(machine: Machine) -> str:
    """The caches that every core has alike: ``L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB``."""
    letter = {"Data": "d", "Instruction": "i", "Unified": ""}
    cores, shown_apart = set(machine.cores.values()), last_level(machine)
    found: dict[str, list[int]] = {}
    for one in machine.caches:
        if one.cpus in cores and one.level < shown_apart:
            found.setdefault(f"L{one.level}{letter[one.kind]}", []).append(one.size_bytes)
    return ", ".join(
        f"{name} {human(sizes[0])}"
        for name, sizes in sorted(found.items())
        if len(sizes) == len(cores) and len(set(sizes)) == 1
    )
