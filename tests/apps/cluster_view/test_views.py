"""A cluster as records."""

from dataclasses import replace

from tests.cluster.fleet import FleetHost, HostPlan

from numalign.apps.cluster_view.views import host_records, place_records
from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.cluster.publish.zones import Attribute, HostTopology, Zone, ZoneResource
from numalign.core.kubelet.state import Block
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.pod import Container, Pod
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity


def zone(number: int, cpu: int, free: int) -> Zone:
    amounts = (Quantity.of(cpu), Quantity.of(cpu), Quantity.of(free))
    return Zone(f"node-{number}", resources=(ZoneResource("cpu", *amounts),))


def host(policy: str, **more: object) -> HostTopology:
    attributes = (Attribute("topologyManagerPolicy", policy),)
    return HostTopology("w1", (zone(0, 8, 3), zone(1, 8, 5)), attributes, **more)


def test_without_a_placement_the_largest_is_counted_in_one_node_where_the_policy_asks_for_it():
    (record,) = host_records(["w1"], {"w1": host("single-numa-node")}, {})
    assert (record["largest"], record["isProven"]) == ({"cpu": 5}, False)
    assert [node["resources"]["cpu"]["available"] for node in record["nodes"]] == [3, 5]
    (record,) = host_records(["w1"], {"w1": host("restricted")}, {})
    assert record["largest"] == {"cpu": 8}


def pod(uid: str, cpu: int) -> Pod:
    amounts = {"cpu": Quantity.of(cpu), "memory": Quantity.parse("1Gi")}
    return Pod(uid, uid, "ns", containers=(Container("c", amounts, amounts),))


def test_with_a_placement_the_largest_is_what_the_host_would_admit():
    plan = HostPlan("w1", "1s:2n:8c:1t,mem=8Gi", "restricted")
    found = FleetHost(plan)
    pods = [pod("p1", 5), pod("p2", 4)]
    for one in pods:
        assert found.admit(one) is None
    topology = found.topology()
    free = [zone.resources[0].available.value() for zone in topology.zones]
    assert free == [2, 4]
    (record,) = host_records(["w1"], {"w1": topology}, {"w1": pods})
    # Six CPUs are free, but one node would do for them, so the host would refuse to split them.
    assert record["isProven"]
    assert record["largest"]["cpu"] == 4
    assert found.admit(pod("p3", 5)) is not None
    assert found.admit(pod("p4", record["largest"]["cpu"])) is None


def test_the_largest_takes_into_account_pods_that_are_bound_and_not_published_yet():
    found = FleetHost(HostPlan("w1", "1s:2n:4c:1t,mem=8Gi"))
    topology = found.topology()
    (record,) = host_records(["w1"], {"w1": topology}, {"w1": [pod("p1", 4)]})
    assert record["largest"]["cpu"] == 3
    (record,) = host_records(["w1"], {"w1": topology}, {"w1": [pod("p1", 4), pod("p2", 3)]})
    assert record["largest"] == {}


def test_a_placement_that_contradicts_itself_is_not_asked():
    topology = FleetHost(HostPlan("w1", "1s:2n:4c:1t,mem=8Gi")).topology()
    settings = replace(topology.placement.settings, reserved_cpus="99")
    broken = replace(topology, placement=replace(topology.placement, settings=settings))
    (record,) = host_records(["w1"], {"w1": broken}, {})
    assert (record["largest"]["cpu"], record["isProven"]) == (4, False)


def test_a_host_that_publishes_nothing_is_shown_as_such():
    (record,) = host_records(["w2"], {}, {})
    assert record == {"name": "w2", "published": False, "nodes": [], "largest": {}}


MACHINE = MachineInfo(
    (
        NodeInfo(0, 1 << 30, cores=(CoreInfo((0, 1), 0),)),
        NodeInfo(1, 1 << 30, cores=(CoreInfo((2, 3), 0),)),
    ),
    1,
    2 << 30,
)


def test_containers_are_shown_where_they_sit():
    memory = (Block((1,), "memory", 4096),)
    placed = PlacedPod(
        "ns",
        "db",
        containers=(
            PlacedContainer("main", 0b0100, memory, {"v.com/nic": ("n1",)}),
            PlacedContainer("helper"),
        ),
    )
    other = PlacedPod("web", "front")
    placement = PublishedPlacement(MACHINE, Settings(), pods=(placed, other))
    topology = host("none", placement=placement)
    main, helper = place_records([topology], namespace="ns")
    assert main == {
        "namespace": "ns",
        "pod": "db",
        "container": "main",
        "host": "w1",
        "cpus": "2",
        "numaNodes": [1],
        "memory": [{"type": "memory", "nodes": [1], "sizeBytes": 4096}],
        "devices": {"v.com/nic": ["n1"]},
    }
    assert (helper["cpus"], helper["numaNodes"]) == (None, [])
    assert [record["pod"] for record in place_records([topology])] == ["db", "db", "front"]


def test_what_a_pod_holds_as_a_whole_has_a_row_of_its_own():
    placed = PlacedPod("ns", "p", containers=(PlacedContainer("c"),), cpus=0b11)
    topology = host("none", placement=PublishedPlacement(MACHINE, Settings(), pods=(placed,)))
    whole, part = place_records([topology])
    assert (whole["container"], whole["cpus"], whole["numaNodes"]) == (None, "0-1", [0])
    assert part["container"] == "c"
