"""One host as the common rules see it."""

from tests.core.cluster.nrt_match.amounts import amounts, host

from numalign.core.cluster.nrt_match.record import HostRecord, record_of, reserved_everywhere
from numalign.core.cluster.publish.zones import HostTopology, Zone, ZoneResource, zone_name
from numalign.core.values.quantity import Quantity


def test_a_pod_whose_node_is_unknown_is_reserved_on_every_node():
    before = host(amounts(cpu=10), amounts(cpu=6))
    for order in ((4, 3), (3, 4)):
        after = reserved_everywhere(before, [amounts(cpu=n) for n in order])
        assert [zone.available for zone in after.zones] == [amounts(cpu=3), amounts(cpu=0)]


def test_a_host_that_publishes_nothing_has_no_zones():
    found = record_of("w", None, ["x.com/gpu"])
    assert found.zones is None
    assert "x.com/gpu" in found.offered
    assert reserved_everywhere(found, [amounts(cpu=1)]) is found


def test_what_is_available_counts_and_not_the_capacity():
    four, three, two = (Quantity.of(n) for n in (4, 3, 2))
    zone = Zone(zone_name(1), resources=(ZoneResource("cpu", four, three, two),))
    [found] = record_of("w", HostTopology("w", (zone,)), []).zones
    assert found.node == 1
    assert found.available == {"cpu": two.nanos}


def test_distances_to_zones_that_are_not_there_are_left_out():
    costs = {zone_name(0): 10, zone_name(1): 21, zone_name(9): 30}
    zones = tuple(Zone(zone_name(node), costs=costs) for node in (0, 1))
    found = record_of("w", HostTopology("w", zones), [])
    assert found.zones[0].costs == {0: 10, 1: 21}
    assert isinstance(found, HostRecord)
