"""What a scheduler reads in the objects that hosts publish."""

import pytest

from numalign.core.cluster.publish.zones import (
    Attribute,
    HostTopology,
    TopologyConfig,
    Zone,
    config_of,
    numa_id,
    numa_zones,
)


def published(*attributes, policies=()):
    pairs = tuple(Attribute(name, value) for name, value in attributes)
    return HostTopology("host", attributes=pairs, topology_policies=tuple(policies))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (published(), TopologyConfig("none", "container", 8)),
        (published(policies=["RestrictedPodLevel"]), TopologyConfig("restricted", "pod")),
        (published(policies=["None", "SingleNUMANodePodLevel"]), TopologyConfig()),
        (published(policies=["SingleNUMANode"]), TopologyConfig()),
        (
            published(("topologyManagerScope", "pod"), policies=["SingleNUMANodeContainerLevel"]),
            TopologyConfig("single-numa-node", "pod"),
        ),
        (
            published(
                ("topologyManagerPolicy", "best-effort"),
                ("topologyManagerPolicy", "strict"),
                ("topologyManagerScope", "core"),
            ),
            TopologyConfig("best-effort"),
        ),
        (
            published(("topologyManagerPolicy", "none"), ("topologyManagerPolicy", "restricted")),
            TopologyConfig("restricted"),
        ),
        (published(("topologyManagerMaxNUMANodes", "2000")), TopologyConfig(max_nodes=1024)),
        (published(("topologyManagerMaxNUMANodes", "1")), TopologyConfig()),
        (published(("topologyManagerMaxNUMANodes", "0x10")), TopologyConfig()),
        (published(("topologyManagerMaxNUMANodes", "9" * 40)), TopologyConfig()),
    ],
)
def test_attributes_win_over_the_old_field_and_the_last_valid_one_wins(topology, expected):
    assert config_of(topology) == expected


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (Zone("node-0"), 0),
        (Zone("node-01"), 1),
        (Zone("node-+1"), 1),
        (Zone("node-63"), 63),
        (Zone("node-64"), None),
        (Zone("node--1"), None),
        (Zone("node-"), None),
        (Zone("Node-0"), None),
        (Zone("numa-0"), None),
        (Zone("node-1_0"), None),
        (Zone("node-\u0661"), None),
        (Zone("node-0", type="Socket"), None),
    ],
)
def test_only_zones_named_after_a_node_stand_for_one(zone, expected):
    assert numa_id(zone) == expected


def test_zones_come_by_node_and_the_first_of_two_counts():
    zones = (Zone("node-2"), Zone("node-0", parent="a"), Zone("node-00", parent="b"), Zone("x"))
    found = list(numa_zones(HostTopology("host", zones)))
    assert [(node, zone.parent) for node, zone in found] == [(0, "a"), (2, "")]


def test_the_fingerprint_is_the_attribute_and_else_the_annotation():
    old = HostTopology("host", fingerprint_annotation="pfp0v001old")
    assert old.fingerprint == "pfp0v001old"
    assert not old.is_fingerprint_exclusive
    both = HostTopology(
        "host",
        attributes=(
            Attribute("nodeTopologyPodsFingerprint", "pfp0v001new"),
            Attribute("nodeTopologyPodsFingerprintMethod", "with-exclusive-resources"),
        ),
        fingerprint_annotation="pfp0v001old",
    )
    assert both.fingerprint == "pfp0v001new"
    assert both.is_fingerprint_exclusive
