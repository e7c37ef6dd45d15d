"""A fleet over a real socket: who may ask, what comes back, and each host's own page."""

import asyncio
import json
import threading
from contextlib import contextmanager, suppress

import httpx
import msgspec
import pytest
from tests.apps.cluster_view.test_board import MIX, cluster, seen
from tests.core.cluster.scheduling.kubelets import a_pod

from numalign.apps.cluster_view.tiles import FleetAnswer, FleetSource
from numalign.core.errors import ConfigError
from numalign.web.fleet.beside import serve_fleet
from numalign.web.fleet.hub import FleetHub
from numalign.web.fleet.page import FLEET
from numalign.web.page import PAGE
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import tcp_listener
from numalign.wire.kubernetes.scheduling import ClusterPod


class Served:
    def __init__(self, url, loop, hub, state):
        self.url, self.loop, self.hub, self.state = url, loop, hub, state

    def call(self, function):
        async def run():
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(10)


@contextmanager
def fleet(numa, state, *, live=True, ping_seconds=15.0, **more):
    up, found = threading.Event(), {}

    def pods_on(host):
        return [state.pods[u] for u, h in state.placed.items() if h == host and u in state.pods]

    async def run():
        found["loop"], found["task"] = asyncio.get_running_loop(), asyncio.current_task()
        limits = Limits(ping_seconds=ping_seconds)
        source = FleetSource("scheduler", "Fleet", "1", live=live)
        hub = found["hub"] = FleetHub(
            lambda: seen(numa, state, **more), pods_on, source, MIX, limits=limits
        )

        def started(url):
            found["url"] = url
            up.set()

        with suppress(asyncio.CancelledError):
            await serve_fleet(hub, ("127.0.0.1", 0), on_started=started)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert up.wait(10)
        yield Served(found["url"], found["loop"], found["hub"], state)
    finally:
        found["loop"].call_soon_threadsafe(found["task"].cancel)
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def served():
    numa, state = cluster([("w1", (7, 1, 0)), ("w1", (2, 1, 0))])
    with fleet(numa, state) as found:
        yield found


@pytest.fixture
def client(served):
    with httpx.Client(base_url=served.url, trust_env=False, timeout=20) as found:
        yield found


def test_the_page_and_its_policy(client):
    answer = client.get("/")
    assert answer.text == FLEET.text
    policy = answer.headers["content-security-policy"]
    assert policy == FLEET.policy
    assert "'unsafe" not in policy
    assert "default-src 'none'" in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert "style=" not in FLEET.text.replace("<style>", "")
    assert "onclick" not in FLEET.text


def test_the_page_is_small(client):
    assert len(client.get("/").content) < 100_000


def test_all_hosts_then_only_what_changed(served, client):
    first = client.get("/fleet").json()
    msgspec.convert(first, FleetAnswer, strict=True)
    assert (first["full"], first["total"], [h["name"] for h in first["hosts"]]) == (
        True,
        2,
        ["w1", "w2"],
    )
    assert [shape["name"] for shape in first["shapes"]] == ["two", "six"]
    same = client.get("/fleet", params={"since": first["version"]}).json()
    assert (same["full"], same["hosts"], same["gone"]) == (False, [], [])

    def come():
        pod = ClusterPod(a_pod("late", (2, 1, 0)), host="w2")
        served.state.pods["late"] = pod
        served.state.place(pod, "w2")
        served.hub._looked_at = 0.0

    served.call(come)
    after = client.get("/fleet", params={"since": first["version"]}).json()
    assert [h["name"] for h in after["hosts"]] == ["w2"]
    assert after["version"] != first["version"]


@pytest.mark.parametrize(
    "since", ["", "x", "other-1", "-", "1e9", "../../etc", "a-99999999999999999999"]
)
def test_a_version_of_another_run_gets_everything(client, since):
    assert client.get("/fleet", params={"since": since}).json()["full"]


def test_a_host_is_shown_from_what_it_publishes(client):
    assert client.get("/hosts/w1/").text == PAGE
    node = client.get("/hosts/w1/node").json()
    assert (node["source"]["kind"], node["source"]["fleet"]) == ("fleet", "../../")
    assert node["layout"]["sockets"]
    given = [own["cpus"]["exclusive"] for own in node["nodes"]]
    assert sum(bool(text) for text in given) >= 1
    pods = client.get("/hosts/w1/pods").json()["items"]
    assert sorted(pod["metadata"]["name"] for pod in pods) == ["p0", "p1"]
    assert all(pod["numalign"]["containers"]["c0"]["exclusive"] for pod in pods)
    asked = client.post("/hosts/w1/admission", json={"shape": {"cpu": "8", "memory": "1Gi"}}).json()
    assert not asked["items"][0]["admitted"]
    fits = client.post("/hosts/w2/admission", json={"shape": {"cpu": "7", "memory": "1Gi"}}).json()
    assert fits["items"][0]["admitted"]
    assert client.get("/hosts/w1/capacity").json()["shapes"][0]["name"] == "two"


