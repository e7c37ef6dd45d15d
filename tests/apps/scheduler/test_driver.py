"""The scheduler at its real API client: what a cluster may say, and what must not harm it."""

import asyncio
import json

import httpx2
import pytest
from structlog.testing import capture_logs
from tests.cluster.fleet import FleetHost, HostPlan

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.scheduler.driver import Scheduler
from numalign.apps.scheduler.model import State
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.scheduling import pod_of

PLAN = HostPlan("w1", "1s:2n:4c:1t,mem=8Gi")
TWO_MEGABYTES = "1:" + "A" * (2 << 20)
LISTS = ("/api/v1/pods", "/api/v1/nodes", "/noderesourcetopologies", "/poddisruptionbudgets")


def topology(**changes):
    """What the host publishes, with its placement."""
    found = nrt.body(FleetHost(PLAN).topology())
    return {**found, **changes}


def pod(name, cpu="3", **spec):
    resources = {"limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "numalign",
            "containers": [{"name": "c", "resources": resources}],
            **spec,
        },
    }


class Server:
    """An API server with one host. Watches tell what is put into ``news``, by kind."""

    def __init__(self):
        self.objects = {
            LISTS[0]: [],
            LISTS[1]: [FleetHost(PLAN).node()],
            LISTS[2]: [topology()],
            LISTS[3]: [],
        }
        self.news = {kind: asyncio.Queue() for kind in LISTS}
        self.bound = []
        transport = httpx2.MockTransport(self._answer)
        http = httpx2.AsyncClient(base_url="http://server", transport=transport)
        self.api = ApiServer(http, backoff_seconds=(0.001, 0.002))

    def tell(self, kind, event, found):
        self.news[kind].put_nowait(json.dumps({"type": event, "object": found}).encode() + b"\n")

    def tell_history_is_lost(self, kind):
        self.tell(kind, "ERROR", {"kind": "Status", "code": 410, "message": "too old"})

    async def _answer(self, request):
        path = request.url.path
        if request.method == "POST" and path.endswith("/binding"):
            self.bound.append(json.loads(request.content)["metadata"]["name"])
            return httpx2.Response(201, json={"kind": "Status"})
        if request.method != "GET":
            return httpx2.Response(201, json={})
        kind = next((kind for kind in LISTS if path.endswith(kind)), None)
        if kind is None:
            return httpx2.Response(404, json={"kind": "Status", "code": 404})
        if request.url.params.get("watch"):
            return httpx2.Response(200, stream=_Lines(self.news[kind]))
        content = {"metadata": {"resourceVersion": "1"}, "items": self.objects[kind]}
        return httpx2.Response(200, json=content)


class _Lines(httpx2.AsyncByteStream):
    """A watch that goes on."""

    def __init__(self, news):
        self._news = news

    async def __aiter__(self):
        while True:
            yield await self._news.get()


def played(story):
    """Runs a scheduler against a server, and the story beside it; its log."""

    async def run():
        server = Server()
        scheduler = Scheduler(server.api, State(Fleet()))
        running = asyncio.create_task(scheduler.run())
        try:
            async with asyncio.timeout(20):
                await until(lambda: not scheduler.state.missing)
                await story(server, scheduler)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    with capture_logs() as log:
        asyncio.run(run())
    return log


async def until(holds):
    while not holds():
        await asyncio.sleep(0.005)


def unreadable(scheduler, kind):
    return scheduler.metrics.unreadable.labels(kind)._value.get()


def zone(name="node-0", available="4"):
    amounts = {"name": "cpu", "capacity": "4", "allocatable": "4", "available": available}
    return [{"name": name, "type": "Node", "resources": [amounts]}]


