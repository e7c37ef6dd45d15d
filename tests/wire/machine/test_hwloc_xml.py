"""hwloc XML exports of all versions give the machine that hwloc shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.sources.shared_machines import MACHINES, exports, machine_of, needs_machines
from tests.wire.machine.hwloc_comparison import differences
from tests.wire.machine.hwloc_view import xml_view

from numalign.adapters.local.packed import unpacked
from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import CacheKind, DeviceKind, HugePages, MemoryPath
from numalign.wire.machine.hwloc_xml import read_hwloc_xml

GUEST_EXPORTS = sorted(MACHINES.glob("emulated/*.lstopo.xml.xz"))
# sockets, dies, cores, CPUs, L3 caches: from the processors' data sheets
PROCESSORS = {
    "AMD-17h-Zen-2xEpyc-7451": (2, 0, 48, 96, 16),
    "AMD-19h-Zen3-2xEpyc-7763": (2, 0, 128, 128, 16),
    "AMD-19h-Zen4-2xEpyc-9654": (2, 24, 192, 384, 24),
    "Intel-CascadeLake-2xXeon6230": (2, 0, 40, 80, 2),
    "Intel-SapphireRapids-2xXeonMax9460": (2, 0, 80, 160, 2),
}
# What the model cannot hold as hwloc shows it.
SHOWN_OTHERWISE = {
    "32amd64-4s2n4c-cgroup2.xml": {
        "CPUs of nodes": "nodes whose CPUs are all forbidden are near to those of the next node"
    },
    "40intel64-2g2n4c+pcilocality.xml": {
        "places of devices": "a place of 20 CPUs on two nodes is no node's"
    },
    "fakeheterocpunuma.xml": {"CPUs of nodes": "a CPU on several nodes is on the smallest"},
    "fakepcilocalities.xml": {"places of devices": "a place of two cores is their node's"},
}
# nodes, CPUs, devices
EXPORTS = {
    "16intel64-manyVFs": (2, 16, 18),
    "192em64t-24n8c2t": (24, 384, 12),
    "24em64t-2n6c2t-pci": (2, 24, 9),
    "64intel64-heteromem": (8, 64, 0),
    "cxlmem+dax.v3": (1, 4, 7),
    "irregulargroups-disallowed": (8, 64, 8),
    "nvidiaDGX2": (2, 4, 17),
    "power8gpudistances": (2, 16, 4),
}


@needs_machines
@pytest.mark.parametrize("name", PROCESSORS)
def test_processors_known_by_cpuid_have_their_parts(name: str) -> None:
    machine = machine_of(MACHINES / "hwloc" / "x86" / f"{name}.xml.xz")
    l3 = len(machine.caches_of_level(3))
    counts = (len(machine.sockets), len(machine.dies), len(machine.cores), len(machine.cpus), l3)
    assert counts == PROCESSORS[name]
    assert [node.cpus for node in machine.nodes] == [machine.online]


@needs_machines
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_have_their_nodes_cpus_and_devices(name: str) -> None:
    [path] = (MACHINES / "hwloc" / "xml").glob(f"{name}.xml*")
    machine = machine_of(path)
    assert (len(machine.nodes), len(machine.cpus), len(machine.devices)) == EXPORTS[name]


@needs_machines
@pytest.mark.parametrize("path", exports(), ids=lambda path: path.name)
def test_an_export_reads_as_what_it_shows(path: Path) -> None:
    found = differences(machine_of(path), xml_view(unpacked(path.read_bytes(), path.name)))
    assert found.keys() == SHOWN_OTHERWISE.get(path.name, {}).keys(), found


@needs_machines
@pytest.mark.parametrize(
    "export", sorted(MACHINES.glob("emulated/*.lstopo.xml.xz")), ids=lambda p: p.name
)
def test_a_capture_and_its_export_give_the_same_machine(export: Path) -> None:
    path = export.with_name(export.name.replace(".lstopo.xml.xz", ".tar.xz"))
    ours, theirs = machine_of(path), machine_of(export)
    shown = {node.id for node in theirs.nodes}
    nodes = [node for node in ours.nodes if node.id in shown]
    assert [(n.id, n.cpus, n.memory_bytes, n.hugepages) for n in nodes] == [
        (n.id, n.cpus, n.memory_bytes, n.hugepages) for n in theirs.nodes
    ]
    if len(shown) == len(ours.nodes):
        assert [n.distances for n in ours.nodes] == [n.distances for n in theirs.nodes]
    assert [(c.id, c.socket, c.core, c.core_id) for c in ours.cpus] == [
        (c.id, c.socket, c.core, c.core_id) for c in theirs.cpus
    ]
    assert ours.caches == theirs.caches
    assert ours.memory_paths == theirs.memory_paths
    assert ours.memory_bytes == theirs.memory_bytes
    by_address = {device.address: device for device in ours.devices}
    for device in theirs.devices:
        if own := by_address.get(device.address):
            assert (own.kind, own.node, own.vendor_id) == (
                device.kind,
                device.node,
                device.vendor_id,
            )


VERSION_1 = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_level="-1" os_index="0" cpuset="0x0000000f"
          complete_cpuset="0x0000001f" local_memory="0">
    <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
      <latency value="1.000000"/><latency value="2.100000"/>
      <latency value="2.100000"/><latency value="1.000000"/>
    </distances>
    <object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1073741824">
      <page_type size="4096" count="261632"/><page_type size="2097152" count="1"/>
      <object type="Socket" os_index="0" cpuset="0x00000003">
        <object type="Cache" cpuset="0x00000003" cache_size="8388608" depth="3" cache_type="0">
          <object type="Core" os_index="0" cpuset="0x00000003">
            <object type="PU" os_index="0" cpuset="0x00000001"/>
            <object type="PU" os_index="1" cpuset="0x00000002"/>
          </object>
        </object>
        <object type="Bridge" os_index="1" bridge_type="0-1" depth="0" bridge_pci="0000:[00-00]">
          <object type="PCIDev" os_index="2" pci_busid="0000:00:02.0"
                  pci_type="0200 [8086:10d3] [8086:0000] 00" pci_link_speed="0.000000">
            <object type="OSDev" name="mlx0" osdev_type="3"/>
            <object type="OSDev" name="eth0" osdev_type="2"/>
          </object>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="4" cpuset="0x0000000c" local_memory="2147483648">
      <object type="Socket" os_index="1" cpuset="0x0000000c">
        <object type="Core" os_index="0" cpuset="0x00000004">
          <object type="PU" os_index="2" cpuset="0x00000004"/>
        </object>
        <object type="Core" os_index="1" cpuset="0x00000008">
          <object type="PU" os_index="3" cpuset="0x00000008"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"""


