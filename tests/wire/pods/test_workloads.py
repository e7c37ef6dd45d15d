"""Workloads become the pods that their controllers would make."""

import json

import pytest

from numalign.core.errors import WireError
from numalign.wire.pods.workloads import PODS_MAX, expanded

CONTAINERS = [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}


def workload(kind, **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": TEMPLATE, **spec},
    }


def names(*documents):
    text = "\n---\n".join(map(json.dumps, documents))
    return [r.metadata.name for r in expanded(text.encode(), source="f")]


def test_a_stateful_set_numbers_its_pods():
    assert names(workload("StatefulSet", replicas=3)) == ["web-0", "web-1", "web-2"]


@pytest.mark.parametrize(
    ("document", "count", "parts"),
    [
        (workload("Deployment", replicas=2), 2, 3),
        (workload("Deployment"), 1, 3),
        (workload("ReplicaSet", replicas=2), 2, 2),
        (workload("ReplicationController", replicas=2), 2, 2),
        (workload("DaemonSet"), 1, 2),
        (workload("Job", parallelism=3, completions=9), 3, 2),
        (workload("Job", parallelism=2, completionMode="Indexed"), 2, 3),
        (
            {
                **workload("CronJob"),
                "spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
            },
            2,
            3,
        ),
        (workload("Deployment", replicas=0), 0, 0),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else str(value),
)
def test_other_workloads_name_their_pods_as_controllers_do(document, count, parts):
    found = names(document, workload("StatefulSet"))[:-1]
    assert len(found) == count
    assert len(set(found)) == count
    for name in found:
        assert name.startswith("web-")
        assert len(name.split("-")) == parts
        assert len(name.rpartition("-")[2]) == 5
    assert names(document, workload("StatefulSet"))[:-1] == found


@pytest.mark.parametrize(
    "document",
    [
        {"spec": {"containers": CONTAINERS}},
        {"metadata": {"labels": {}}, "spec": {"containers": CONTAINERS}},
        {"template": TEMPLATE},
        {"spec": {"replicas": 3, "template": TEMPLATE}},
        {"apiVersion": "v1", "kind": "PodTemplate", "template": TEMPLATE},
    ],
)
def test_a_bare_template_is_one_pod(document):
    assert names(document) == ["pod"]


def test_lists_are_unfolded_and_pods_keep_their_uid():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": CONTAINERS},
    }
    listed = {"kind": "List", "items": [pod, workload("StatefulSet", replicas=2)]}
    podlist = {"kind": "PodList", "items": [{k: v for k, v in pod.items() if k != "kind"}]}
    found = expanded(f"{json.dumps(listed)}\n---\n{json.dumps(podlist)}".encode(), source="f")
    assert [r.metadata.name for r in found] == ["p", "web-0", "web-1", "p"]
    assert [r.metadata.uid for r in found][::3] == ["u", "u"]
    assert found[1].metadata.namespace == "shop"


def test_every_pod_has_a_uid_of_its_own_that_follows_from_the_text():
    text = json.dumps({"kind": "List", "items": [workload("Deployment", replicas=4)] * 2}).encode()
    uids = [r.metadata.uid for r in expanded(text, source="f")]
    assert len(set(uids)) == 8
    assert [r.metadata.uid for r in expanded(text, source="f")] == uids


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (workload("Deployment", replicas=PODS_MAX + 1), f"expected at most {PODS_MAX}"),
        (workload("Deployment", replicas=-1), "spec.replicas: found -1"),
        (workload("Deployment", replicas="2"), "spec.replicas: found '2'"),
        (workload("Deployment", replicas=True), "spec.replicas: found True"),
        (workload("Service"), "found kind 'Service'"),
        ({"kind": "Deployment", "metadata": "x", "spec": {"template": TEMPLATE}}, "metadata"),
        ({"kind": "Deployment"}, "has no spec.template"),
        ({"kind": "List", "items": {"a": 1}}, "items: found dict"),
        ({"kind": "List", "items": ["x"]}, "found str"),
        ({"metadata": {}}, "found kind None"),
        (None, "found nothing"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_is_no_workload_is_one_clear_error(document, words):
    with pytest.raises(WireError, match=r"^f: ") as caught:
        names(document)
    assert words in str(caught.value)
