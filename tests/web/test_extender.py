"""The extender over HTTP: the real scheduler behind it, without a cluster."""

import asyncio
import json

import httpx2
import pytest
from starlette.applications import Starlette
from tests.apps.scheduler.counting import CountingFleet
from tests.apps.scheduler.test_step import pod

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.scheduler.driver import Scheduler
from numalign.apps.scheduler.events import HostsListed, PodSeen, PodsListed, TopologiesListed
from numalign.apps.scheduler.model import State
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.errors import ConfigError
from numalign.web import extender
from numalign.web.requests import Access
from numalign.web.serving.listeners import LOOPBACK_NAMES
from numalign.wire.kubernetes.extender import BODY_BYTES_MAX

HOSTS = tuple(HostFacts(name, allocatable={"cpu": 8000, "pods": 10}) for name in ("w1", "w2"))
LOCAL = Access(trusted=True, hosts=frozenset(LOOPBACK_NAMES))
JSON = {"content-type": "application/json"}
POD = {"metadata": {"name": "new", "namespace": "ns", "uid": "new"}, "spec": {"containers": []}}


def scheduler(*, room: int = 1, synced: bool = True, **options: object) -> Scheduler:
    # Nobody listens there: these calls need no API server, and would fail if they asked one.
    api = ApiServer(httpx2.AsyncClient(base_url="http://127.0.0.1:1"))
    found = Scheduler(api, State(CountingFleet(room), "", is_extender=True, **options))
    if synced:
        found.handle(PodsListed((), 0))
        found.handle(HostsListed(HOSTS, 0))
        found.handle(TopologiesListed((HostTopology("w1"), HostTopology("w2")), 0))
    return found


def application(found: Scheduler) -> Starlette:
    return extender.application(extender.ExtenderApi(found), LOCAL)


def asked(*names: str) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": list(names)}).encode()