def test_version_1_has_nodes_as_parents_and_factors_as_distances() -> None:
    machine = read_hwloc_xml(VERSION_1, "v1.xml")
    assert [(n.id, str(n.cpus), n.memory_bytes) for n in machine.nodes] == [
        (0, "0-1", 1 << 30),
        (4, "2-3", 2 << 30),
    ]
    assert [n.distances for n in machine.nodes] == [(10, 21), (21, 10)]
    assert machine.nodes[0].hugepages == (HugePages(2 << 20, 1),)
    assert [(c.socket, c.core, c.core_id) for c in machine.cpus] == [
        (0, 0, 0),
        (0, 0, 0),
        (1, 2, 0),
        (1, 3, 1),
    ]
    assert [(c.level, c.kind, c.size_bytes) for c in machine.caches] == [
        (3, CacheKind.UNIFIED, 8 << 20)
    ]
    assert str(machine.offline) == "4"
    [nic] = machine.devices
    assert (nic.kind, nic.node, nic.name) == (DeviceKind.NIC, 0, "eth0")


def test_version_1_without_numa_is_one_node_with_the_memory_of_the_machine() -> None:
    text = b"""<topology><object type="Machine" cpuset="0x3" local_memory="4096">
      <object type="Core" os_index="7" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/>
      </object><object type="PU" os_index="1" cpuset="0x2"/></object></topology>"""
    machine = read_hwloc_xml(text, "v1.xml")
    assert [(n.id, str(n.cpus), n.memory_bytes) for n in machine.nodes] == [(0, "0-1", 4096)]
    assert [cpu.core_id for cpu in machine.cpus] == [7, 1]


