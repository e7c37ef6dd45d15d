"""Pods and hosts as a scheduler reads them."""

import json

import pytest

from numalign.core.cluster.scheduling.constraints import (
    HostPort,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from numalign.core.errors import WireError
from numalign.wire.kubernetes.scheduling import host_from_json, pod_from_json, pod_of


def pod(**spec: object) -> dict[str, object]:
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}


def host_of(document: dict[str, object]):
    return host_from_json(json.dumps(document).encode())


def test_a_plain_pod_has_no_demands():
    found = pod_of(pod(containers=[{"name": "c"}]))
    assert found.requirements.unsupported == ()
    assert found.requirements.terms is None
    assert (found.scheduler, found.host, found.phase) == ("default-scheduler", "", "Pending")
    assert not (found.is_gated or found.is_deleted or found.is_over)


def test_the_rules_of_a_pod_are_read():
    found = pod_of(
        pod(
            containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}],
            schedulerName="numalign",
            priority=7,
            nodeName="w1",
            schedulingGates=[{"name": "g"}],
            nodeSelector={"b": "2", "a": "1"},
            tolerations=[{"key": "k", "operator": "Exists"}, {"key": "x", "value": "y"}],
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "z", "operator": "In", "values": ["a"]}
                                ],
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["w"]}
                                ],
                            }
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                }
            },
        )
    )
    assert (found.scheduler, found.priority, found.host) == ("numalign", 7, "w1")
    assert found.is_gated
    assert found.requirements.selector == (("a", "1"), ("b", "2"))
    assert found.requirements.tolerations == (
        Toleration("k", "Exists"),
        Toleration("x", "Equal", "y"),
    )
    assert found.requirements.ports == (HostPort(8080),)
    assert found.requirements.terms == (
        Term(
            (Requirement("z", "In", ("a",)),),
            (Requirement("metadata.name", "In", ("w",)),),
        ),
    )


def test_ports_of_pods_in_the_host_network_are_ports_of_the_host():
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 1}]}
    init = {"name": "i", "ports": [{"containerPort": 2}]}
    app = {"name": "c", "ports": [{"containerPort": 3, "protocol": "UDP", "hostIP": "10.0.0.1"}]}
    found = pod_of(pod(hostNetwork=True, initContainers=[sidecar, init], containers=[app]))
    assert found.requirements.ports == (HostPort(1), HostPort(3, "UDP", "10.0.0.1"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "zone",
                                "namespaceSelector": {"matchLabels": {"team": "a"}},
                            }
                        ]
                    }
                }
            },
            "a namespaceSelector by other labels than kubernetes.io/metadata.name",
        ),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "persistent volume claims",
        ),
        (
            {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
            "persistent volume claims",
        ),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    ],
)
def test_rules_that_we_cannot_honour_are_named(spec: dict[str, object], words: str):
    assert pod_of(pod(**spec)).requirements.unsupported == (words,)


def test_rules_that_only_prefer_are_no_hindrance():
    found = pod_of(
        pod(
            affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}},
            topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}],
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}],
        )
    )
    assert found.requirements.unsupported == ()


def test_the_status_tells_what_has_become_of_a_pod():
    document = pod(containers=[])
    document["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "12"}
    document["status"] = {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no host",
            }
        ],
    }
    found = pod_from_json(json.dumps(document).encode())
    assert found.is_over
    assert found.is_deleted
    assert (found.reason, found.version, found.unschedulable) == (
        "TopologyAffinityError",
        "12",
        "no host",
    )


def test_a_host_is_read():
    document = {
        "metadata": {"name": "w1", "labels": {"a": "b"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "3500m", "memory": "1Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "Unknown"}],
        },
    }
    found = host_of(document)
    assert found.allocatable == {"cpu": 3500, "memory": 1 << 30, "pods": 110}
    assert found.taints == (Taint("k", "", "NoSchedule"),)
    assert found.is_unschedulable
    assert not found.is_ready


def test_a_host_without_a_word_about_readiness_is_judged_by_its_taints():
    assert host_of({"metadata": {"name": "w1"}}).is_ready


def test_a_broken_host_is_named():
    with pytest.raises(WireError, match="node w1"):
        host_of({"metadata": {"name": "w1"}, "status": {"allocatable": {"cpu": "many"}}})
    with pytest.raises(WireError, match=r"found no v1.Node: .*spec"):
        host_of({"metadata": {"name": "w1"}, "spec": []})
