import json

import msgspec
import pytest

from numalign.core.errors import WireError
from numalign.wire.fleet.capture import FleetCapture, capture_of, reduced
from numalign.wire.kubernetes.scheduling import pod_from_json


def raw(value):
    return msgspec.Raw(json.dumps(value).encode())


POD = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "1",
        "labels": {"a": "b"},
        "annotations": {"token": "hidden"},
    },
    "spec": {
        "nodeName": "h",
        "volumes": [
            {"secret": {"secretName": "hidden"}},
            {"hostPath": {"path": "hidden"}},
            {"persistentVolumeClaim": {"claimName": "data"}},
        ],
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}],
        "containers": [
            {
                "name": "c",
                "image": "hidden",
                "command": ["hidden"],
                "env": [{"name": "X", "value": "hidden"}],
                "resources": {"limits": {"cpu": "4"}},
            }
        ],
    },
    "status": {"phase": "Running", "podIP": "hidden"},
}


def test_nothing_but_what_placement_needs_gets_into_a_capture():
    found = reduced([], [], [raw(POD)])
    text = bytes(found.pods[0])
    assert b"hidden" not in text
    kept = json.loads(text)
    assert kept["spec"]["containers"] == [{"name": "c", "resources": {"limits": {"cpu": "4"}}}]
    assert kept["metadata"]["labels"] == {"a": "b"}


def test_what_holds_a_pod_to_its_place_is_known_from_a_capture():
    [text] = reduced([], [], [raw(POD)]).pods
    pod = pod_from_json(bytes(text))
    assert pod.requirements.unsupported
    assert pod.rules is not None


def test_of_a_topology_only_what_an_exporter_publishes_is_kept():
    about = {"numalign.io/placement": "x", "kubectl.kubernetes.io/last-applied": "hidden"}
    [text] = reduced([], [raw({"metadata": {"name": "h", "annotations": about}})], []).topologies
    assert json.loads(bytes(text))["metadata"]["annotations"] == {"numalign.io/placement": "x"}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"fleet.json": b"{}"},
        {"fleet.json": b"[", "nodes.json": b"[]", "topologies.json": b"[]", "pods.json": b"[]"},
        {
            "fleet.json": b'"\xff"',
            "nodes.json": b"[]",
            "topologies.json": b"[]",
            "pods.json": b"[]",
        },
        {"fleet.json": b"{}", "nodes.json": b"{}", "topologies.json": b"[]", "pods.json": b"[]"},
    ],
)
def test_a_file_that_is_no_capture_is_told(files):
    with pytest.raises(WireError, match=r"^f: "):
        capture_of(files, "f")


def test_an_empty_capture_is_one():
    files = {"fleet.json": b"{}", "nodes.json": b"[]", "topologies.json": b"[]", "pods.json": b"[]"}
    assert capture_of(files, "f") == FleetCapture()


def test_an_object_of_the_cluster_that_is_no_text_is_told():
    with pytest.raises(WireError, match="found an object that is no JSON"):
        reduced([], [], [msgspec.Raw(b'{"metadata":{"name":"\xff"}}')])