VERSION_2 = b"""<topology version="2.0"><object type="Machine" cpuset="0x3" gp_index="1"
    complete_nodeset="0xf">
  <object type="Package" cpuset="0x1" gp_index="2">
    <object type="NUMANode" os_index="2" cpuset="0x1" gp_index="20" local_memory="100"/>
    <object type="NUMANode" os_index="0" cpuset="0x1" gp_index="21" local_memory="200"/>
    <object type="PU" os_index="0" cpuset="0x1" gp_index="4"/></object>
  <object type="Package" cpuset="0x2" gp_index="3">
    <object type="MemCache" cpuset="0x2" cache_size="1" depth="1" cache_type="0">
      <object type="NUMANode" os_index="1" cpuset="0x2" gp_index="22" local_memory="300"/></object>
    <object type="PU" os_index="1" cpuset="0x2" gp_index="5"/></object></object>
  <distances2 type="NUMANode" nbobjs="3" kind="9" indexing="os">
    <indexes>0 1 2</indexes><u64values>9 9 9 9 9 9 9 9 9</u64values></distances2>
  <distances2 type="NUMANode" nbobjs="3" kind="5" indexing="gp">
    <indexes>20 21 22</indexes><u64values>10 17 28 17 10 21</u64values>
    <u64values>28 21 10</u64values></distances2>
  <memattr name="Bandwidth" flags="5">
    <memattr_value target_obj_gp_index="20" value="900" initiator_cpuset="0x1"/></memattr>
  <memattr name="ReadBandwidth" flags="5">
    <memattr_value target_obj_gp_index="20" value="800" initiator_cpuset="0x1"/></memattr>
  <memattr name="Latency" flags="6">
    <memattr_value target_obj_gp_index="22" value="90" initiator_cpuset="0x3"/></memattr>
</topology>"""


def test_a_memory_without_cpus_of_its_own_gets_none() -> None:
    machine = read_hwloc_xml(VERSION_2, "v2.xml")
    assert [(n.id, str(n.cpus)) for n in machine.nodes] == [(0, "0"), (1, "1"), (2, "")]


def test_only_the_latency_matrix_counts_and_may_go_by_global_numbers() -> None:
    machine = read_hwloc_xml(VERSION_2, "v2.xml")
    assert [n.distances for n in machine.nodes] == [(10, 21, 17), (21, 10, 28), (17, 28, 10)]


def test_memory_attributes_become_paths_from_nodes_with_cpus() -> None:
    machine = read_hwloc_xml(VERSION_2, "v2.xml")
    assert machine.memory_paths == (
        MemoryPath(0, 1, 90, 90),
        MemoryPath(1, 1, 90, 90),
        MemoryPath(0, 2, None, None, 800, 900),
    )


def test_packages_without_numbers_are_numbered_and_hidden_nodes_noted() -> None:
    machine = read_hwloc_xml(VERSION_2, "v2.xml")
    assert list(machine.sockets) == [0, 1]
    assert any("nodes 3:" in note for note in machine.notes)
    assert any("memory-side" in note for note in machine.notes)


BILLION_LAUGHS = b"""<!DOCTYPE t [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;">]>
<topology><object type="Machine">&c;</object></topology>"""
PU = b'<object type="PU" os_index="%d" cpuset="0x1"/>'
BROKEN = {
    "empty": b"",
    "another format": b"<html><body/></html>",
    "not closed": b"<topology><object>",
    "entities": BILLION_LAUGHS,
    "external entity": b'<!DOCTYPE t [<!ENTITY x SYSTEM "file:///etc/passwd">]><topology>&x;</topology>',
    "no object": b'<topology version="2.0"/>',
    "no PU": b'<topology><object type="Machine" cpuset="0x1"/></topology>',
    "a bitmap of words": b'<topology><object type="Machine" cpuset="zero"/></topology>',
    "an endless bitmap": b'<topology><object type="Machine" cpuset="0xf...f"/></topology>',
    "a PU twice": b'<topology><object type="Machine">' + 2 * (PU % 3) + b"</object></topology>",
    "a huge PU": b'<topology><object type="Machine">' + PU % 10**9 + b"</object></topology>",
    "too deep": b"<topology>"
    + b'<object type="Group">' * 500
    + b"</object>" * 500
    + b"</topology>",
    "unknown encoding": b'<?xml version="1.0" encoding="klingon"?><topology/>',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_export_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(DiscoveryError, match=r"^broken\.xml: found .*, expected .*\."):
        read_hwloc_xml(data, "broken.xml")
