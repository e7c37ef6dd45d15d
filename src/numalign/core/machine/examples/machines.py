"""How each built-in machine is put together. ``examples`` names and describes them.

Shapes, caches, CPU numbers, distances and PCI ids are those that Linux shows on the real
machines; memory is a little less than was bought, because Linux keeps some for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from numalign.core.machine.blueprint import (
    GIB,
    MIB,
    Blueprint,
    Numbering,
    build,
    with_distances,
    with_memory_nodes,
)
from numalign.core.machine.examples import devices as dev
from numalign.core.machine.examples.devices import pci, virtual_functions
from numalign.core.machine.machine import HugePages, Machine, MemoryPath, PciDevice
from numalign.core.values.sets import CpuSet


def _usable(gib: int) -> int:
    """What Linux has left of so much memory: one 64th goes into its own page tables."""
    return gib * GIB // 64 * 63 - 300 * MIB


def _with_devices(machine: Machine, *devices: PciDevice) -> Machine:
    return replace(machine, devices=tuple(sorted(devices, key=lambda d: d.address)))


def vm_2cpu() -> Machine:
    """A small virtual machine: one core, one node, devices that are nowhere."""
    plan = Blueprint(
        name="vm-2cpu",
        cores_per_socket=1,
        threads_per_core=2,
        l1d_bytes=48 * 1024,
        l2_bytes=2 * MIB,
        l3_bytes=35 * MIB,
        node_memory_bytes=_usable(4),
        numbering=Numbering.ADJACENT,
    )
    # A hypervisor with one node does not say where its devices are.
    return _with_devices(
        with_distances(build(plan), lambda _start, _end: 10),
        pci(dev.VIRTIO_NET, "0000:00:03.0", None, "eth0"),
        pci(dev.VIRTIO_BLOCK, "0000:00:04.0", None, "vda"),
    )


def edge_nosmt() -> Machine:
    """One socket whose second threads are offline."""
    plan = Blueprint(
        name="edge-nosmt",
        cores_per_socket=20,
        l1d_bytes=48 * 1024,
        l2_bytes=5 * MIB // 4,
        l3_bytes=30 * MIB,
        node_memory_bytes=_usable(128),
        hugepages=(HugePages(2 * MIB, 0), HugePages(GIB, 64)),
    )
    machine = _with_devices(
        with_distances(build(plan), lambda _start, _end: 10),
        pci(dev.E810, "0000:51:00.0", 0, "ens1f0"),
        pci(dev.E810, "0000:51:00.1", 0, "ens1f1"),
        *virtual_functions(dev.E810_VF, "0000:51", 0, 16),
        pci(dev.QAT, "0000:f3:00.0", 0),
        pci(dev.NVME, "0000:65:00.0", 0, "nvme0n1"),
    )
    return replace(
        machine,
        offline=CpuSet.of(range(20, 40)),
        notes=("the second thread of each core is offline (nosmt)",),
    )


def xeon_2s() -> Machine:
    """Two sockets, one node each."""
    plan = Blueprint(
        name="xeon-2s",
        sockets=2,
        cores_per_socket=28,
        threads_per_core=2,
        l1d_bytes=48 * 1024,
        l2_bytes=5 * MIB // 4,
        l3_bytes=42 * MIB,
        node_memory_bytes=_usable(256),
        hugepages=(HugePages(2 * MIB, 1024), HugePages(GIB, 32)),
    )
    return _with_devices(
        with_distances(build(plan), lambda _start, _end: 20),
        pci(dev.CONNECTX_6, "0000:17:00.0", 0, "ens1f0np0"),
        pci(dev.CONNECTX_6, "0000:17:00.1", 0, "ens1f1np1"),
        *virtual_functions(dev.CONNECTX_6_VF, "0000:17", 0, 8),
        pci(dev.A30, "0000:31:00.0", 0),
        pci(dev.NVME, "0000:65:00.0", 0, "nvme0n1"),
        pci(dev.A30, "0000:b1:00.0", 1),
        pci(dev.X710, "0000:98:00.0", 1, "ens5f0"),
        pci(dev.NVME, "0000:e3:00.0", 1, "nvme1n1"),
    )


def xeon_2s_snc2() -> Machine:
    """Two sockets, each cut into two nodes over one L3."""
    plan = Blueprint(
        name="xeon-2s-snc2",
        sockets=2,
        nodes_per_socket=2,
        cores_per_socket=56,
        threads_per_core=2,
        l1d_bytes=48 * 1024,
        l2_bytes=2 * MIB,
        l3_bytes=105 * MIB,
        node_memory_bytes=_usable(256),
        hugepages=(HugePages(2 * MIB, 0), HugePages(GIB, 16)),
    )
    # Each half of a socket is a node, and the kernel still shows one L3 for the whole socket.
    return _with_devices(
        with_distances(build(plan), lambda a, b: 12 if a // 2 == b // 2 else 21),
        pci(dev.CONNECTX_6, "0000:2a:00.0", 0, "ens2f0np0"),
        pci(dev.H100, "0000:3d:00.0", 1),
        pci(dev.NVME, "0000:44:00.0", 1, "nvme0n1"),
        pci(dev.CONNECTX_6, "0000:ab:00.0", 2, "ens6f0np0"),
        pci(dev.H100, "0000:bd:00.0", 3),
        pci(dev.NVME, "0000:c4:00.0", 3, "nvme1n1"),
    )


def xeon_2s_cxl() -> Machine:
    """Two sockets and a node with memory only."""
    plan = Blueprint(
        name="xeon-2s-cxl",
        sockets=2,
        cores_per_socket=32,
        threads_per_core=2,
        l1d_bytes=48 * 1024,
        l2_bytes=2 * MIB,
        l3_bytes=160 * MIB,
        node_memory_bytes=_usable(512),
        hugepages=(HugePages(2 * MIB, 4096), HugePages(GIB, 0)),
    )
    near = {(0, 2), (2, 0)}
    machine = with_distances(
        with_memory_nodes(build(plan), [_usable(256)]),
        lambda a, b: 14 if (a, b) in near else 24 if 2 in (a, b) else 21,
    )
    machine = _with_devices(
        machine,
        pci(dev.CONNECTX_6, "0000:2a:00.0", 0, "ens2f0np0"),
        pci(dev.NVME, "0000:44:00.0", 0, "nvme0n1"),
        pci(dev.NVME, "0000:c4:00.0", 1, "nvme1n1"),
    )
    return replace(
        machine,
        memory_paths=(
            MemoryPath(0, 0, 105, 105, 262_144, 262_144),
            MemoryPath(0, 2, 245, 245, 49_152, 49_152),
            MemoryPath(1, 1, 105, 105, 262_144, 262_144),
            MemoryPath(1, 2, 385, 385, 24_576, 24_576),
        ),
    )


def xeon_4s() -> Machine:
    """Four sockets with CPU numbers dealt in turn."""
    plan = Blueprint(
        name="xeon-4s",
        sockets=4,
        cores_per_socket=24,
        threads_per_core=2,
        l3_bytes=36_608 * 1024,
        node_memory_bytes=_usable(384),
        hugepages=(HugePages(2 * MIB, 2048), HugePages(GIB, 0)),
        numbering=Numbering.ROUND_ROBIN,
    )
    return _with_devices(
        with_distances(build(plan), lambda _start, _end: 21),
        pci(dev.X710, "0000:18:00.0", 0, "p1p1"),
        pci(dev.X710, "0000:18:00.1", 0, "p1p2"),
        pci(dev.NVME, "0000:5e:00.0", 1, "nvme0n1"),
        pci(dev.NVME, "0000:86:00.0", 2, "nvme1n1"),
        pci(dev.CONNECTX_6, "0000:d8:00.0", 3, "p7p1"),
    )


def xeon_8s() -> Machine:
    """Eight sockets, some of them two hops apart."""
    plan = Blueprint(
        name="xeon-8s",
        sockets=8,
        cores_per_socket=16,
        threads_per_core=2,
        l3_bytes=22 * MIB,
        node_memory_bytes=_usable(768),
        hugepages=(HugePages(2 * MIB, 0), HugePages(GIB, 64)),
    )
    # Each socket has links to three others: those beside it, and one across.
    linked = {(a, b) for a in range(8) for b in (a ^ 1, a ^ 2, a ^ 4)}
    return _with_devices(
        with_distances(build(plan), lambda a, b: 21 if (a, b) in linked else 31),
        pci(dev.CONNECTX_6, "0000:17:00.0", 0, "ens1f0np0"),
        pci(dev.CONNECTX_6, "0001:17:00.0", 4, "ens9f0np0"),
        *(pci(dev.NVME, f"{i // 4:04x}:5{i % 4}:00.0", i, f"nvme{i}n1") for i in range(8)),
    )


def epyc_2s_nps4() -> Machine:
    """Two sockets of four nodes with two L3 each."""
    plan = Blueprint(
        name="epyc-2s-nps4",
        sockets=2,
        nodes_per_socket=4,
        l3_per_socket=8,
        cores_per_socket=64,
        threads_per_core=2,
        l2_bytes=MIB // 2,
        l3_bytes=32 * MIB,
        node_memory_bytes=_usable(128),
        hugepages=(HugePages(2 * MIB, 512), HugePages(GIB, 8)),
    )
    return _with_devices(
        with_distances(build(plan), lambda a, b: 12 if a // 4 == b // 4 else 32),
        *(
            pci(dev.A30, f"0000:{bus:02x}:00.0", node)
            for bus, node in ((0x61, 0), (0x41, 1), (0xE1, 4), (0xC1, 5))
        ),
        pci(dev.CONNECTX_6, "0000:21:00.0", 2, "enp33s0np0"),
        pci(dev.CONNECTX_6, "0000:a1:00.0", 6, "enp161s0np0"),
        *(pci(dev.NVME, f"0000:0{i + 1}:00.0", 3, f"nvme{i}n1") for i in range(4)),
        *(pci(dev.NVME, f"0000:8{i + 1}:00.0", 7, f"nvme{i + 4}n1") for i in range(4)),
    )


def gb200() -> Machine:
    """Two nodes with CPUs and 32 nodes of GPU memory."""
    plan = Blueprint(
        name="gb200",
        sockets=2,
        cores_per_socket=72,
        l1d_bytes=64 * 1024,
        l1i_bytes=64 * 1024,
        l3_bytes=114 * MIB,
        node_memory_bytes=_usable(488),
        hugepages=(HugePages(2 * MIB, 0), HugePages(512 * MIB, 64), HugePages(16 * GIB, 0)),
    )
    # Eight nodes for each of four GPUs. The first has the memory of the whole GPU; the
    # other seven stay empty until the GPU is cut into MIG instances.
    gpu_memory = [184 * GIB if i % 8 == 0 else 0 for i in range(32)]
    machine = with_distances(with_memory_nodes(build(plan), gpu_memory), _gb200_distance)
    return _with_devices(
        machine,
        *(pci(dev.B200, f"00{bus}:01:00.0", node) for bus, node in _GB200_GPUS),
        pci(dev.CONNECTX_7, "0000:03:00.0", 0, "ibp3s0"),
        pci(dev.CONNECTX_7, "0002:03:00.0", 0, "ibP2p3s0"),
        pci(dev.BLUEFIELD_3, "0006:01:00.0", 0, "enP6p1s0f0np0"),
        pci(dev.CONNECTX_7, "0010:03:00.0", 1, "ibP16p3s0"),
        pci(dev.CONNECTX_7, "0012:03:00.0", 1, "ibP18p3s0"),
        pci(dev.NVME, "0005:01:00.0", 0, "nvme0n1"),
        pci(dev.NVME, "0015:01:00.0", 1, "nvme1n1"),
    )


_GB200_GPUS: Final = (("08", 0), ("09", 0), ("18", 1), ("19", 1))


def _gb200_distance(start: int, end: int) -> int:
    cpu_nodes = (start < 2) + (end < 2)
    if cpu_nodes == 2:
        return 40
    if cpu_nodes == 0:
        return 11 if (start - 2) // 8 == (end - 2) // 8 else 160
    low, high = sorted((start, end))
    return 80 if (high - 2) // 16 == low else 120
