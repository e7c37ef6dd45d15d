"""What a host publishes, held against the worked example of the exporters' description."""

import itertools
import random
from dataclasses import replace

import pytest
from tests.core.cluster.hosts import (
    GI,
    KNOWN,
    MACHINE,
    NIC,
    OFFERED,
    P1,
    P2,
    P3,
    P4,
    SETTINGS,
    known,
    listed,
    report,
)

from numalign.core.cluster.publish.export import KnownPod, exported, unknown_pods
from numalign.core.cluster.publish.placement import PlacedContainer
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.state import Block, CpuState, MemoryState
from numalign.core.machine.machine import HugePages
from numalign.core.pod import Container, Pod, Qos
from numalign.core.values.sets import CpuSet, mask_of
from numalign.core.views.podresources import Allocatable, DeviceUse


def amounts(topology, zone, name):
    """Capacity, allocatable and available of a resource; None where the zone does not list it."""
    for found in topology.zones[zone].resources:
        if found.name == name:
            return tuple(a.value() for a in (found.capacity, found.allocatable, found.available))
    return None


def attributes(topology):
    return {one.name: one.value for one in topology.attributes}


@pytest.mark.parametrize("pods", list(itertools.permutations([P1, P2, P3, P4])))
def test_the_worked_example_comes_out_in_every_order_of_the_pods(pods):
    found = exported(report(*pods))
    assert amounts(found, 0, "cpu") == (8, 7, 0)
    assert amounts(found, 1, "cpu") == (8, 7, 3)
    assert amounts(found, 0, "memory") == (32 * GI, 30 * GI, 0)
    assert amounts(found, 1, "memory") == (32 * GI, 31 * GI, 28 * GI)
    assert amounts(found, 0, NIC) == (1, 1, 0)
    assert amounts(found, 1, NIC) == (1, 1, 1)


def test_words_of_the_object():
    found = exported(report(P1))
    assert found.name == "worker-0"
    assert found.topology_policies == ("SingleNUMANodeContainerLevel",)
    assert found.zones[0].costs == {"node-0": 10, "node-1": 21}
    assert [zone.name for zone in found.zones] == ["node-0", "node-1"]
    told = attributes(found)
    del told["nodeTopologyPodsFingerprint"]
    assert told == {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "nodeTopologyPodsFingerprintMethod": "all",
    }


def test_the_fingerprint_is_that_of_all_listed_pods():
    web = [replace(P2, name=name) for name in ("web-1", "web-0")]
    dns = replace(P2, name="coredns-abc", namespace="kube-system")
    found = exported(report(dns, *web, pods=None))
    assert found.fingerprint == "pfp0v001c9262dbd8419aed8"
    assert exported(report()).fingerprint == "pfp0v001ef46db3751d8e999"


def test_options_and_the_limit_of_nodes_are_told():
    options = {"max-allowable-numa-nodes": "16", "prefer-closest-numa-nodes": "true"}
    settings = replace(
        SETTINGS,
        topology_policy="restricted",
        topology_scope="pod",
        topology_options=options,
        cpu_options={"full-pcpus-only": "true"},
    )
    found = exported(report(settings=settings))
    assert found.topology_policies == ("RestrictedPodLevel",)
    told = attributes(found)
    assert told["topologyManagerMaxNUMANodes"] == "16"
    assert told["topologyManagerPolicyOptions"] == (
        "max-allowable-numa-nodes=16,prefer-closest-numa-nodes=true"
    )
    assert told["cpuManagerPolicyOptions"] == "full-pcpus-only=true"


def test_a_host_that_does_not_align_says_none():
    found = exported(report(settings=replace(SETTINGS, topology_policy="none")))
    assert found.topology_policies == ("None",)


def test_a_node_of_which_nothing_can_be_given_lists_no_cpus_to_have():
    offered = Allocatable((9,), (), ())
    found = exported(report(offered=offered))
    assert amounts(found, 0, "cpu") == (8, 0, 0)
    assert amounts(found, 1, "cpu") == (8, 1, 1)
    assert amounts(found, 0, "memory") is None


def test_real_node_numbers_are_used_where_they_have_holes():
    first, second = MACHINE.nodes
    cpus = tuple(replace(c, node=8) if c.node == 1 else c for c in MACHINE.cpus)
    holed = replace(MACHINE, nodes=(first, replace(second, id=8)), cpus=cpus)
    found = exported(report(machine=holed, offered=Allocatable((9, 10), (), ())))
    assert [zone.name for zone in found.zones] == ["node-0", "node-8"]
    assert amounts(found, 1, "cpu") == (8, 2, 2)
    assert found.zones[1].costs == {"node-0": 21, "node-8": 10}


def test_huge_pages_have_the_capacity_of_the_machine_and_devices_what_is_offered():
    nodes = tuple(replace(n, hugepages=(HugePages(2 << 20, 512),)) for n in MACHINE.nodes)
    offered = Allocatable((1,), (Block((0,), "hugepages-2Mi", 500 << 20),), OFFERED.devices)
    found = exported(report(machine=replace(MACHINE, nodes=nodes), offered=offered))
    assert amounts(found, 0, "hugepages-2Mi") == (1024 << 20, 500 << 20, 500 << 20)
    assert amounts(found, 0, NIC) == (1, 1, 1)


