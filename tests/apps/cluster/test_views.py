"""A cluster as records."""

from numalign.apps.cluster.views import host_records, place_records
from numalign.core.cluster.placement import PlacedContainer, PlacedPod, PublishedPlacement
from numalign.core.cluster.zones import Attribute, HostTopology, Zone, ZoneResource
from numalign.core.machine_info import CoreInfo, MachineInfo, NodeInfo
from numalign.core.quantity import Quantity
from numalign.core.settings import Settings
from numalign.core.state import Block


def zone(number: int, cpu: int, free: int) -> Zone:
    amounts = (Quantity.of(cpu), Quantity.of(cpu), Quantity.of(free))
    return Zone(f"node-{number}", resources=(ZoneResource("cpu", *amounts),))


def host(policy: str, **more: object) -> HostTopology:
    attributes = (Attribute("topologyManagerPolicy", policy),)
    return HostTopology("w1", (zone(0, 8, 3), zone(1, 8, 5)), attributes, **more)


def test_the_largest_container_comes_from_one_node_where_the_policy_asks_for_it():
    (record,) = host_records(["w1"], {"w1": host("single-numa-node")})
    assert record["largest"] == {"cpu": 5}
    assert [node["resources"]["cpu"]["available"] for node in record["nodes"]] == [3, 5]
    (record,) = host_records(["w1"], {"w1": host("restricted")})
    assert record["largest"] == {"cpu": 8}


def test_a_host_that_publishes_nothing_is_shown_as_such():
    (record,) = host_records(["w2"], {})
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
        "memory": [{"type": "memory", "bytes": 4096, "numaNodes": [1]}],
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
