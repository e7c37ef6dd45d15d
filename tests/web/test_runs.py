"""Runs over the API: only over the unix socket, only for a process of this host, with the cause."""

from dataclasses import replace

import httpx
import pytest
from tests.sockets import short_directory
from tests.web.in_memory_agent import TOKEN, InMemoryAgent, served

from numalign.adapters.local.run_client import process


@pytest.fixture
def host(tmp_path):
    agent = InMemoryAgent(tmp_path)
    agent.setup = replace(agent.setup, runs_processes=True)
    with short_directory() as short, served(agent, short) as found:
        yield found


@pytest.fixture
def unix(host):
    transport = httpx.HTTPTransport(uds=str(host.socket), verify=False)
    with httpx.Client(transport=transport, base_url="http://agent", timeout=10) as client:
        yield client


def asked(cpu="1", *, wait=False, who=None, annotations=None, **spec):
    container = {"name": "run", "command": ["true"], "resources": {"limits": {"cpu": cpu}}}
    return {
        "pod": {
            "kind": "Pod",
            "metadata": {"name": "mine", "uid": "u-1", "annotations": annotations or {}},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
            "status": {"qosClass": "Guaranteed"},
        },
        "process": who or process(),
        "wait": wait,
    }


def test_a_run_is_answered_with_what_its_process_has_to_do(unix):
    policy = {"numalign.io/memory-policy": "bind"}
    answer = unix.post("/runs", json=asked(annotations=policy))
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["name"], found["state"], found["memoryPolicy"]) == ("mine", "started", "bind")
    assert found["policyNodes"] and unix.get("/runs/u-1").json() == found


def test_a_refused_one_says_the_cause_and_is_not_kept(unix):
    answer = unix.post("/runs", json=asked("1000"))
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("container run asks for 1000 exclusive CPUs; ")
    assert unix.get("/pods").json()["items"] == []
    assert unix.get("/runs/u-1").status_code == 404


def test_one_that_would_fit_later_is_told_of_the_queue_and_may_wait_in_it(host, unix):
    free = host.agent.state.host.cpu.shared.bit_count()
    most = next(n for n in range(free, 0, -1) if fits(unix, n))
    other = asked(str(most))
    other["pod"]["metadata"] = {"name": "other", "uid": "u-0"}
    other["process"]["boot"] = process()["boot"]
    assert unix.post("/pods", json=other["pod"]).status_code == 201
    refused = unix.post("/runs", json=asked(str(most)))
    assert refused.json()["error"].endswith(
        "It would fit if nothing else were there: --wait queues it"
    )
    answer = unix.post("/runs", json=asked(str(most), wait=True))
    assert answer.status_code == 202
    assert answer.json()["message"].startswith("it does not fit yet: container run asks for")
    unix.delete("/pods/u-0")
    assert unix.get("/runs/u-1").json()["state"] == "started"


def fits(unix, count):
    answer = unix.post("/runs", json=asked(str(count)))
    unix.delete("/pods/u-1")
    return answer.status_code == 201


def test_over_tcp_nobody_runs_anything_not_even_with_the_token(host):
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=host.tcp, trust_env=False, timeout=10, verify=False) as tcp:
        assert tcp.post("/runs", json=asked(), headers=headers).status_code == 403
        assert tcp.get("/runs/u-1", headers=headers).status_code == 403


def test_a_process_of_another_namespace_is_not_taken_for_one_of_this_host(unix):
    elsewhere = {**process(), "start": 1}
    answer = unix.post("/runs", json=asked(who=elsewhere))
    assert answer.status_code == 400
    assert "must be on the agent's host and in its PID namespace" in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"pod": {}, "process": 1}',
        b'{"pod": {"kind": "Pod"}, "process": {"pid": 1, "start": 1, "boot": ""}}',
        b"\xff\xfe",
    ],
)
def test_a_body_that_is_no_run_is_refused(unix, body):
    answer = unix.post("/runs", content=body)
    assert answer.status_code == 400 and answer.json()["reason"] == "BadRequest"


def test_a_policy_that_there_is_not_and_several_containers_are_refused(unix):
    wrong = {"numalign.io/topology-policy": "best"}
    assert "expected one of best-effort" in unix.post("/runs", json=asked(annotations=wrong)).text
    two = [{"name": "a"}, {"name": "b"}]
    assert "expected one" in unix.post("/runs", json=asked(containers=two)).text
