"""Short texts about parts of a machine."""

from numalign.core.machine import labels
from numalign.core.machine.blueprint import Blueprint, build
from numalign.core.machine.machine import DeviceKind, HugePages, MemoryPath, PciDevice
from numalign.core.machine.pci_class import TYPICAL_CLASS, device_kind
from numalign.core.values.sets import CpuSet, NodeSet

GI = 1 << 30
NIC, GPU = TYPICAL_CLASS[DeviceKind.NIC], TYPICAL_CLASS[DeviceKind.GPU]
SMALL = build(Blueprint("m", sockets=2, cores_per_socket=2, threads_per_core=2))


def test_a_shape_counts_every_level():
    assert labels.shape(SMALL) == "2 sockets, 2 NUMA nodes, 4 cores, 8 CPUs, 16 GiB"


def test_nouns_follow_their_number():
    assert labels.nodes(NodeSet.of([3])) == "NUMA node 3"
    assert labels.nodes(NodeSet.of([0, 1])) == "NUMA nodes 0-1"
    assert labels.cpus(CpuSet.of([3])) == "CPU 3"


def test_huge_pages_are_told_largest_first_and_only_where_there_are_some():
    pages = [HugePages(2 << 20, 1024), HugePages(GI, 32), HugePages(64 << 10, 0)]
    assert labels.huge_pages(pages) == "32 x 1 GiB + 1024 x 2 MiB"


def test_virtual_functions_are_counted_apart():
    def device(address, code, *, virtual=False):
        return PciDevice(address, device_kind(code), code, 1, 1, 0, virtual_function=virtual)

    nics = [device("a", NIC), device("b", NIC), device("c", NIC, virtual=True)]
    found = [*nics, device("d", GPU)]
    assert labels.device_counts(found) == "1 GPU, 2 NICs + 1 VFs"
    assert [kind for kind, _ in labels.by_kind(found)] == [DeviceKind.GPU, DeviceKind.NIC]


def test_caches_are_private_only_if_every_core_has_them_alike():
    assert labels.private_caches(SMALL) == "L1d 32 KiB, L1i 32 KiB, L2 1 MiB"


def test_a_path_tells_what_the_firmware_knows():
    assert (
        labels.reading(MemoryPath(0, 1, read_latency_ns=105, read_bandwidth_mib_s=256 << 10))
        == "105 ns, 256 GiB/s"
    )