def test_a_host_is_shown_as_it_is_now(served, client):
    assert client.get("/hosts/w2/pods").json()["items"] == []

    def come():
        pod = ClusterPod(a_pod("late", (2, 1, 0)), host="w2", owner="ReplicaSet/web")
        served.state.pods["late"] = pod
        served.state.place(pod, "w2")
        served.hub._looked_at = 0.0

    served.call(come)
    [pod] = client.get("/hosts/w2/pods").json()["items"]
    assert pod["metadata"]["ownerReferences"][0]["name"] == "web"


def test_a_host_without_its_slash_is_sent_there(client):
    answer = client.get("/hosts/w1")
    assert (answer.status_code, answer.headers["location"]) == (308, "w1/")


def test_a_host_that_is_not_there_or_not_published(client):
    assert client.get("/hosts/nobody/node").json()["reason"] == "NotFound"
    numa, state = cluster(names=("w1",))
    numa.topology_gone("w1")
    state.topologies.clear()
    with fleet(numa, state) as found:
        answer = httpx.get(f"{found.url}/hosts/w1/node", trust_env=False)
        assert answer.json()["reason"] == "NotPublished"
        assert "numalign export" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/fleet", "/", "/hosts/w1/node", "/fleet/events"])
def test_another_name_of_the_host_gets_no_answer(client, path):
    assert client.get(path, headers={"host": "evil.example"}).status_code == 421


def test_nothing_can_be_changed(client):
    for path in ("/", "/fleet", "/hosts/w1/pods", "/hosts/w1/node"):
        assert client.post(path, json={}).status_code == 405
        assert client.delete(path).status_code == 405
    for path in ("/pods", "/runs", "/hosts/w1/runs", "/hosts/w1/capture", "/metrics"):
        assert client.get(path).status_code == 404


def events(client, path, count):
    found = []
    with client.stream("GET", path) as answer:
        for line in answer.iter_lines():
            if line.startswith("event: "):
                found.append(line[7:])
            if len(found) == count:
                return found
    return found


def test_changes_are_told_to_those_who_follow(served, client):
    def come():
        pod = ClusterPod(a_pod("late", (2, 1, 0)), host="w2")
        served.state.pods["late"] = pod
        served.state.place(pod, "w2")

    client.get("/fleet")
    timer = threading.Timer(0.5, lambda: served.call(come))
    timer.start()
    try:
        assert events(client, "/fleet/events", 1) == ["fleet_changed"]
    finally:
        timer.join()


def test_a_host_tells_its_own_changes_only(served, client):
    client.get("/fleet")

    def come():
        pod = ClusterPod(a_pod("late", (2, 1, 0)), host="w2")
        served.state.pods["late"] = pod
        served.state.place(pod, "w2")

    timer = threading.Timer(0.5, lambda: served.call(come))
    timer.start()
    try:
        assert events(client, "/hosts/w2/events", 1) == ["host_changed"]
    finally:
        timer.join()


def test_a_quiet_fleet_says_that_it_lives():
    numa, state = cluster()
    with (
        fleet(numa, state, live=False, ping_seconds=0.05) as found,
        httpx.Client(base_url=found.url, trust_env=False, timeout=10) as client,
    ):
        assert events(client, "/fleet/events", 2) == ["still", "still"]
        assert events(client, "/hosts/w1/events", 1) == ["still"]


def test_hostile_names_stay_text(client):
    numa, state = cluster(names=("w1",))
    state.hosts["<script>alert(1)</script>"] = state.hosts.pop("w1")
    with fleet(numa, state) as found:
        answer = httpx.get(f"{found.url}/fleet", trust_env=False)
        assert answer.headers["content-type"] == "application/json"
        names = [host["name"] for host in json.loads(answer.text)["hosts"]]
        assert "<script>alert(1)</script>" in names


def test_only_loopback_is_served_and_a_taken_address_is_told():
    numa, state = cluster()

    async def serve(address, **more):
        source = FleetSource("scheduler", "Fleet", "1")
        hub = FleetHub(lambda: seen(numa, state), lambda _host: [], source)
        await serve_fleet(hub, address, **more)

    with pytest.raises(ConfigError, match="expected a loopback one"):
        asyncio.run(serve(("0.0.0.0", 0)))
    taken = tcp_listener("127.0.0.1", 0, allow_remote=False)
    try:
        address = taken.getsockname()[:2]
        with pytest.raises(ConfigError, match="cannot listen"):
            asyncio.run(serve(address))

        async def unasked():
            async with asyncio.timeout(0.3):
                await serve(address, is_asked_for=False)

        with pytest.raises(TimeoutError):
            asyncio.run(unasked())
    finally:
        taken.close()