BAD_TOPOLOGIES = {
    "garbage": ({"kind": "NodeResourceTopology", "metadata": {"name": "w1"}}, "apiVersion"),
    "another kind": (topology(kind="Pod"), "found Pod of topology.node.k8s.io/v1alpha2"),
    "no zones": (topology(zones="node-0"), "zones"),
    "a negative amount": (topology(zones=zone(available="-1")), "found -1, expected 0 or more"),
    "no amount": (topology(zones=zone(available="much")), "found 'much'"),
    "too many zones": (topology(zones=zone() * 2_000), "found 2000 zones, expected at most 1024"),
    "a huge object": (topology(topologyPolicies=["x" * (5 << 20)]), "expected at most 4194304"),
}


@pytest.mark.parametrize("name", BAD_TOPOLOGIES)
def test_a_topology_that_is_none_is_told_and_changes_nothing(name):
    bad, words = BAD_TOPOLOGIES[name]

    async def story(server, scheduler):
        before = scheduler.state.topologies["w1"]
        states = scheduler.state.fleet.states("w1")
        assert before.placement is not None
        server.tell(LISTS[2], "MODIFIED", bad)
        await until(lambda: unreadable(scheduler, "noderesourcetopologies") == 1)
        # The same by a list, which comes whenever a watch has lost its place.
        server.objects[LISTS[2]] = [bad]
        server.tell_history_is_lost(LISTS[2])
        await until(lambda: unreadable(scheduler, "noderesourcetopologies") == 2)
        assert scheduler.state.topologies == {"w1": before}
        assert scheduler.state.fleet.states("w1") == states

    told = [line for line in played(story) if line["event"] == "object_unreadable"]
    assert len(told) == 2
    for line in told:
        assert line["name"] == "w1"
        assert words in line["error"]
        assert "\n" not in line["error"]
        assert len(line["error"]) < 500


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"zones": [*topology()["zones"], *zone("numa-7")]},
            "zone 'numa-7' of type 'Node' is passed over",
        ),
        (
            {"metadata": {"name": "w1", "annotations": {nrt.PLACEMENT_ANNOTATION: TWO_MEGABYTES}}},
            "found a placement of 2097154 characters, expected at most 131072",
        ),
    ],
)
def test_parts_of_a_topology_that_make_no_sense_are_told_and_the_rest_counts(changes, words):
    async def story(server, scheduler):
        before = scheduler.state.topologies["w1"]
        server.tell(LISTS[2], "MODIFIED", topology(**changes))
        await until(lambda: scheduler.state.topologies["w1"] is not before)
        assert scheduler.state.topologies["w1"].zones[:2] == before.zones
        assert scheduler.state.fleet.refusal(pod_of(pod("big", cpu="64")).pod, "w1") is not None

    told = [line for line in played(story) if line["event"] == "topology_problem"]
    assert [line["host"] for line in told] == ["w1"]
    assert words in told[0]["problem"]


def test_a_pod_that_cannot_be_read_keeps_nobody_from_leading():
    bad = pod("bad", cpu="1" * 2_000)

    async def story(server, scheduler):
        server.objects[LISTS[0]] = [bad, pod("good")]
        server.tell_history_is_lost(LISTS[0])
        await until(lambda: unreadable(scheduler, "pods") == 1)
        scheduler.lead(True)
        await until(lambda: server.bound == ["good"])

    (told,) = [line for line in played(story) if line["event"] == "object_unreadable"]
    assert told["name"] == "bad"


def test_a_call_that_breaks_ends_the_scheduler_instead_of_holding_up_a_host_for_ever():
    class BreakingApi(ApiServer):
        async def create_part(self, *_):
            raise RuntimeError("a mistake of ours")

    async def run():
        server = Server()
        server.api.__class__ = BreakingApi
        server.objects[LISTS[0]] = [pod("any")]
        scheduler = Scheduler(server.api, State(Fleet()))
        running = asyncio.create_task(scheduler.run())
        scheduler.lead(True)
        async with asyncio.timeout(20):
            with pytest.raises(ExceptionGroup) as found:
                await running
        assert [str(one) for one in found.value.exceptions] == ["a mistake of ours"]

    asyncio.run(run())
