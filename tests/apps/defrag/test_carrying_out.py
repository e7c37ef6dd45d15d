"""A plan carried out against an API that behaves as a cluster would, and as it should not."""

import asyncio
import json

import httpx2
import pytest

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.defrag.carrying_out import carry_out
from numalign.core.fleet.defrag.places import Move


class SmallCluster:
    """Pods of one ReplicaSet each; an evicted one comes back on the host that is next in line."""

    def __init__(self, pods, next_hosts, phase="Running", refuses=None, ready="True"):
        self.ready = ready
        self.pods = {name: (f"uid-{name}", host, "Running") for name, host in pods.items()}
        self.next_hosts = dict(next_hosts)
        self.phase = phase
        self.refuses = refuses
        self.evicted = []
        transport = httpx2.MockTransport(self._answer)
        self.api = ApiServer(httpx2.AsyncClient(base_url="http://server", transport=transport))

    def _pod(self, name):
        uid, host, phase = self.pods[name]
        owner = {"kind": "ReplicaSet", "name": name.partition("-again")[0], "controller": True}
        return {
            "metadata": {"name": name, "namespace": "ns", "uid": uid, "ownerReferences": [owner]},
            "spec": {"nodeName": host, "containers": [{"name": "c"}]},
            "status": {
                "phase": phase,
                "reason": "TopologyAffinityError" * (phase == "Failed"),
                "conditions": [{"type": "Ready", "status": self.ready}],
            },
        }

    async def _answer(self, request):
        parts = request.url.path.split("/")
        if parts[-1] == "eviction":
            name = parts[-2]
            if self.refuses == name:
                return httpx2.Response(429, json={"message": "budget", "code": 429})
            body = json.loads(request.content)
            assert body["deleteOptions"]["preconditions"]["uid"] == self.pods[name][0]
            self.evicted.append(name)
            del self.pods[name]
            self.pods[f"{name}-again"] = (f"new-{name}", self.next_hosts[name], self.phase)
            return httpx2.Response(201, json={})
        if parts[-1] == "pods":
            items = [self._pod(name) for name in self.pods]
            return httpx2.Response(200, json={"metadata": {}, "items": items})
        if parts[-1] in self.pods:
            return httpx2.Response(200, json=self._pod(parts[-1]))
        return httpx2.Response(404, json={"code": 404})

    def carried(self, *moves):
        async def run():
            found = carry_out(self.api, moves, seconds_max=0.2, look_seconds=0.01)
            return [step.surprise async for step in found]

        return asyncio.run(run())


A = Move("uid-a", "ns/a", "h0", "h1")
B = Move("uid-b", "ns/b", "h0", "h2")


def test_pods_move_one_after_the_other():
    cluster = SmallCluster({"a": "h0", "b": "h0"}, {"a": "h1", "b": "h2"})
    assert cluster.carried(A, B) == [None, None]
    assert cluster.evicted == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "surprise"),
    [
        ({"next_hosts": {"a": "h3"}}, "placed on h3"),
        ({"next_hosts": {"a": "h1"}, "phase": "Failed"}, "h1 refused the new pod: TopologyAff"),
        (
            {"next_hosts": {"a": "h1"}, "phase": "Pending", "ready": "False"},
            "no new pod is ready on h1 after 0 s",
        ),
        ({"next_hosts": {"a": "h1"}, "ready": "False"}, "no new pod is ready on h1 after 0 s"),
        ({"next_hosts": {"a": "h1"}, "refuses": "a"}, "the API server refused: budget"),
        ({"next_hosts": {}, "pods": {"a": "h9"}}, "the pod is another one now, or on h9"),
        ({"next_hosts": {}, "pods": {}}, "the pod is not there any more"),
    ],
)
def test_the_first_surprise_ends_it(options, surprise):
    cluster = SmallCluster(**{"pods": {"a": "h0", "b": "h0"}, **options})
    [found] = cluster.carried(A, B)
    assert surprise in found
    assert "b" not in cluster.evicted
