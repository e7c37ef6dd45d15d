"""Manifests become pods with the API server's defaults, or one clear line."""

import json

import pytest

from numalign.core.errors import WireError
from numalign.core.pod import Qos, exclusive_cpus, qos_class
from numalign.core.settings import Settings
from numalign.wire.pods.manifests import core_pod, load_all

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: worker
spec:
  containers:
  - name: main
    image: busybox
    command: [sleep, "1000"]
    resources:
      limits: {cpu: 2, memory: 1Gi}
"""


def only(text):
    [record] = load_all(text.encode(), source="pod.yaml")
    return record


def test_a_limit_without_a_request_becomes_the_request():
    pod = core_pod(only(POD), uid="u")
    container = pod.containers[0]
    assert str(container.requests["cpu"]) == "2"
    assert qos_class(pod, Settings()) is Qos.GUARANTEED
    assert exclusive_cpus(pod, container, Settings()) == 2
    assert pod.namespace == "default"


def test_sidecars_are_init_containers_that_always_restart():
    text = POD.replace(
        "  containers:",
        "  initContainers:\n  - {name: once}\n"
        "  - {name: side, restartPolicy: Always}\n  containers:",
    )
    pod = core_pod(only(text), uid="u")
    assert [(c.name, c.is_regular_init) for c in pod.init_containers] == [
        ("once", True),
        ("side", False),
    ]


def test_the_class_that_the_api_server_has_set_is_kept():
    pod = core_pod(only(POD + "status: {qosClass: Burstable}\n"), uid="u")
    assert qos_class(pod, Settings()) is Qos.BURSTABLE


def test_several_documents_and_lists_give_several_pods():
    pods = load_all((POD + "---" + POD + "---\n").encode(), source="x")
    assert len(pods) == 2
    items = {"kind": "List", "items": [json.loads(json.dumps({"kind": "Pod"}))]}
    items["items"][0] |= {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    assert [p.metadata.name for p in load_all(json.dumps(items).encode(), source="x")] == ["a"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("name: worker", "name: Worker_1"), "metadata.name: found 'Worker_1'"),
        (("name: worker", "labels: {}"), "metadata.name: found none, expected a name"),
        (("name: main", "name: Main"), "container name: found 'Main', expected a DNS label"),
        (("cpu: 2", "cpu: -2"), "limits.cpu: found -2, must be greater than or equal to 0"),
        (("cpu: 2", "cpu: lots"), "limits.cpu: found 'lots': quantities must match"),
        (("cpu: 2", "vendor.com/gpu: 1.5"), "vendor.com/gpu: found 1.5, must be an integer"),
        (("kind: Pod", "kind: Service"), "found kind 'Service', expected Pod"),
        (("apiVersion: v1", "apiVersion: v2"), "found apiVersion 'v2', expected 'v1'"),
        (
            ("- name: main\n    image: busybox", "- image: x"),
            "Object missing required field `name`",
        ),
        (("limits: {cpu: 2, memory: 1Gi}", "limits: 3"), "Expected `object | null`, got `int`"),
        (
            ("limits: {cpu: 2,", "requests: {cpu: 4}\n      limits: {cpu: 2,"),
            "requests.cpu: found 4, must be less than or equal to cpu limit of 2",
        ),
        (
            ("limits: {cpu: 2,", "requests: {a/b: 1}\n      limits: {a/b: 2,"),
            "requests.a/b: must be equal to the limit 2",
        ),
    ],
)
def test_what_the_api_server_would_refuse_is_refused_with_one_line(change, words):
    text = POD.replace(*change)
    assert text != POD
    with pytest.raises(WireError) as caught:
        load_all(text.encode(), source="pod.yaml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("pod.yaml: ")
    assert "\n" not in str(caught.value)


def test_two_containers_of_one_name_are_refused():
    text = POD + "  - name: main\n"
    with pytest.raises(WireError, match="container main: found twice"):
        load_all(text.encode(), source="pod.yaml")


@pytest.mark.parametrize(
    "text", ["", "---\n", "[]", "just text", "{", "a: &x [1]\nb: *x", "kind: [Pod]", "\x00"]
)
def test_what_is_no_manifest_is_refused(text):
    with pytest.raises(WireError):
        load_all(text.encode(), source="pod.yaml")


def test_a_uid_that_would_lead_elsewhere_is_refused():
    text = b"kind: Pod\nmetadata: {name: a, uid: ../../etc}\nspec: {containers: [{name: c}]}"
    with pytest.raises(WireError, match=r"metadata\.uid: found '\.\./"):
        load_all(text, source="x")


def test_an_image_pull_policy_that_is_none_is_refused():
    text = b"kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, imagePullPolicy: Ja}]}"
    with pytest.raises(WireError, match="imagePullPolicy: found 'Ja'"):
        load_all(text, source="x")
