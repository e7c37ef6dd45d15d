"""Hosts that are not there behave as hosts that are."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.cluster import work
from tests.cluster.fleet import Fleet, HostPlan, plans

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.values.sets import CpuSet
from numalign.wire.kubernetes import nrt

pytestmark = pytest.mark.e2e


def published(plane, host):
    text = plane.kubectl("get", "noderesourcetopology", host, "-o", "json")
    return nrt.read(text.encode()).topology


def phases(plane, selector):
    found = plane.objects("pods", "-l", selector)
    return sorted((p["status"]["phase"], p["status"].get("reason", "")) for p in found)


def test_bound_pods_are_admitted_or_refused_published_and_let_go(plane):
    async def story():
        async with (
            ApiServer.connect(plane.kubeconfig) as api,
            Fleet(api, [HostPlan("fleet-a", "2s:1n:4c:1t,mem=8Gi")]) as fleet,
        ):
            for name in ("one", "two", "three"):
                plane.apply(work.pod(name, "fleet-a", cpu="3", labels={"fleet": "a"}))
                await fleet.settled()
            refused = ("Failed", "TopologyAffinityError")
            assert phases(plane, "fleet=a") == [refused, ("Running", ""), ("Running", "")]
            assert fleet.reasons == {"": 2, "TopologyAffinityError": 1}
            found = published(plane, "fleet-a")
            assert [z.resources[0].available.value() for z in found.zones] == [0, 1]
            held = {p.name: CpuSet(p.containers[0].cpus) for p in found.placement.pods}
            assert held == {"one": CpuSet.parse("1-3"), "two": CpuSet.parse("4-6")}
            plane.kubectl("delete", "pod", "one", "three", "--wait=true", "--timeout=20s")
            await fleet.settled()
            assert [p.name for p in published(plane, "fleet-a").placement.pods] == ["two"]
            plane.kubectl("delete", "pod", "two", "--wait=true", "--timeout=20s")
            assert fleet.errors == []
            await fleet.remove()

    asyncio.run(story())


def test_fifty_hosts_register_and_publish_in_seconds(plane):
    async def story():
        async with (
            ApiServer.connect(plane.kubeconfig) as api,
            Fleet(api, plans(50)) as fleet,
        ):
            assert sum(fleet.writes.values()) == 50
            assert len(json.loads(plane.kubectl("get", "nodes", "-o", "json"))["items"]) == 50
            ready = plane.kubectl(
                "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"
            )
            assert ready.count("condition met") == 50
            await fleet.remove()

    asyncio.run(story())
