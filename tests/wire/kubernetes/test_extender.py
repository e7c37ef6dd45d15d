"""Calls of the kube-scheduler to an extender."""

import json

import msgspec
import pytest

from numalign.core.errors import WireError
from numalign.wire.kubernetes import extender

POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "creationTimestamp": None},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]},
    "status": {"phase": "Pending", "qosClass": "Guaranteed"},
}
NODE = {"metadata": {"name": "w1", "labels": {"a": "b"}}, "status": {"images": [{"sizeBytes": 1}]}}


def encoded(**members: object) -> bytes:
    return json.dumps(members).encode()


def test_hosts_come_as_names_where_the_scheduler_trusts_our_cache():
    asked = extender.read_hosts_asked(encoded(Pod=POD, Nodes=None, NodeNames=["w2", "w1"]))
    assert asked.names == ("w2", "w1")
    assert asked.objects is None
    assert asked.pod.pod.containers[0].requests["cpu"].value() == 2


def test_whole_hosts_come_back_as_they_were():
    data = encoded(Pod=POD, Nodes={"metadata": {}, "items": [NODE]}, NodeNames=None)
    asked = extender.read_hosts_asked(data)
    assert asked.names == ("w1",)
    answer = json.loads(extender.filter_answer(asked, {"w1"}, {}, {}))
    assert answer == {
        "Nodes": {"metadata": {}, "items": [NODE]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_the_answer_to_filter_has_the_names_and_the_reasons():
    asked = extender.read_hosts_asked(encoded(Pod=POD, Nodes=None, NodeNames=["w1", "w2", "w3"]))
    answer = extender.filter_answer(asked, {"w3"}, {"w1": "too few"}, {"w2": "never"})
    assert json.loads(answer) == {
        "Nodes": None,
        "NodeNames": ["w3"],
        "FailedNodes": {"w1": "too few"},
        "FailedAndUnresolvableNodes": {"w2": "never"},
        "Error": "",
    }


def test_no_host_left_is_an_empty_list_and_not_null():
    asked = extender.read_hosts_asked(encoded(Pod=POD, Nodes=None, NodeNames=[]))
    assert json.loads(extender.filter_answer(asked, set(), {}, {}))["NodeNames"] == []


def test_scores_are_an_array():
    assert json.loads(extender.prioritize_answer([("w1", 7)])) == [{"Host": "w1", "Score": 7}]


def test_bind_names_the_pod_by_uid():
    data = encoded(PodName="p", PodNamespace="ns", PodUID="u1", Node="w1")
    assert extender.read_bind_asked(data) == extender.BindAsked("p", "ns", "u1", "w1")
    assert json.loads(extender.bind_answer("no")) == {"Error": "no"}


def test_victims_come_by_uid_or_whole():
    meta = {"w1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2}}
    data = encoded(Pod=POD, NodeNameToVictims=None, NodeNameToMetaVictims=meta)
    asked = extender.read_preempt_asked(data)
    assert asked.victims == {"w1": extender.Victims(("v1",), 2)}
    assert json.loads(extender.preempt_answer(asked.victims)) == {"NodeNameToMetaVictims": meta}
    full = {"w1": {"Pods": [{"metadata": {"uid": "v1"}}], "NumPDBViolations": 0}}
    data = encoded(Pod=POD, NodeNameToVictims=full, NodeNameToMetaVictims=None)
    assert extender.read_preempt_asked(data).victims == {"w1": extender.Victims(("v1",))}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"Pod": null, "NodeNames": []}', "Pod: found null, expected a v1.Pod"),
        (encoded(Pod=POD), "found neither NodeNames nor Nodes"),
        (encoded(Pod=POD, NodeNames=[1]), "Expected `str`, got `int`"),
        (encoded(Pod=POD, Nodes={"items": [{}]}), "a v1.Node without metadata.name"),
        (encoded(Pod=POD, Nodes={"items": ["x"]}), "Nodes.items: not a v1.Node"),
        (encoded(Pod={"spec": {"containers": 3}}, NodeNames=[]), "found no v1.Pod"),
        (b'{"Pod": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_anything_else_is_refused_with_a_reason(data: bytes, text: str):
    with pytest.raises(WireError) as refused:
        extender.read_hosts_asked(data)
    assert text in str(refused.value)


def test_a_flood_is_refused_before_it_is_read():
    with pytest.raises(WireError, match="at most"):
        extender.read_hosts_asked(b" " * (extender.BODY_BYTES_MAX + 1))


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_a_bind_without_a_name_is_refused(missing: str):
    members = {"PodName": "p", "PodNamespace": "ns", "PodUID": "u1", "Node": "w1", missing: ""}
    with pytest.raises(WireError, match=missing):
        extender.read_bind_asked(encoded(**members))


def test_five_thousand_whole_hosts_are_within_the_limit():
    images = [{"names": [f"registry/app{i}@sha256:{'0' * 64}"], "sizeBytes": i} for i in range(50)]
    item = {"metadata": {"name": "w"}, "status": {"images": images}}
    size = len(msgspec.json.encode(item)) * 5_000
    assert size < extender.BODY_BYTES_MAX
