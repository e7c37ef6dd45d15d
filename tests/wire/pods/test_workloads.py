"""Workloads become pods by one rule, and nothing is passed over without a word."""

import json

import pytest

from numalign.core.errors import WireError
from numalign.wire.pods.workloads import KINDS, PODS_MAX, expanded, identified, split_by_name

CONTAINERS = [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": CONTAINERS}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def workload(kind, name="web", **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"template": TEMPLATE, **spec},
    }


def cron(suspend=None, **job):
    spec = {"jobTemplate": {"spec": {"template": TEMPLATE, **job}}}
    if suspend is not None:
        spec["suspend"] = suspend
    return {**workload("CronJob"), "spec": spec}


def text(*documents):
    return "\n---\n".join(map(json.dumps, documents)).encode()


def names(*documents, **more):
    return [r.metadata.name for r in expanded(text(*documents), source="f", **more).pods]


@pytest.mark.parametrize(
    ("document", "count", "note"),
    [
        (workload("Deployment", replicas=2), 2, ""),
        (workload("Deployment"), 1, ""),
        (workload("Deployment", replicas=0), 0, "Deployment web has replicas: 0, so no pods"),
        (workload("StatefulSet", replicas=3), 3, ""),
        (workload("ReplicaSet", replicas=2), 2, ""),
        (workload("ReplicationController", replicas=2), 2, ""),
        (workload("DaemonSet", replicas=7), 1, ""),
        (workload("Job", parallelism=3), 3, ""),
        (workload("Job", parallelism=3, completions=2), 2, ""),
        (workload("Job", completions=5), 1, "wants 5 completions: the 1 that run at once count"),
        (workload("Job", parallelism=0), 0, "has nothing to run, so no pods"),
        (workload("Job", parallelism=3, suspend=True), 0, "Job web is suspended, so no pods"),
        (cron(parallelism=2), 2, "counts as one run of its job, without its schedule"),
        (cron(suspend=True), 0, "CronJob web is suspended, so no pods"),
        (cron(parallelism=2, completions=4), 2, "count, and counts as one run"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_workload_becomes_numbered_pods_that_know_their_owner(document, count, note):
    found = expanded(text(document), source="f")
    assert [p.metadata.name for p in found.pods] == [f"web-{number}" for number in range(count)]
    for pod in found.pods:
        owner = pod.metadata.controller
        assert (owner.kind, owner.name, owner.apiVersion) == (document["kind"], "web", "apps/v1")
        assert (pod.metadata.namespace, pod.metadata.labels) == ("shop", {"a": "b"})
    assert [n for n in found.notes if note not in n] == []
    assert bool(found.notes) == bool(note)


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
    [pod] = expanded(text(document), source="f").pods
    assert pod.metadata.name == "pod" and pod.metadata.controller is None


def test_a_generated_name_of_a_job_gives_its_pods_their_name():
    document = workload("Job")
    document["metadata"] = {"generateName": "train-"}
    assert names(document) == ["train-0"]


def test_lists_are_unfolded_and_pods_keep_their_uid():
    pod = {**POD, "metadata": {"name": "p", "uid": "u"}}
    listed = {"kind": "List", "items": [pod, workload("StatefulSet", replicas=2)]}
    podlist = {"kind": "PodList", "items": [{k: v for k, v in pod.items() if k != "kind"}]}
    found = expanded(text(listed, podlist), source="f").pods
    assert [r.metadata.name for r in found] == ["p", "web-0", "web-1", "p"]
    assert [r.metadata.uid for r in found] == ["u", "", "", "u"]


def test_other_kinds_are_passed_over_with_one_note():
    config = {"kind": "ConfigMap", "metadata": {"name": "x"}}
    found = expanded(text(SERVICE, workload("Deployment"), config, config), source="f.yaml")
    assert [p.metadata.name for p in found.required().pods] == ["web-0"]
    [note] = found.notes
    assert note.startswith("f.yaml: passed over Service, ConfigMap (2);")


def test_a_text_of_nothing_but_other_kinds_is_a_clear_error():
    with pytest.raises(WireError) as caught:
        expanded(text(SERVICE), source="f").required()
    assert str(caught.value) == f"f: found only Service, expected one of {', '.join(KINDS)} or List"
    with pytest.raises(WireError, match=r"^f: found nothing, expected"):
        expanded(b"---\n", source="f").required()


def test_a_namespace_is_for_those_that_have_none():
    assert expanded(text(POD), source="f", namespace="ops").pods[0].metadata.namespace == "ops"
    assert names(workload("Deployment"), namespace="shop") == ["web-0"]
    with pytest.raises(WireError, match="f: web: found the namespace 'shop', but -n says 'ops'"):
        expanded(text(workload("Deployment")), source="f", namespace="ops")


def test_uids_follow_from_text_and_place():
    pods = expanded(text(workload("Deployment", replicas=4)), source="f").pods
    uids = [r.metadata.uid for r in identified(pods, "f")]
    assert len(set(uids)) == 4
    assert [r.metadata.uid for r in identified(pods, "f")] == uids
    assert not {r.metadata.uid for r in identified(pods, "g")} & set(uids)


def test_the_second_pod_of_a_name_is_set_apart_with_a_sentence():
    first = expanded(text(POD, workload("Deployment", replicas=2)), source="a.yaml").workloads
    other = {**POD, "metadata": {"name": "web-1", "namespace": "shop"}}
    again = expanded(text(other, POD, workload("StatefulSet", "db")), source="b.yaml").workloads
    kept, twice = split_by_name([*first, *again])
    assert [p.metadata.name for w in kept for p in w.pods] == ["p", "web-0", "web-1", "db-0"]
    assert [(one.namespace, one.name) for one in twice] == [("shop", "web-1"), ("default", "p")]
    assert twice[0].text == (
        "b.yaml: pod shop/web-1: the name is taken by the pod of Deployment web before it in "
        "a.yaml; give one of them another name or namespace"
    )


def test_pods_without_a_name_are_never_the_same():
    nameless = {**POD, "metadata": {"generateName": "x-"}}
    kept, twice = split_by_name(expanded(text(nameless, nameless), source="f").workloads)
    assert len(kept) == 2 and not twice


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (workload("Deployment", replicas=PODS_MAX + 1), f"expected at most {PODS_MAX}"),
        (workload("Deployment", replicas=-1), "spec.replicas: found -1"),
        (workload("Deployment", replicas="2"), "spec.replicas: found '2'"),
        (workload("Deployment", replicas=True), "spec.replicas: found True"),
        (workload("Deployment", "x" * 252), "metadata.name: found"),
        (workload("Deployment", ""), "metadata.name: found none"),
        (cron(parallelism=-1), "spec.jobTemplate.spec.parallelism: found -1"),
        ({"kind": "Deployment", "metadata": "x", "spec": {"template": TEMPLATE}}, "metadata"),
        ({"kind": "Deployment"}, "has no spec.template"),
        ({"kind": "List", "items": {"a": 1}}, "items: found dict"),
        ({"kind": "List", "items": ["x"]}, "found str"),
        ({"metadata": {}}, "found kind None"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_is_no_workload_is_one_clear_error(document, words):
    with pytest.raises(WireError, match=r"^f: ") as caught:
        names(document)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("member", ["name", "generateName", "namespace"])
@pytest.mark.parametrize("value", [0.5, 7, True, [], {"a": 1}])
def test_a_name_that_is_no_text_is_refused_before_it_is_kept(member, value):
    document = {"kind": "Deployment", "metadata": {member: value}, "spec": {"template": TEMPLATE}}
    with pytest.raises(WireError, match=f"metadata.{member}: found .*, expected a text"):
        expanded(json.dumps(document).encode(), source="x")
