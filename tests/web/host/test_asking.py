"""Questions to an agent over its real sockets: what is answered, to whom, and how often."""

import json
import threading

import httpx
import pytest
from tests.sockets import short_directory
from tests.web.in_memory_agent import GPU, InMemoryAgent, manifest, served
from tests.web.schemas import faults

from numalign.apps.agent.views import asked
from numalign.core.values.quantity import Quantity
from numalign.web.host.asking import BODY_BYTES_MAX, BURST
from numalign.web.openapi import document
from numalign.wire.fleet.shapes import reference_mix

SHAPES = b"small: {cpu: 2, memory: 1Gi, weight: 3}\nhuge: {cpu: 64, memory: 1Gi}\n"


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


@pytest.fixture
def host(agent):
    with (
        short_directory() as short,
        served(agent, short, mix=reference_mix(SHAPES, "shapes")) as found,
    ):
        yield found


@pytest.fixture
def tcp(host):
    with httpx.Client(base_url=host.tcp, trust_env=False, timeout=20) as client:
        yield client


@pytest.fixture
def unix(host):
    transport = httpx.HTTPTransport(uds=str(host.socket))
    with httpx.Client(transport=transport, base_url="http://agent", timeout=20) as client:
        yield client


def ask(client, **question):
    answer = client.post("/admission", json=question)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_shape_that_fits_is_told_where_it_would_sit_without_a_token(agent, tcp):
    before = agent.state
    found = ask(tcp, shape={"cpu": "2", "memory": "1Gi", GPU: 1})
    [item] = found["items"]
    assert item["admitted"]
    [placed] = item["placements"]
    assert (placed["exclusive"], placed["aligned"], placed["devices"]) == (
        True,
        True,
        {GPU: ["g0"]},
    )
    node = placed["cpuNodes"]
    assert [own["node"] for own in item["map"] if own["pod"]] == node
    assert item["costs"], "an admitted pod has its costs"
    assert agent.state is before, "nothing changes"
    assert faults(found, {"$ref": "#/components/schemas/Explained"}, document()) == []


def test_a_shape_that_does_not_fit_is_told_why_and_what_would_help(tcp):
    [item] = ask(tcp, shape={"cpu": "9", "memory": "1Gi"})["items"]
    assert not item["admitted"]
    assert item["reason"] == "TopologyAffinityError"
    assert "9 exclusive CPUs" in item["sentence"]
    assert item["complete"]
    assert "8 CPUs instead of 9" in item["changes"][0]["text"]
    [bare] = ask(tcp, shape={"cpu": "9", "memory": "1Gi"}, search=False)["items"]
    assert "changes" not in bare


def test_the_answer_is_what_would_become_of_the_pod(unix):
    """Asked and done: the same CPUs, memory and devices."""
    for gpus in (1, 2, 0):
        pod = manifest(f"p{gpus}", gpus=gpus)
        [item] = ask(unix, manifest=json.dumps(pod))["items"]
        made = unix.post("/pods", json=pod).json()
        [placed] = item["placements"]
        own = made["numalign"]["containers"]["main"]
        same = ("cpus", "memory", "devices", "aligned", "distance")
        assert {name: placed[name] for name in same} == {name: own[name] for name in same}


def test_replicas_are_asked_about_one_after_the_other(tcp):
    found = ask(tcp, shape={"cpu": "4", "memory": "1Gi"}, count=4)
    verdicts = [item["admitted"] for item in found["items"]]
    assert verdicts == [True, True, True, False]
    cpus = [i["placements"][0]["cpus"] for i in found["items"] if i["admitted"]]
    assert len(set(cpus)) == len(cpus), "each is given CPUs of its own"


def test_more_pods_than_are_asked_about_are_counted(tcp):
    deployment = f"""
        kind: Deployment
        apiVersion: apps/v1
        metadata: {{name: many}}
        spec:
          replicas: {asked.PODS_ASKED_MAX + 6}
          selector: {{matchLabels: {{a: b}}}}
          template:
            metadata: {{labels: {{a: b}}}}
            spec: {{containers: [{{name: c, image: i}}]}}
    """
    found = ask(tcp, manifest=deployment)
    assert len(found["items"]) + found["leftOut"] == asked.PODS_ASKED_MAX + 6
    assert found["leftOut"] >= 6


def test_a_manifest_may_come_by_itself(tcp):
    text = "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c}]}\n---\nkind: Service\n"
    answer = tcp.post("/admission", content=text, headers={"content-type": "application/yaml"})
    [item] = answer.json()["items"]
    assert (item["pod"], item["admitted"]) == ("default/x", True)
    assert "passed over" in answer.json()["notes"][0]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("[]", "shape"),
        ("{}", "neither of shape and manifest"),
        ('{"shape": {"cpu": "1"}, "manifest": "x"}', "both of shape and manifest"),
        ('{"shape": {"memory": "1Gi"}}', "no cpu"),
        ('{"shape": {"cpu": "two"}}', "two"),
        ('{"shape": {"cpu": "1"}, "count": 65}', "64"),
        ('{"manifest": "kind: Service"}', "only Service"),
        ('{"manifest": "{"}', "manifest"),
        ('{"shape": {"cpu": "1"}, "other": 1}', "other"),
        ('{"shape": {"cpu": "-1"}}', "0 or more"),
        ("nonsense", "expected"),
    ],
)
def test_a_question_that_is_none_is_a_400_that_says_so(tcp, body, text):
    headers = {"content-type": "application/json"}
    answer = tcp.post("/admission", content=body, headers=headers)
    assert answer.status_code == 400, answer.text
    assert text in answer.json()["error"]


