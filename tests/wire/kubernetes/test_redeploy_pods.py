"""Pods for the redeploy loop: what is read from them, and what is changed."""

import json

import pytest

from numalign.core.cluster.refused_pods import GATE, Owner
from numalign.core.errors import WireError
from numalign.wire.kubernetes.redeploy_pods import gate_patch, next_name, recreated, watched_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOT_W1 = {"key": "metadata.name", "operator": "NotIn", "values": ["w1"]}
NOT_W2 = {**NOT_W1, "values": ["w2"]}


def pod(metadata=None, spec=None, **status):
    return json.dumps(
        {
            "metadata": {
                "name": "web-1",
                "namespace": "ns",
                "uid": "u",
                "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                **(metadata or {}),
            },
            "spec": {
                "containers": [{"name": "app", "resources": {"limits": {"cpu": "2"}}}],
                **(spec or {}),
            },
            "status": status,
        }
    ).encode()


def test_a_refused_pod_with_its_owner_and_time():
    owners = [
        {"kind": "Other", "name": "x", "uid": "x"},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "w",
            "uid": "r",
            "controller": True,
        },
    ]
    found = watched_pod(
        pod(
            {"ownerReferences": owners},
            {"nodeName": "w1"},
            phase="Failed",
            reason="TopologyAffinityError",
            startTime="2026-01-01T00:00:10Z",
        )
    )
    seen = found.pod
    assert (seen.namespace, seen.name, seen.uid, seen.host) == ("ns", "web-1", "u", "w1")
    assert seen.owner == Owner("apps/v1", "ReplicaSet", "w", "r")
    assert (seen.reason, seen.refused_at) == ("TopologyAffinityError", 1767225610.0)
    assert seen.shape == "app(cpu=2;cpu=2)"
    assert not found.holds


def test_the_time_of_creation_stands_in_for_that_of_the_refusal():
    assert watched_pod(pod(phase="Failed", reason="x")).pod.refused_at == 1767225600.0


@pytest.mark.parametrize(
    ("gates", "is_gated"), [([GATE], True), ([GATE, "other"], False), (["other"], False)]
)
def test_only_a_pod_that_waits_for_us_alone_is_gated(gates, is_gated):
    found = watched_pod(pod(spec={"schedulingGates": [{"name": gate} for gate in gates]}))
    assert found.pod.is_gated is is_gated


@pytest.mark.parametrize(
    ("spec", "status", "holds"),
    [
        ({"nodeName": "w"}, {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}, True),
        ({"nodeName": "w"}, {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, True),
        ({"nodeName": "w"}, {"phase": "Pending"}, False),  # not admitted yet
        ({"nodeName": "w"}, {"phase": "Failed", "startTime": "2026-01-01T00:00:00Z"}, False),
        ({}, {"phase": "Pending"}, False),
    ],
)
def test_a_pod_holds_something_from_its_admission_to_its_end(spec, status, holds):
    assert watched_pod(pod(spec=spec, qosClass="Guaranteed", **status)).holds is holds
    assert not watched_pod(pod(spec=spec, qosClass="Burstable", **status)).holds


def test_a_pod_with_a_device_holds_something_too():
    container = {"name": "app", "resources": {"limits": {"v.com/nic": 1}}}
    spec = {"nodeName": "w", "containers": [container]}
    running = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "qosClass": "BestEffort"}
    assert watched_pod(pod(spec=spec, **running)).holds


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"metadata": 7}', pod(phase="Failed", startTime="x")]
)
def test_what_is_no_pod_is_refused(data):
    with pytest.raises(WireError, match=r"found no v1\.Pod"):
        watched_pod(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        pod(spec={"schedulingGates": [5]}),
        pod(spec={"schedulingGates": {}}),
        pod(spec={"affinity": []}),
        pod(metadata={"annotations": []}),
        pod(metadata={"resourceVersion": ""}),
        pod(metadata={"name": None}),
        b'{"metadata": {"uid": "u"}}',
        b"[" * 100_000,
    ],
)
def test_a_pod_whose_members_are_of_other_types_is_refused_before_it_is_changed(data):
    for change in (gate_patch, recreated):
        with pytest.raises(WireError, match=r"v1\.Pod"):
            change(data, "u", ("w1",))


def gated(**spec):
    return pod(spec={"schedulingGates": [{"name": "other"}, {"name": GATE}], **spec})


def test_opening_takes_our_gate_alone_off_this_very_pod():
    patch = gate_patch(gated(), "u", ())
    assert patch == {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "spec": {"schedulingGates": [{"name": "other"}]},
    }
    assert gate_patch(gated(), "another", ()) is None
    assert gate_patch(pod(), "u", ()) is None


def test_opening_rules_out_hosts_one_by_one_and_says_so():
    patch = gate_patch(gated(), "u", ("w1", "w2"))
    assert patch["metadata"]["annotations"] == {"numalign.io/avoided-hosts": "w1,w2"}
    terms = [{"matchFields": [NOT_W1, NOT_W2]}]
    assert patch["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def test_the_pods_own_rules_stay_and_every_choice_of_them_is_narrowed():
    own = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"matchFields": [NOT_W2]}]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}, "preferred": 1}}
    patch = gate_patch(gated(affinity=affinity), "u", ("w1",))
    assert patch["spec"]["affinity"]["nodeAffinity"] == {
        REQUIRED: {
            "nodeSelectorTerms": [
                {"matchExpressions": own[0]["matchExpressions"], "matchFields": [NOT_W1]},
                {"matchFields": [NOT_W2, NOT_W1]},
            ]
        },
        "preferred": 1,
    }


def test_a_pod_is_made_again_without_its_past():
    old = pod(
        {"labels": {"a": "b"}, "annotations": {"c": "d"}, "managedFields": []},
        {"nodeName": "w1", "hostNetwork": True},
        phase="Failed",
    )
    body = recreated(old, "u", ("w1",))
    assert body["metadata"] == {
        "name": "web-1-r1",
        "namespace": "ns",
        "labels": {"a": "b"},
        "annotations": {"c": "d", "numalign.io/recreated-from": "u"},
    }
    assert body["spec"]["hostNetwork"] is True
    assert "nodeName" not in body["spec"]
    assert "status" not in body
    assert recreated(old, "another", ()) is None


def test_the_first_of_a_row_of_pods_is_remembered():
    root = {"annotations": {"numalign.io/recreated-from": "first"}, "name": "web-1-r1"}
    body = recreated(pod(root), "u", ())
    assert body["metadata"]["name"] == "web-1-r2"
    assert body["metadata"]["annotations"] == {"numalign.io/recreated-from": "first"}
    assert watched_pod(pod(root)).pod.owner_key == "first"


@pytest.mark.parametrize(
    ("name", "after"),
    [("db", "db-r1"), ("db-r9", "db-r10"), ("a" * 253, "a" * 250 + "-r1"), ("db-rx", "db-rx-r1")],
)
def test_names_of_pods_that_are_made_again(name, after):
    assert next_name(name) == after
