"""Capacity, captures, plans of moves and the scoring of fragments, on the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from tests.cluster import work
from tests.cluster.fleet import HostPlan
from tests.cluster.schedulers import scheduler
from tests.cluster.test_commands import called, four_pods
from tests.cluster.test_scheduler import fleet_on, running

from numalign.adapters.local.packed import unpacked
from numalign.adapters.sources.fleet_captures import read_fleet

pytestmark = pytest.mark.e2e


def test_capacity_capture_and_defrag_see_the_same_cluster(plane, tmp_path):
    async def story():
        async with four_pods(plane):
            await asyncio.to_thread(asked)

    def asked():
        code, text = called(plane, "capacity", "--shape", "cpu=1,memory=256Mi", "-o", "json")
        [found] = json.loads(text)
        assert (code, found["fits"], found["notCounted"]) == (0, 3, [])
        fleet = str(tmp_path / "fleet.tar.gz")
        code, text = called(plane, "capture", "--cluster", "-o", fleet)
        assert code == 0, text
        assert "1 hosts, 1 topologies, 5 pods" in text
        _, text = called(plane, "capacity", "--from", fleet, "--shape", "cpu=1,memory=256Mi")
        assert "3 more on 1 hosts" in text
        for source in ([], ["--from", fleet]):
            code, text = called(plane, "defrag", "--shape", "cpu=4", *source, "-o", "json")
            plan = json.loads(text)
            assert (code, plan["moves"]) == (1, [])
            assert plan["notMovable"] == {"nothing would replace it": 4}

    asyncio.run(story())


def test_a_capture_of_a_cluster_holds_no_secret(plane, tmp_path):
    secret = "hunter2-is-a-secret"
    spec = work.pod_spec(cpu="1")
    [container] = spec["containers"]
    container |= {
        "env": [{"name": "TOKEN", "value": secret}],
        "command": ["run", secret],
        "args": [secret],
        "readinessProbe": {
            "httpGet": {"port": 80, "httpHeaders": [{"name": "Authorization", "value": secret}]}
        },
    }
    spec["volumes"] = [{"name": "v", "hostPath": {"path": f"/{secret}"}}]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "teller", "annotations": {"example.com/note": secret}},
        "spec": spec,
    }

    async def story():
        async with four_pods(plane):
            plane.apply(json.dumps(body))
            plane.kubectl(
                "annotate", "noderesourcetopology", "numa-4", f"example.com/note={secret}"
            )
            await asyncio.to_thread(asked)

    def asked():
        path = tmp_path / "fleet.tar.gz"
        code, text = called(plane, "capture", "--cluster", "-o", str(path))
        assert code == 0, text
        assert secret.encode() not in unpacked(path.read_bytes(), str(path))
        assert any(b"teller" in bytes(pod) for pod in read_fleet(path).pods)

    asyncio.run(story())


HALVES = [HostPlan(f"half-{i}", "1s:1n:5c:1t,mem=8Gi", "single-numa-node") for i in range(2)]


def hosts_of(plane, selector):
    text = plane.kubectl("get", "pods", "-l", selector, "-o", "json")
    return [item["spec"].get("nodeName") for item in json.loads(text)["items"]]


@contextlib.asynccontextmanager
async def two_halves(plane, *arguments):
    """A pod of a Deployment on one host, another pod on the other, two CPUs each of four."""
    async with fleet_on(plane, HALVES) as fleet:
        with scheduler(plane, "--standalone", *arguments):
            plane.apply(work.deployment("web", 1, cpu="2", schedulerName="numalign"))
            await running(plane, fleet, 1, 60)
            [first] = await asyncio.to_thread(hosts_of, plane, "app=web")
            other = next(plan.name for plan in HALVES if plan.name != first)
            plane.apply(work.pod("filler", other, cpu="2"))
            await running(plane, fleet, 2, 60)
            await fleet.settled()
            yield first, other


def test_a_plan_is_carried_out_by_eviction_controller_and_scheduler(plane):
    async def story():
        async with two_halves(plane, "--packing", "keep-whole") as (_, other):
            code, text = await asyncio.to_thread(
                called, plane, "defrag", "--shape", "cpu=4", "--execute"
            )
            assert code == 0, text
            assert f"is ready on {other}" in text
            assert await asyncio.to_thread(hosts_of, plane, "app=web") == [other]

    asyncio.run(story())


def test_a_pod_that_comes_back_elsewhere_is_a_surprise_that_ends_the_plan(plane):
    # A scheduler that spreads puts the new pod where the old one was: it is empty now.
    async def story():
        async with two_halves(plane, "--packing", "spread") as (first, other):
            code, text = await asyncio.to_thread(
                called, plane, "defrag", "--shape", "cpu=4", "--execute"
            )
            assert code == 1, text
            assert "stopped at default/web-" in text
            assert f"the new pod was placed on {first}" in text
            assert "0 moves made, 1 move left; plan anew before more" in text
            assert await asyncio.to_thread(hosts_of, plane, "app=web") == [first]
            assert other != first

    asyncio.run(story())


def test_a_plan_heeds_taints_and_gangs_on_the_real_cluster(plane, tmp_path):
    async def story():
        async with two_halves(plane, "--packing", "keep-whole") as (first, other):
            code, text = await asyncio.to_thread(
                called, plane, "defrag", "--shape", "cpu=4", "--shape", "cpu=4", "-o", "json"
            )
            plan = json.loads(text)
            assert (code, plan["moves"], len(plan["unresolved"])) == (1, [], 1), plan
            plane.kubectl("taint", "node", other, "dedicated=db:NoSchedule")
            code, text = await asyncio.to_thread(
                called, plane, "defrag", "--shape", "cpu=4", "-o", "json"
            )
            assert (code, json.loads(text)["moves"]) == (1, [])
            manifest = tmp_path / "pod.yaml"
            manifest.write_text(work.pod("new", cpu="1"))
            command = ("capacity", "-f", str(manifest), "-o", "json")
            [found] = json.loads((await asyncio.to_thread(called, plane, *command))[1])
            by_host = {
                one["host"]: (one["fits"], one["binding"]["words"]) for one in found["hosts"]
            }
            assert by_host[first][0] == 2
            assert by_host[other][0] == 0
            assert "taint dedicated=db:NoSchedule" in by_host[other][1]

    asyncio.run(story())


def test_the_scoring_of_fragments_fills_a_rest_before_it_breaks_a_whole_place(plane, tmp_path):
    plans = [HostPlan(f"{n}-place", "1s:1n:9c:1t,mem=16Gi", "single-numa-node") for n in "ab"]
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("big: {cpu: 4, memory: 1Gi}\n")

    async def story():
        async with fleet_on(plane, plans) as fleet:
            options = ("--standalone", "--packing", "fragmentation", "--shapes", str(shapes))
            with scheduler(plane, *options) as found:
                # b has 7 of 8 CPUs left: 3 of them are of no use to pods of 4.
                plane.apply(work.pod("filler", "b-place", cpu="1"))
                await running(plane, fleet, 1, 60)
                await fleet.settled()
                plane.apply(
                    work.pod("new", cpu="3", labels={"is": "new"}, schedulerName="numalign")
                )
                await running(plane, fleet, 2, 60)
                await fleet.settled()
                assert await asyncio.to_thread(hosts_of, plane, "is=new") == ["b-place"]
                name = 'numalign_capacity_pods{shape="big"}'
                for _ in range(100):
                    if await asyncio.to_thread(found.metric, name) == 3:
                        break
                    await asyncio.sleep(0.1)
                assert found.metric(name) == 3
                assert found.metric('numalign_capacity_useless{resource="cpu"}') == 0

    asyncio.run(story())