def test_a_large_body_is_refused(tcp):
    answer = tcp.post("/admission", json={"manifest": "x" * BODY_BYTES_MAX})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"host": "evil.example"}, 421),
    ],
)
def test_no_page_of_another_site_can_ask(tcp, headers, status):
    question = json.dumps({"shape": {"cpu": "1"}})
    sent = {"content-type": "application/json", **headers}
    assert tcp.post("/admission", content=question, headers=sent).status_code == status


def test_our_own_page_can_ask(host, tcp):
    own = {"origin": host.tcp, "sec-fetch-site": "same-origin"}
    answer = tcp.post("/admission", json={"shape": {"cpu": "1"}}, headers=own)
    assert answer.status_code == 200
    elsewhere = {"origin": host.tcp.rpartition(":")[0] + ":1"}
    assert (
        tcp.post("/admission", json={"shape": {"cpu": "1"}}, headers=elsewhere).status_code == 403
    )


def test_many_questions_are_told_to_wait(tcp):
    found = [
        tcp.post("/admission", json={"shape": {"cpu": "1"}}).status_code
        for _ in range(int(BURST) + 12)
    ]
    assert found[: int(BURST)] == [200] * int(BURST)
    answer = tcp.post("/admission", json={"shape": {"cpu": "1"}})
    assert 429 in [*found, answer.status_code]


def test_pods_are_admitted_while_questions_are_answered(host, tcp):
    """The search of a question runs beside the loop, and a change does not wait for it."""
    done = []

    def keep_asking():
        with httpx.Client(base_url=host.tcp, trust_env=False, timeout=30) as client:
            for _ in range(4):
                shape = {"cpu": "9", "memory": "400Gi", GPU: 4}
                done.append(client.post("/admission", json={"shape": shape}).status_code)

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        transport = httpx.HTTPTransport(uds=str(host.socket))
        with httpx.Client(transport=transport, base_url="http://agent", timeout=20) as client:
            for number in range(10):
                made = client.post("/pods", json=manifest(f"p{number}", cpu="100m"))
                assert made.status_code == 201, made.text
                assert made.elapsed.total_seconds() < 2
    finally:
        thread.join(60)
    assert done == [200] * 4


# Pods that are there.


def test_a_refused_pod_is_explained_with_changes(unix):
    refused = unix.post("/pods", json=manifest("big", cpu="9")).json()["pod"]
    found = unix.get(f"/pods/{refused['metadata']['uid']}/explanation").json()
    assert not found["admitted"]
    assert "9 exclusive CPUs" in found["sentence"]
    assert found["changes"]


def test_a_pod_that_would_be_admitted_now_is_told_so(unix):
    first = [unix.post("/pods", json=manifest(n, cpu="4")).json() for n in ("a", "b", "c")]
    last = unix.post("/pods", json=manifest("d", cpu="4"))
    assert last.status_code == 422
    uid = last.json()["pod"]["metadata"]["uid"]
    assert not unix.get(f"/pods/{uid}/explanation").json()["admitted"]
    made = [pod["metadata"]["uid"] for pod in first if "metadata" in pod]
    for one in made:
        unix.delete(f"/pods/{one}")
    assert unix.get(f"/pods/{uid}/explanation").json()["admitted"]


def test_a_running_pod_tells_its_costs(unix):
    uid = unix.post("/pods", json=manifest("a", gpus=1)).json()["metadata"]["uid"]
    found = unix.get(f"/pods/{uid}/explanation").json()
    assert found["admitted"]
    [cost] = found["costs"]
    assert cost["cpuToDevices"]["localShare"] == 1.0


def test_the_same_explanation_is_made_once(unix):
    refused = unix.post("/pods", json=manifest("big", cpu="9")).json()["pod"]
    where = f"/pods/{refused['metadata']['uid']}/explanation"
    times = {unix.get(where).json()["time"] for _ in range(int(BURST) * 3)}
    assert len(times) == 1, "more than a burst of questions, and one answer for all"


def test_nobody_is_explained_who_is_not_there(unix):
    assert unix.get("/pods/nobody/explanation").status_code == 404


# Capacity.


def test_the_capacity_counts_shapes_exactly(unix):
    found = unix.get("/capacity").json()
    assert faults(found, {"$ref": "#/components/schemas/HostCapacity"}, document()) == []
    small, huge = found["shapes"]
    assert (small["name"], small["weight"], huge["fits"]) == ("small", 3, 0)
    assert Quantity.parse(small["amounts"]["cpu"]).value() == 2
    made = 0
    while unix.post("/pods", json=manifest(f"p{made}", cpu="2")).status_code == 201:
        made += 1
    assert made == small["fits"] > 0
    after = unix.get("/capacity").json()
    assert after["shapes"][0]["fits"] == 0
    assert after["shapes"][0]["binding"]


def test_what_is_stranded_is_told_in_words(unix):
    while unix.post(
        "/pods", json=manifest(f"p{len(unix.get('/pods').json()['items'])}")
    ).is_success:
        pass
    node = unix.get("/node").json()
    told = {own["id"]: own["stranded"] for own in node["nodes"] if "stranded" in own}
    assert told, "no CPUs are left, but memory and GPUs"
    for found in told.values():
        assert found["missing"] == ["cpu"]
        assert "0 free CPUs" in found["text"]
        assert f"2 {GPU}" in found["text"]
    capacity = unix.get("/capacity").json()["stranded"]
    assert {one["node"]: one["text"] for one in capacity} == {
        number: found["text"] for number, found in told.items()
    }