def test_only_guaranteed_pods_and_those_with_devices_count():
    burstable = {("default", "p1"): known("p1", "2", guaranteed=False)}
    without_device = replace(P1, apps=(replace(P1.apps[0], devices=()),))
    assert amounts(exported(report(without_device, pods=burstable)), 0, "memory")[2] == 30 * GI
    found = exported(report(P1, pods=burstable))
    assert amounts(found, 0, NIC)[2] == 0
    assert amounts(found, 0, "memory")[2] == 26 * GI
    assert amounts(found, 0, "cpu")[2] == 7  # its CPUs are not its own
    assert amounts(exported(report(P1, pods=None)), 0, "cpu")[2] == 5


def test_cpus_of_a_pod_without_a_whole_number_of_them_do_not_count():
    odd = {("default", "p1"): known("p1", "1500m")}
    assert amounts(exported(report(P1, pods=odd)), 0, "cpu")[2] == 7


def test_a_guaranteed_pod_that_names_no_cpus_counts_with_those_that_it_has():
    pod = Pod("u", "p1", "default", (), (Container("app"),), qos=Qos.GUARANTEED)
    pods = {("default", "p1"): KnownPod(pod, "u")}
    assert amounts(exported(report(P1, pods=pods)), 0, "cpu")[2] == 5


def test_memory_of_several_nodes_is_counted_last_whatever_the_pods_are_called():
    wide = listed("a-wide", (), [Block((0, 1), "memory", 28 * GI)])
    found = exported(report(wide, P1, P3, pods=None))
    assert [amounts(found, zone, "memory")[2] for zone in (0, 1)] == [0, 28 * GI]


def test_a_device_on_two_nodes_is_offered_and_taken_on_both():
    both = (DeviceUse(NIC, "wide", 0), DeviceUse(NIC, "wide", 1), DeviceUse(NIC, "loose", None))
    offered = Allocatable((1,), (), both)
    user = listed("p1", devices=both)
    free = exported(report(offered=offered))
    used = exported(report(user, offered=offered))
    assert [amounts(free, zone, NIC) for zone in (0, 1)] == [(1, 1, 1), (1, 1, 1)]
    assert [amounts(used, zone, NIC) for zone in (0, 1)] == [(1, 1, 0), (1, 1, 0)]


def test_what_is_reported_beyond_what_there_is_ends_at_nothing():
    greedy = listed("p1", range(1, 8), [Block((0,), "memory", 99 * GI), Block((5,), "memory", 1)])
    found = exported(report(greedy, pods=None, excluded={NIC}))
    assert amounts(found, 0, "memory")[2] == 0
    assert amounts(found, 0, "cpu")[2] == 0
    assert amounts(found, 0, NIC) is None


def test_pods_that_the_api_server_does_not_know_are_named():
    assert unknown_pods(report(P1, listed("new"))) == [("default", "new")]
    assert unknown_pods(report(P1, listed("new"), pods=None)) == []


def test_the_placement_says_who_holds_what():
    found = exported(report(P4, P1)).placement
    assert [pod.uid for pod in found.pods] == ["uid-p1", "uid-p4"]
    assert found.pods[0].containers == (
        PlacedContainer("app", 0b110, P1.apps[0].memory, {NIC: ("n0",)}),
    )
    assert found.devices == {NIC: (Device("n0", (0,)), Device("n1", (1,)))}
    assert CpuSet(found.shared_cpus) == CpuSet.parse("0,8,13-15")


def test_the_shared_pool_is_the_state_files_while_it_fits_the_pods():
    state = CpuState("static", shared=mask_of((0, 8)))
    assert exported(report(P1, cpu_state=state)).placement.shared_cpus == mask_of((0, 8))
    old = CpuState("static", shared=mask_of((0, 1)))  # CPU 1 has been given away since
    found = exported(report(P1, cpu_state=old)).placement
    assert CpuSet(found.shared_cpus) == CpuSet.parse("0,3-15")
    strict = replace(SETTINGS, cpu_options={"strict-cpu-reservation": "true"})
    found = exported(report(P1, settings=strict)).placement
    assert CpuSet(found.shared_cpus) == CpuSet.parse("3-7,9-15")


def test_what_is_held_for_init_containers_comes_from_the_state_files():
    pods = {("default", "p1"): known("p1", "2", init=["setup", "done"])}
    cpu = CpuState("static", entries={"uid-p1": {"setup": 0b1110, "app": 0b110}})
    block = Block((0,), "memory", GI)
    memory = MemoryState("Static", entries={"uid-p1": {"setup": (block,), "app": ()}})
    found = exported(report(P1, pods=pods, cpu_state=cpu, memory_state=memory)).placement
    assert [c.name for c in found.pods[0].containers] == ["app", "setup"]
    assert found.pods[0].containers[1] == PlacedContainer("setup", 0b1110, (block,))


def test_a_device_that_only_its_user_still_knows_is_not_healthy():
    user = listed("p1", devices=[DeviceUse(NIC, "gone", 1), DeviceUse(NIC, "n0", 0)])
    found = exported(report(user)).placement
    assert found.devices[NIC] == (
        Device("gone", (1,), healthy=False),
        Device("n0", (0,)),
        Device("n1", (1,)),
    )


def test_the_same_host_always_publishes_the_same():
    rng = random.Random(1)
    pods = [P1, P2, P3, P4]
    first = exported(report(*pods))
    for _ in range(10):
        rng.shuffle(pods)
        mixed = [
            replace(pod, apps=(replace(pod.apps[0], cpus=tuple(reversed(pod.apps[0].cpus))),))
            for pod in pods
        ]
        devices = tuple(reversed(OFFERED.devices))
        assert exported(report(*mixed, offered=replace(OFFERED, devices=devices))) == first
    assert KNOWN.keys() == {pod.key for pod in first.placement.pods}
