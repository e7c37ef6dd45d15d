"""NodeResourceTopology objects, from any exporter and to any scheduler."""

import json

import msgspec
import pytest
import yaml
from tests.wire.kubernetes.test_placement import POD, placement

from numalign.core.cluster.publish.zones import Attribute, HostTopology, Zone, ZoneResource
from numalign.core.errors import WireError
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes import nrt

AMOUNT = Quantity.of(64_000_000_000)
ZONE = Zone(
    "node-0",
    resources=(ZoneResource("memory", AMOUNT, Quantity.of(5), Quantity.of(0)),),
    costs={"node-0": 10, "node-1": 21},
    attributes=(Attribute("a", "b"),),
    parent="socket-0",
)
TOPOLOGY = HostTopology(
    "worker-0",
    (ZONE, Zone("node-1")),
    (Attribute("topologyManagerPolicy", "restricted"),),
    ("RestrictedContainerLevel",),
    "pfp0v001c9262dbd8419aed8",
    placement(POD),
)


def read_yaml(text):
    return nrt.read(msgspec.json.encode(yaml.safe_load(text)))


def text(**changes):
    return json.dumps({**nrt.body(TOPOLOGY), **changes}).encode()


def test_an_object_comes_back_whole():
    found = nrt.read(text())
    assert found.topology == TOPOLOGY
    assert found.problems == ()


def test_amounts_are_written_in_their_shortest_decimal_form():
    (memory,) = nrt.body(TOPOLOGY)["zones"][0]["resources"]
    assert memory == {
        "name": "memory",
        "capacity": "64G",
        "allocatable": "5",
        "available": "0",
    }


def test_v1alpha1_has_no_attributes_and_needs_policies():
    old = {"apiVersion": nrt.V1ALPHA1}
    found = nrt.read(text(**old)).topology
    assert found.attributes == ()
    assert found.topology_policies == ("RestrictedContainerLevel",)
    with pytest.raises(WireError, match="found no topologyPolicies"):
        nrt.read(text(**old, topologyPolicies=None))


def test_yaml_is_read_too():
    found = read_yaml(
        b"apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\n"
        b"metadata: {name: w}\nzones: []\n"
    )
    assert found.topology == HostTopology("w")


def test_strange_zones_are_kept_and_told():
    zones = [{"name": "node--1", "type": "Node"}, {"name": "socket-0", "type": "Socket"}]
    found = nrt.read(text(zones=zones))
    assert [zone.name for zone in found.topology.zones] == ["node--1", "socket-0"]
    assert ["passed over" in problem for problem in found.problems] == [True, True]


def test_a_placement_that_cannot_be_read_is_told_and_the_rest_counts():
    metadata = {"name": "w", "annotations": {nrt.PLACEMENT_ANNOTATION: "1:" + "A" * (2 << 20)}}
    found = nrt.read(text(metadata=metadata))
    assert found.topology.placement is None
    assert found.topology.zones == TOPOLOGY.zones
    assert found.problems == (
        "annotation numalign.io/placement: found a placement of 2097154 characters, "
        "expected at most 131072",
    )


def test_a_placement_that_is_too_large_is_left_out_and_told(monkeypatch):
    monkeypatch.setattr("numalign.wire.kubernetes.placement.TEXT_LENGTH_MAX", 10)
    written = nrt.body(TOPOLOGY)
    assert nrt.PLACEMENT_ANNOTATION not in written["metadata"]["annotations"]
    assert written["attributes"][-1] == {"name": "numalignPlacement", "value": "too-large"}


def zone(**changes):
    amounts = {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4", **changes}
    return [{"name": "node-0", "type": "Node", "resources": [amounts]}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "found no NodeResourceTopology"),
        (b"\xff\xfe", "found no NodeResourceTopology"),
        (b"[1]", "found no NodeResourceTopology"),
        (b"[" * 100_000, "found no NodeResourceTopology"),
        (text(kind="Pod"), "found Pod of"),
        (text(apiVersion="topology.node.k8s.io/v9"), "expected NodeResourceTopology of"),
        (text(metadata={"name": "../../pods"}), "expected the name of a host"),
        (text(metadata={"name": "a" * 300}), "expected the name of a host"),
        (text(zones={}), "found no NodeResourceTopology"),
        (text(zones=[{"type": "Node"}]), "missing required field `name`"),
        (text(zones=zone(available="-1")), "zone node-0: cpu: found -1, expected 0 or more"),
        (text(zones=zone(capacity="many")), "cpu: found 'many': quantities must match"),
        (text(zones=zone(capacity=None)), "Expected `int | str`, got `null`"),
        (text(zones=zone() * 2000), "found 2000 zones, expected at most 1024"),
        (b" " * (5 << 20), "of 5242880 bytes, expected at most"),
    ],
)
def test_garbage_is_refused_in_one_line(data, words):
    with pytest.raises(WireError) as caught:
        nrt.read(data)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