def call(
    found: Scheduler,
    path: str,
    content: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> httpx2.Response:
    async def run() -> httpx2.Response:
        transport = httpx2.ASGITransport(application(found))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            if content is None:
                return await client.get(path)
            return await client.post(path, content=content, headers={**JSON, **(headers or {})})

    return asyncio.run(run())


def test_hosts_without_room_are_left_out_with_the_reason():
    found = scheduler()
    found.handle(PodSeen(pod("a", host="w1"), 0))
    answer = call(found, "/scheduler/filter", asked("w1", "w2"))
    assert answer.status_code == 200
    assert answer.json() == {
        "Nodes": None,
        "NodeNames": ["w2"],
        "FailedNodes": {"w1": "is full"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_a_host_that_publishes_nothing_is_kept_unless_we_are_strict():
    assert call(scheduler(), "/scheduler/filter", asked("new")).json()["NodeNames"] == ["new"]
    strict = call(scheduler(is_strict=True), "/scheduler/filter", asked("new")).json()
    assert strict["NodeNames"] == []
    assert strict["FailedNodes"] == {"new": "publishes no NodeResourceTopology"}


def test_scores_go_from_nothing_to_the_highest():
    found = scheduler(room=2)
    found.handle(PodSeen(pod("a", host="w1"), 0))
    answer = call(found, "/scheduler/prioritize", asked("w1", "w2", "w3")).json()
    assert answer == [
        {"Host": "w1", "Score": 5},
        {"Host": "w2", "Score": 0},
        {"Host": "w3", "Score": 0},
    ]
    found = scheduler(room=2, score_max=100)
    found.handle(PodSeen(pod("a", host="w1"), 0))
    answer = call(found, "/scheduler/prioritize", asked("w1")).json()
    assert answer == [{"Host": "w1", "Score": 50}]


def test_a_preemption_that_makes_no_room_is_dropped():
    found = scheduler(room=1)
    found.handle(PodSeen(pod("a", host="w1"), 0))
    found.handle(PodSeen(pod("b", host="w2"), 0))
    victims = {
        "w1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1},
        "w2": {"Pods": [{"UID": "other"}], "NumPDBViolations": 0},
        "w3": {"Pods": [], "NumPDBViolations": 0},
    }
    content = json.dumps(
        {"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    ).encode()
    answer = call(found, "/scheduler/preempt", content).json()
    assert answer == {"NodeNameToMetaVictims": {"w1": victims["w1"]}}


def test_before_the_cluster_is_known_it_says_so_and_is_not_ready():
    found = scheduler(synced=False)
    answer = call(found, "/scheduler/filter", asked("w1"))
    assert answer.status_code == 200
    assert answer.json()["Error"].startswith("numalign is not ready: the pods of the cluster")
    ready = call(found, "/readyz")
    assert ready.status_code == 503
    assert call(found, "/healthz").status_code == 200
    assert call(scheduler(), "/readyz").status_code == 200


def test_a_pod_that_does_not_fit_any_more_is_not_bound():
    found = scheduler()
    found.handle(PodSeen(pod("a", host="w1"), 0))
    found.handle(PodSeen(pod("b"), 0))
    content = json.dumps(
        {"PodName": "pod-b", "PodNamespace": "ns", "PodUID": "b", "Node": "w1"}
    ).encode()
    answer = call(found, "/scheduler/bind", content)
    assert answer.json() == {"Error": "w1 does not take it any more: is full"}
    assert found.state.placed == {"a": "w1"}


def test_a_pod_that_has_its_host_is_bound_already():
    found = scheduler()
    found.handle(PodSeen(pod("a", host="w1"), 0))
    names = {"PodName": "pod-a", "PodNamespace": "ns", "PodUID": "a"}
    same = call(found, "/scheduler/bind", json.dumps({**names, "Node": "w1"}).encode())
    assert same.json() == {"Error": ""}
    other = call(found, "/scheduler/bind", json.dumps({**names, "Node": "w2"}).encode())
    assert other.json() == {"Error": "the pod is already on w1"}


def test_an_api_server_that_does_not_answer_is_told_and_changes_nothing():
    found = scheduler()
    content = json.dumps(
        {"PodName": "new", "PodNamespace": "ns", "PodUID": "new", "Node": "w1"}
    ).encode()
    error = call(found, "/scheduler/bind", content).json()["Error"]
    assert error.startswith("the pod cannot be read:")
    assert found.state.placed == {}


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
def test_what_is_no_request_is_refused_and_changes_nothing(verb: str):
    found = scheduler()
    answer = call(found, f"/scheduler/{verb}", b'{"Pod": 3')
    assert answer.status_code == 400
    assert answer.json()["reason"] == "BadRequest"
    assert found.state.placed == {}


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("-1", "pod 'new': cpu: found '-1', expected 0 or more"),
        ("much", "pod 'new': cpu: found 'much'"),
        ("9" * 5_000, "pod 'new': cpu: found '99999"),
    ],
)
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_a_pod_with_an_amount_that_is_none_is_refused(verb: str, amount: str, words: str):
    # Passed over, it would count as nothing, and the pod would fit everywhere.
    found = scheduler()
    container = {"name": "c", "resources": {"limits": {"cpu": amount}}}
    pod_ = {**POD, "spec": {"containers": [container]}}
    answer = call(found, f"/scheduler/{verb}", json.dumps({"Pod": pod_, "NodeNames": []}).encode())
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(words)
    assert len(answer.content) < 1_000


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "x?y=1", "a\nb", "\u202e", "x" * 300, "."])
def test_a_hostile_name_is_refused_and_asks_nobody(name: str):
    asked_for = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked_for.append(request.url)
        return httpx2.Response(500)

    found = scheduler()
    client = httpx2.AsyncClient(base_url="http://x", transport=httpx2.MockTransport(answer))
    found._api = ApiServer(client)
    content = {"PodName": name, "PodNamespace": "ns", "PodUID": "u", "Node": "w1"}
    error = call(found, "/scheduler/bind", json.dumps(content).encode()).json()["Error"]
    assert error.startswith("the pod cannot be read: ")
    assert len(error) < 500
    assert "\n" not in error
    assert asked_for == []
    assert found.state.placed == {}


@pytest.mark.parametrize("verb", ["filter", "bind"])
def test_fifty_megabytes_are_refused_in_clear_words(verb: str):
    found = scheduler()
    answer = call(found, f"/scheduler/{verb}", b" " * 50_000_000)
    assert answer.status_code == 413
    assert answer.json()["error"] == (
        f"found a body of 50000000 bytes, at most {BODY_BYTES_MAX} are read; set "
        "nodeCacheCapable: true, so that hosts are sent as names"
    )
    assert found.state.placed == {}


def test_a_body_that_does_not_say_its_size_is_bounded_too():
    async def parts():
        for _ in range(50):
            yield b" " * 1_000_000

    async def run() -> httpx2.Response:
        transport = httpx2.ASGITransport(
            extender.application(extender.ExtenderApi(scheduler()), LOCAL)
        )
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/scheduler/filter", content=parts(), headers=JSON)

    assert asyncio.run(run()).status_code == 413


def test_other_paths_and_methods_are_refused():
    assert call(scheduler(), "/scheduler/filter").status_code == 405
    assert call(scheduler(), "/filter", b"{}").status_code == 404


def test_other_hosts_need_a_certificate():
    with pytest.raises(ConfigError, match="--tls-client-ca"):
        asyncio.run(extender.serve(scheduler(), ("0.0.0.0", 0)))


def test_what_it_counts_is_there_for_prometheus():
    found = scheduler()
    call(found, "/scheduler/filter", asked("w1"))
    text = call(found, "/metrics").text
    assert 'numalign_scheduler_known{kind="hosts"} 2.0' in text
    assert 'numalign_scheduler_extender_seconds_count{verb="filter"} 1.0' in text


FROM_PAGES = [
    ({"content-type": "text/plain"}, 415),
    ({"content-type": ""}, 415),
    ({"origin": "http://evil.example"}, 403),
    ({"host": "evil.example"}, 421),
    ({"host": "[::1].evil.example"}, 421),
    ({"host": "127.0.0.1.evil.example"}, 421),
    ({"host": "localhost:8423:1"}, 421),
    ({"host": "localhost@evil.example"}, 421),
]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
@pytest.mark.parametrize(("headers", "status"), FROM_PAGES)
def test_what_a_web_page_could_send_is_refused(verb, headers, status):
    answer = call(scheduler(), f"/scheduler/{verb}", asked("w1"), headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def served(story) -> None:
    """Runs this with a client of a server on a real socket, where answers go the short way."""

    async def run() -> None:
        up: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        found = scheduler(room=9)
        server = asyncio.create_task(
            extender.serve(found, ("127.0.0.1", 0), on_started=up.set_result)
        )
        try:
            async with httpx2.AsyncClient(base_url=await up) as client:
                await story(client, found)
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)

    asyncio.run(run())


def test_the_short_way_refuses_the_same_with_the_same_words():
    async def story(client, found):
        for headers, status in FROM_PAGES:
            answer = await client.post(
                "/scheduler/filter", content=asked("w1"), headers={**JSON, **headers}
            )
            assert answer.status_code == status, headers
        assert 'extender_seconds_count{verb="filter"} 0.0' in found.metrics_text().decode()

    served(story)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_the_short_way_gives_the_same_answers(verb: str):
    victims = {"w1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}}
    content = asked("w1", "w2")
    if verb == "preempt":
        content = json.dumps({"Pod": POD, "NodeNameToMetaVictims": victims}).encode()

    bodies = (content, b"{", content)
    general = [call(scheduler(room=9), f"/scheduler/{verb}", body) for body in bodies]

    async def story(client, found):
        for body, expected in zip(bodies, general, strict=True):
            short = await client.post(f"/scheduler/{verb}", content=body, headers=JSON)
            assert (short.status_code, short.content) == (expected.status_code, expected.content)

    served(story)


@pytest.mark.parametrize("host", ["localhost", "localhost:8423", "127.0.0.1:1", "[::1]", "[::1]:9"])
def test_every_name_of_loopback_is_answered(host):
    assert call(scheduler(), "/scheduler/filter", asked("w1"), {"host": host}).status_code == 200


def test_a_verb_is_posted():
    answer = call(scheduler(), "/scheduler/bind")
    assert (answer.status_code, answer.json()["reason"]) == (405, "MethodNotAllowed")
