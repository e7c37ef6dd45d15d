"""sysfs of any kernel and any shape becomes the machine that it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.sources.captures import (
    CPU,
    NODE,
    PCI,
    bitmap,
    small_machine,
    sysfs_files,
    tar_bytes,
    write_tree,
)

from numalign.adapters.sources.filetree import DirTree, MappingTree
from numalign.adapters.sources.sysfs.sysfs import read_machine
from numalign.adapters.sources.sysfs.text import NOTES_MAX, Notes
from numalign.adapters.sources.tartree import tar_tree
from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import DeviceKind, HugePages, Machine, MemoryPath
from numalign.core.machine.synthetic import synthetic_machine
from numalign.core.values.sets import CpuSet

TOPOLOGY = "topology"


def _read(files: dict[str, str]) -> Machine:
    return read_machine(MappingTree(files), "capture")


def _small_files() -> dict[str, str]:
    return sysfs_files(small_machine())


def _same(machine: Machine, expected: Machine) -> None:
    assert replace(machine, name="") == replace(expected, name="")


SHAPES = (
    "1c",
    "2s:1n:16c:2t,mem=96Gi,hp2Mi=1024,hp1Gi=2,gpu=2",
    "2s:4n:4c:2t,l3=2,d=4,nic=1,ht=adjacent",
    "1s:2n:3c:4t,cxl=2,cxlmem=1Gi,nvme=2,accel=1",
)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_machine_reads_the_same_from_mapping_directory_and_archive(
    shape: str, tmp_path: Path
) -> None:
    expected = synthetic_machine(shape)
    files = sysfs_files(expected)
    _same(_read(files), expected)
    _same(read_machine(DirTree(write_tree(tmp_path, files)), "x"), expected)
    _same(read_machine(tar_tree(tar_bytes(files, prefix="x/"), "x"), "x"), expected)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2)
)
def test_every_shape_survives_the_way_through_sysfs(
    sockets: int, nodes: int, cores: int, threads: int, cxl: int
) -> None:
    expected = synthetic_machine(f"{sockets}s:{nodes}n:{cores}c:{threads}t,cxl={cxl},gpu=1")
    _same(_read(sysfs_files(expected)), expected)


def test_offline_cpus_are_told_but_not_used() -> None:
    machine = replace(small_machine(), offline=CpuSet.parse("8-9"))
    _same(_read(sysfs_files(machine)), machine)


def test_without_the_list_of_online_cpus_each_tells_for_itself() -> None:
    files = _small_files()
    del files[f"{CPU}/online"], files[f"{CPU}/present"]
    files[f"{CPU}/cpu7/online"] = "0\n"
    files[f"{CPU}/cpu6/online"] = "1\n"
    machine = _read(files)
    assert (str(machine.online), str(machine.offline)) == ("0-6", "7")


def test_old_kernels_name_siblings_by_other_files() -> None:
    files = _small_files()
    for path in list(files):
        if path.endswith(("/core_cpus", "/core_cpus_list")):
            files[path.replace("core_cpus", "thread_siblings")] = files.pop(path)
    _same(_read(files), small_machine())


def test_lists_stand_in_for_missing_bitmaps() -> None:
    files = {k: v for k, v in _small_files().items() if not k.endswith(("map", "core_cpus"))}
    _same(_read(files), small_machine())


def test_a_node_without_lists_shows_its_cpus_as_links() -> None:
    files = {k: v for k, v in _small_files().items() if not k.endswith(("cpumap", "cpulist"))}
    for node in small_machine().nodes:
        files |= {f"{NODE}/node{node.id}/cpu{cpu}/uevent": "" for cpu in node.cpus}
    _same(_read(files), small_machine())


def test_missing_package_ids_are_numbered_by_shared_packages() -> None:
    files = _small_files()
    for cpu in range(8):
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = "-1\n"
    machine = _read(files)
    assert [str(cpus) for cpus in machine.sockets.values()] == ["0-1,4-5", "2-3,6-7"]
    assert any("package id" in note for note in machine.notes)


def test_threads_of_a_core_are_in_one_socket_even_if_only_one_tells_its_package() -> None:
    files = _small_files()
    for cpu in (3, 7):
        del files[f"{CPU}/cpu{cpu}/topology/physical_package_id"]
    del files[f"{CPU}/cpu7/topology/package_cpus"]
    machine = _read(files)
    assert machine.cpu_by_id[3].socket == machine.cpu_by_id[7].socket
    assert machine.cpu_by_id[7].core == 3


def test_missing_core_ids_become_the_lowest_cpu() -> None:
    files = {k: v for k, v in _small_files().items() if not k.endswith("core_id")}
    assert [cpu.core_id for cpu in _read(files).cpus] == [0, 1, 2, 3, 0, 1, 2, 3]


def test_without_siblings_the_core_ids_of_a_node_tell() -> None:
    files = {k: v for k, v in _small_files().items() if "core_cpus" not in k}
    assert _read(files).cores == small_machine().cores


def test_siblings_with_different_core_ids_are_cores_of_their_own() -> None:
    files = _small_files()
    files[f"{CPU}/cpu4/topology/core_id"] = "9\n"
    machine = _read(files)
    assert [str(cpus) for cpus in machine.cores.values()] == ["0", "1,5", "2,6", "3,7", "4"]
    assert any("CPUs 0,4: threads of one core by name" in note for note in machine.notes)


def test_a_cpu_without_topology_is_left_out_and_noted() -> None:
    files = {k: v for k, v in _small_files().items() if not k.startswith(f"{CPU}/cpu7/")}
    files[f"{CPU}/cpu7/uevent"] = ""
    machine = _read(files)
    assert str(machine.online) == "0-6"
    assert "CPU 7: without a topology; left out, as the kubelet does" in machine.notes
    assert all(7 not in node.cpus for node in machine.nodes)


def test_a_kernel_without_any_topology_has_single_cores_in_one_socket() -> None:
    machine = _read({k: v for k, v in _small_files().items() if TOPOLOGY not in k})
    assert (len(machine.cores), len(machine.sockets)) == (8, 1)
    assert any("no topology" in note for note in machine.notes)


def test_a_kernel_without_numa_is_one_node() -> None:
    files = {k: v for k, v in _small_files().items() if not k.startswith(NODE)}
    files["sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] = "3\n"
    [node] = _read(files).nodes
    assert (node.id, str(node.cpus), node.memory_bytes) == (0, "0-7", 8 << 30)
    assert node.hugepages == (HugePages(2 << 20, 3),)


def test_nodes_that_repeat_each_other_are_one() -> None:
    files = _small_files()
    for node in (0, 1):
        files[f"{NODE}/node{node}/cpumap"] = "ff\n"
    machine = _read(files)
    assert [(n.id, str(n.cpus), n.distances) for n in machine.nodes] == [(0, "0-7", (10,))]
    assert any("NUMA nodes 1 repeat the CPUs 0-7 of node 0" in note for note in machine.notes)


def test_a_cpu_on_two_nodes_is_on_the_smaller_one() -> None:
    files = _small_files()
    files[f"{NODE}/node0/cpumap"] = "ff\n"
    machine = _read(files)
    assert [str(node.cpus) for node in machine.nodes] == ["0-1,4-5", "2-3,6-7"]
    assert any("on a smaller one" in note for note in machine.notes)


def test_numbers_of_nodes_may_have_gaps_and_nodes_no_cpus() -> None:
    machine = small_machine()
    far = replace(machine.nodes[0], id=255, cpus=CpuSet(), distances=(17, 28, 10))
    nodes = tuple(
        replace(node, distances=(*node.distances, 17 + 11 * node.id)) for node in machine.nodes
    )
    expected = replace(machine, nodes=(*nodes, far), memory_bytes=12 << 30)
    _same(_read(sysfs_files(expected)), expected)


def test_cpus_on_no_node_are_noted() -> None:
    files = _small_files()
    files[f"{NODE}/node1/cpumap"] = "0\n"
    machine = _read(files)
    assert machine.cpu_by_id[2].node is None
    assert "CPUs 2-3,6-7: on no NUMA node" in machine.notes


def test_one_cache_with_many_ids_keeps_the_first_and_is_noted() -> None:
    files = _small_files()
    for cpu in (0, 1, 4, 5):
        files[f"{CPU}/cpu{cpu}/cache/index3/id"] = f"{cpu + 20}\n"
    machine = _read(files)
    assert [cache.id for cache in machine.caches_of_level(3)] == [20, 1]
    assert any("has the ids 20, 21, 24, 25" in note for note in machine.notes)


def test_one_id_for_two_caches_is_noted() -> None:
    files = _small_files()
    for cpu in range(8):
        files[f"{CPU}/cpu{cpu}/cache/index3/id"] = "0\n"
    machine = _read(files)
    assert len(machine.caches_of_level(3)) == 2
    assert any("the id 0 stands for 2 L3 Unified caches" in note for note in machine.notes)


def test_an_empty_map_of_a_cache_means_its_own_cpu() -> None:
    files = _small_files()
    for cpu in (0, 4):
        files[f"{CPU}/cpu{cpu}/cache/index2/shared_cpu_map"] = "0\n"
    l2 = _read(files).caches_of_level(2)
    assert [str(cache.cpus) for cache in l2] == ["0", "1,5", "2,6", "3,7", "4"]


def test_the_firmware_names_initiators_with_and_without_cpus() -> None:
    files = _small_files()
    for access, node in (("access0", 1), ("access1", 0)):
        base = f"{NODE}/node1/{access}/initiators"
        files |= {
            f"{base}/node{node}/uevent": "",
            f"{base}/node77/uevent": "",
            f"{base}/read_latency": f"{80 + node}\n",
            f"{base}/write_bandwidth": "0\n",
        }
    assert _read(files).memory_paths == (MemoryPath(0, 1, 80), MemoryPath(1, 1, 81))


def test_memory_side_caches_are_noted() -> None:
    files = _small_files()
    files[f"{NODE}/node1/memory_side_cache/index1/size"] = "96\n"
    assert "the memory of NUMA nodes 1 stands behind memory-side caches" in _read(files).notes


def test_a_machine_with_more_memory_than_its_nodes_is_noted() -> None:
    files = _small_files() | {"proc/meminfo": "MemTotal: 99999999 kB\n"}
    assert any("its NUMA nodes" in note for note in _read(files).notes)


DEVICES = {
    "0x020000": DeviceKind.NIC,
    "0x020700": DeviceKind.NIC,
    "0x028000": DeviceKind.NIC,
    "0x020800": DeviceKind.OTHER,
    "0x030000": DeviceKind.GPU,
    "0x030200": DeviceKind.GPU,
    "0x010802": DeviceKind.NVME,
    "0x010700": DeviceKind.STORAGE,
    "0x120000": DeviceKind.ACCELERATOR,
    "0x0b4000": DeviceKind.ACCELERATOR,
    "0x0b0000": DeviceKind.OTHER,
    "0x0c0330": DeviceKind.OTHER,
    "0x060400": None,
    "0x068000": None,
}


@pytest.mark.parametrize(("class_code", "kind"), DEVICES.items())
def test_the_class_of_a_device_tells_its_kind(class_code: str, kind: DeviceKind | None) -> None:
    files = {k: v for k, v in _small_files().items() if not k.startswith(PCI)}
    files[f"{PCI}/0000:3b:00.0/class"] = f"{class_code}\n"
    devices = _read(files).devices
    assert [device.kind for device in devices] == ([] if kind is None else [kind])


def test_devices_are_found_behind_bridges_where_the_bus_is_missing() -> None:
    files = {k: v for k, v in _small_files().items() if not k.startswith(PCI)}
    bridge = "sys/devices/pci0000:00/0000:00:01.0"
    nic = f"{bridge}/0000:01:00.1"
    files |= {
        f"{bridge}/class": "0x060400\n",
        f"{nic}/class": "0x020000\n",
        f"{nic}/numa_node": "1\n",
        f"{nic}/physfn/uevent": "",
        f"{nic}/virtio3/net/eth7/uevent": "",
    }
    [device] = _read(files).devices
    assert (device.address, device.node, device.name) == ("0000:01:00.1", 1, "eth7")
    assert device.virtual_function


def test_a_device_without_a_node_is_placed_by_its_near_cpus() -> None:
    files = _small_files()
    address = small_machine().devices[0].address
    del files[f"{PCI}/{address}/numa_node"]
    files[f"{PCI}/{address}/local_cpus"] = f"{bitmap(small_machine().nodes[1].cpus.mask)}\n"
    assert _read(files).devices[0].node == 1


def test_a_device_on_a_node_that_is_not_there_is_on_none() -> None:
    files = _small_files()
    address = small_machine().devices[0].address
    files[f"{PCI}/{address}/numa_node"] = "5\n"
    machine = _read(files)
    assert machine.devices[0].node is None
    assert any("which is not there" in note for note in machine.notes)


def test_the_name_of_the_host_is_the_name_of_the_machine() -> None:
    files = _small_files() | {"proc/sys/kernel/hostname": "worker-7\n"}
    assert read_machine(MappingTree(files)).name == "worker-7"


@pytest.mark.parametrize("files", [{}, {"proc/meminfo": "MemTotal: 5 kB"}, {f"{CPU}/online": "0"}])
def test_a_tree_without_cpus_is_one_clear_error(files: dict[str, str]) -> None:
    with pytest.raises(DiscoveryError, match="found no CPU in sys/devices/system/cpu"):
        _read(files)


def test_a_machine_with_all_cpus_offline_is_refused() -> None:
    with pytest.raises(DiscoveryError, match="found no online CPU"):
        _read(_small_files() | {f"{CPU}/online": "\n"})


def test_notes_are_told_together_and_not_without_end() -> None:
    notes = Notes()
    for cpu in (3, 1, 2):
        notes.about_cpu(cpu, "odd")
    for i in range(NOTES_MAX + 9):
        notes.add(f"note {i}")
    texts = notes.texts()
    assert texts[0] == "CPUs 1-3: odd"
    assert texts[-1] == "and 10 more remarks of this kind"
    assert len(texts) == NOTES_MAX + 1
