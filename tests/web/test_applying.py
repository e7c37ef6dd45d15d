"""Workloads over POST /pods: made as written, one result for each pod."""

import json

import httpx
import pytest
from tests.sockets import short_directory
from tests.web.in_memory_agent import InMemoryAgent, manifest, served
from tests.web.schemas import faults

from numalign.web.openapi import document


@pytest.fixture
def host(tmp_path):
    with short_directory() as short, served(InMemoryAgent(tmp_path), short) as found:
        yield found


@pytest.fixture
def unix(host):
    transport = httpx.HTTPTransport(uds=str(host.socket), verify=False)
    with httpx.Client(transport=transport, base_url="http://agent", timeout=10) as client:
        yield client


def deployment(replicas, cpu="1"):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": {"spec": manifest(cpu=cpu)["spec"]}},
    }


def differs(answer, name):
    """Where an answer is not as the API's document says."""
    return faults(answer.json(), {"$ref": f"/{name}"}, document())


def results(answer):
    return [(change["name"], change["result"]) for change in answer.json()["changes"]]


def test_a_deployment_is_created_scaled_and_changed_by_posting_it_again(unix):
    assert results(unix.post("/pods", json=deployment(2))) == [
        ("web-0", "created"),
        ("web-1", "created"),
    ]
    assert results(unix.post("/pods", json=deployment(1))) == [
        ("web-1", "deleted"),
        ("web-0", "unchanged"),
    ]
    answer = unix.post("/pods", json=deployment(1, cpu="2"))
    assert answer.status_code == 200 and not differs(answer, "Changes")
    assert results(answer) == [("web-0", "replaced")]
    [pod] = unix.get("/pods").json()["items"]
    assert pod["metadata"]["ownerReferences"] == [
        {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1", "controller": True}
    ]
    assert results(unix.post("/pods", json=deployment(0))) == [("web-0", "deleted")]
    assert unix.get("/pods").json()["items"] == []


def test_several_documents_are_applied_and_others_noted(unix):
    body = "\n---\n".join(
        map(json.dumps, [manifest("a"), {"kind": "Service"}, manifest("b"), manifest("a")])
    )
    answer = unix.post("/pods", content=body)
    assert answer.status_code == 422 and not differs(answer, "Error")
    assert results(answer) == [("a", "created"), ("b", "created"), ("a", "refused")]
    assert "the name is taken by the pod before it" in answer.json()["error"]
    items = [{"kind": "Secret"}, manifest("a")]
    answer = unix.post("/pods?apply=1", json={"kind": "List", "items": items})
    assert results(answer) == [("a", "unchanged")]
    assert answer.json()["notes"] == ["request: passed over Secret; only pods and workloads count"]


def test_refused_pods_of_a_workload_are_told_beside_the_others(unix):
    answer = unix.post("/pods", json=deployment(3, cpu="6"))
    assert answer.status_code == 422
    assert results(answer) == [("web-0", "created"), ("web-1", "created"), ("web-2", "refused")]
    change = answer.json()["changes"][2]
    assert (change["reason"], change["owner"]) == ("TopologyAffinityError", "Deployment/web")


def test_one_pod_is_created_once_and_replaced_only_with_apply(unix):
    assert unix.post("/pods", json=manifest("p")).status_code == 201
    answer = unix.post("/pods", json=manifest("p", cpu="3"))
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert results(unix.post("/pods?apply=true", json=manifest("p", cpu="3"))) == [
        ("p", "replaced")
    ]


def test_a_changed_pod_waits_for_the_old_one_to_end(host, unix):
    uid = unix.post("/pods", json=manifest("p")).json()["metadata"]["uid"]
    host.agent.stubborn.add("p")
    [change] = unix.post("/pods?apply=true", json=manifest("p", cpu="3")).json()["changes"]
    assert (change["result"], change["reason"]) == ("replaced", "WaitingForPredecessor")
    host.call(host.agent.exit, uid, "main", 143)
    [pod] = unix.get("/pods").json()["items"]
    assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (change["uid"], "Running")
