"""Our scheduler on a real API server, with hosts that decide as kubelets do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter

import pytest
from tests.cluster import work
from tests.cluster.conftest import rights
from tests.cluster.fleet import Fleet, HostPlan, plans
from tests.cluster.schedulers import scheduler, stock_config, with_extender
from tests.packaging.manifests import NAMESPACE

from numalign.adapters.kubernetes.api_server import ApiServer

pytestmark = pytest.mark.e2e

HOSTS = 50
REFUSED = "TopologyAffinityError"
STORM = 100  # refused pods are enough to see what happens
# About two thirds of what 50 hosts have; every pod has a host that would take it, if the ones
# before it are placed with care.
MIX = (
    ("large", 18, {"cpu": "10", "memory": "4Gi"}),
    ("middle", 60, {"cpu": "5", "memory": "2Gi"}),
    ("small", 90, {"cpu": "3", "memory": "1Gi"}),
    ("pooled", 40, {"cpu": "500m", "memory": "512Mi"}),
)
COUNT = sum(replicas for _, replicas, _ in MIX)
ONE_CALL = ("filter",)
THREE_CALLS = ("filter", "prioritize", "bind")


def report(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def deploy(plane, scheduler_name: str, mix=MIX) -> None:
    plane.apply(
        *(
            work.deployment(name, replicas, schedulerName=scheduler_name, **amounts)
            for name, replicas, amounts in mix
        )
    )


def clear(plane) -> None:
    plane.kubectl("delete", "deployment", "--all", "--cascade=orphan")
    plane.kubectl("delete", "replicaset", "--all", "--cascade=orphan")
    # All at once: a stock scheduler leaves hundreds of them behind.
    plane.kubectl("delete", "--raw", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
    deadline = time.monotonic() + 60
    while plane.objects("pods"):
        assert time.monotonic() < deadline, "pods are still there"
        time.sleep(0.5)


def phases(plane) -> Counter[str]:
    found = Counter(p["status"]["phase"] for p in plane.objects("pods"))
    return found


async def running(plane, fleet, count: int, seconds: float) -> Counter[str]:
    """Waits until so many pods run, or time is up; what there is then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if fleet.reasons[""] >= count:
            break
        await asyncio.sleep(0.2)
    await fleet.settled()
    return await asyncio.to_thread(phases, plane)


@contextlib.asynccontextmanager
async def fleet_on(plane, found=None, **options):
    async with ApiServer.connect(plane.kubeconfig) as api:
        fleet = Fleet(api, found or plans(HOSTS), **options)
        try:
            async with fleet:
                try:
                    yield fleet
                finally:
                    await asyncio.to_thread(clear, plane)
                    await fleet.settled()
        finally:
            await fleet.remove()  # else the next test would place pods there


def test_no_pod_is_refused_where_the_stock_scheduler_has_many_refused(plane):
    counts = {}

    async def stock():
        async with fleet_on(plane) as fleet:
            plane.start_scheduler(stock_config())
            try:
                await asyncio.to_thread(deploy, plane, "default-scheduler")
                began = time.monotonic()
                # It would go on for ever: every refused pod is replaced at once.
                while fleet.reasons[REFUSED] < STORM and time.monotonic() < began + 30:
                    await asyncio.sleep(0.05)
            finally:
                plane.stop_scheduler()
            counts["stock scheduler alone"] = fleet.reasons.copy()
            report(f"stopped the stock scheduler after {time.monotonic() - began:.1f} s")

    async def extended():
        await extended_by("with one call to our extender", ONE_CALL)

    async def extended_thrice():
        await extended_by("with three calls to our extender", THREE_CALLS, "--three-calls")

    async def extended_by(name, verbs, *arguments):
        async with fleet_on(plane) as fleet:
            with scheduler(plane, "--extender", *arguments) as ours:
                plane.start_scheduler(with_extender(ours.address, verbs))
                try:
                    await asyncio.to_thread(deploy, plane, "default-scheduler")
                    found = await running(plane, fleet, COUNT, 60)
                    counts[name] = fleet.reasons.copy()
                    assert found == {"Running": COUNT}, ours.log.read_text()[-2000:]
                finally:
                    plane.stop_scheduler()

    async def alone():
        async with fleet_on(plane) as fleet:
            with scheduler(plane, "--standalone") as ours:
                began = time.monotonic()
                await asyncio.to_thread(deploy, plane, "numalign")
                found = await running(plane, fleet, COUNT, 60)
                counts["our own scheduler"] = fleet.reasons.copy()
                assert found == {"Running": COUNT}, ours.log.read_text()[-2000:]
                report(f"standalone: {COUNT} pods run after {time.monotonic() - began:.1f} s")

    for story in (stock, extended, extended_thrice, alone):
        asyncio.run(story())
    for name, found in counts.items():
        report(f"{name}: {found[REFUSED]} x {REFUSED}, {found['']} admitted, {dict(found)}")
    assert counts["stock scheduler alone"][REFUSED] >= STORM
    for name in counts.keys() - {"stock scheduler alone"}:
        assert counts[name] == {"": COUNT}, name


def test_a_pod_that_fits_nowhere_waits_with_a_reason_and_starts_when_another_leaves(plane, until):
    async def story():
        one = [HostPlan("numa-4", "1s:4n:4c:1t,mem=8Gi", "single-numa-node")]
        async with fleet_on(plane, one) as fleet:
            with scheduler(plane, "--standalone"):
                await asyncio.to_thread(
                    deploy, plane, "numalign", [("five", 5, {"cpu": "3", "memory": "1Gi"})]
                )
                found = await running(plane, fleet, 4, 30)
                assert found == {"Running": 4, "Pending": 1}
                assert fleet.reasons == {"": 4}
                (waiting,) = [p for p in plane.objects("pods") if p["status"]["phase"] == "Pending"]
                (condition,) = waiting["status"]["conditions"]
                assert condition["type"] == "PodScheduled"
                assert condition["status"] == "False"
                assert condition["reason"] == "Unschedulable"
                report(condition["message"])
                assert "in one NUMA node" in condition["message"]
                notes = [
                    e["note"]
                    for e in plane.objects("events.events.k8s.io")
                    if e["reason"] == "FailedScheduling"
                    and e["regarding"]["name"] == waiting["metadata"]["name"]
                ]
                assert notes[-1] == condition["message"]
                leaving = next(
                    p for p in plane.objects("pods") if p["status"]["phase"] == "Running"
                )
                plane.kubectl("scale", "deployment/five", "--replicas=4")
                plane.kubectl("delete", "pod", leaving["metadata"]["name"], "--wait=false")
                found = await running(plane, fleet, 5, 30)
                assert found == {"Running": 4}
                assert fleet.reasons == {"": 5}

    asyncio.run(story())


def test_late_news_of_hosts_cost_no_pod(plane):
    async def story():
        async with fleet_on(plane, plans(10), publish_seconds=3.0) as fleet:
            with scheduler(plane, "--standalone"):
                mix = [("late", 25, {"cpu": "3", "memory": "1Gi"})]
                await asyncio.to_thread(deploy, plane, "numalign", mix)
                await running(plane, fleet, 25, 90)
                assert fleet.reasons == {"": 25}

    asyncio.run(story())


def test_hosts_that_publish_nothing_are_filled_by_their_totals(plane):
    async def story():
        quiet = [HostPlan(f"quiet-{n}", "1s:1n:8c:1t,mem=16Gi", "best-effort") for n in range(3)]
        async with fleet_on(plane, quiet, publish_seconds=None) as fleet:
            with scheduler(plane, "--standalone"):
                mix = [("totals", 8, {"cpu": "3", "memory": "1Gi"})]
                await asyncio.to_thread(deploy, plane, "numalign", mix)
                found = await running(plane, fleet, 6, 60)
                assert found == {"Running": 6, "Pending": 2}
                assert fleet.reasons == {"": 6}

    asyncio.run(story())


def test_work_goes_on_after_a_restart_of_the_api_server(plane):
    async def story():
        async with fleet_on(plane, plans(20)) as fleet:
            with scheduler(plane, "--standalone") as ours:
                mix = [("before", 30, {"cpu": "3", "memory": "1Gi"})]
                await asyncio.to_thread(deploy, plane, "numalign", mix)
                await asyncio.to_thread(plane.stop_api_server)
                await asyncio.sleep(2)
                await asyncio.to_thread(plane.start_api_server)
                mix = [("after", 30, {"cpu": "2", "memory": "1Gi"})]
                await asyncio.to_thread(deploy, plane, "numalign", mix)
                await running(plane, fleet, 60, 90)
                # The hosts of these tests do not repeat a status that was lost in between.
                bound = [p for p in plane.objects("pods") if p["spec"].get("nodeName")]
                assert len(bound) == 60, ours.log.read_text()[-2000:]
                assert fleet.reasons == {"": 60}

    asyncio.run(story())


def test_another_replica_takes_over_from_one_that_is_killed(plane, until):
    def holder() -> str:
        text = plane.kubectl(
            "get", "lease", "numalign-scheduler", "-n", "kube-system", "-o", "json"
        )
        return json.loads(text)["spec"]["holderIdentity"]

    async def story():
        async with fleet_on(plane, plans(20)) as fleet:
            with (
                scheduler(plane, "--standalone", name="first") as first,
                contextlib.ExitStack() as stack,
            ):
                until(lambda: first.metric("numalign_scheduler_leading") == 1)
                was = holder()
                second = stack.enter_context(scheduler(plane, "--standalone", name="second"))
                assert second.metric("numalign_scheduler_leading") == 0
                mix = [("many", 60, {"cpu": "2", "memory": "1Gi"})]
                await asyncio.to_thread(deploy, plane, "numalign", mix)
                while fleet.reasons[""] < 10:
                    await asyncio.sleep(0.01)
                first.kill()
                killed = time.monotonic()
                report(f"killed after {fleet.reasons['']} pods")
                found = await running(plane, fleet, 60, 60)
                report(f"all pods run {time.monotonic() - killed:.1f} s after the kill")
                assert found == {"Running": 60}, second.log.read_text()[-2000:]
                assert fleet.reasons == {"": 60}
                assert holder() != was

    asyncio.run(story())


def test_rules_besides_numa_are_honoured(plane):
    async def story():
        found = [
            HostPlan("plain", labels={"zone": "a"}),
            HostPlan("tainted", labels={"zone": "a"}),
            HostPlan("cordoned", labels={"zone": "a"}),
            HostPlan("other", labels={"zone": "b"}),
        ]
        async with fleet_on(plane, found) as fleet:
            plane.kubectl("taint", "node", "tainted", "dedicated=db:NoSchedule")
            plane.kubectl("cordon", "cordoned")
            with scheduler(plane, "--standalone"):
                common = {"schedulerName": "numalign", "nodeSelector": {"zone": "a"}}
                tolerating = [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
                gated = [{"name": "example.com/wait"}]
                spread = {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {},
                }
                volume = {"name": "data", "persistentVolumeClaim": {"claimName": "none"}}
                plane.apply(
                    work.pod("selecting", **common),
                    work.pod("gated", schedulingGates=gated, **common),
                    work.pod("spreading", topologySpreadConstraints=[spread], **common),
                    work.pod("claiming", volumes=[volume], **common),
                    work.pod(
                        "dedicated",
                        **common,
                        tolerations=tolerating,
                        affinity={
                            "nodeAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {
                                            "matchFields": [
                                                {
                                                    "key": "metadata.name",
                                                    "operator": "In",
                                                    "values": ["tainted"],
                                                }
                                            ]
                                        }
                                    ]
                                }
                            }
                        },
                    ),
                )
                await running(plane, fleet, 3, 20)
                await asyncio.sleep(1)
                pods = {p["metadata"]["name"]: p for p in plane.objects("pods")}
                hosts = {name: p["spec"].get("nodeName", "") for name, p in pods.items()}
                assert hosts == {
                    "selecting": "plain",
                    "gated": "",
                    "spreading": "plain",
                    "claiming": "",
                    "dedicated": "tainted",
                }
                conditions = pods["claiming"]["status"]["conditions"]
                assert "persistent volume claims" in conditions[0]["message"]
                plane.kubectl(
                    "patch",
                    "pod",
                    "gated",
                    "--type=json",
                    '-p=[{"op": "remove", "path": "/spec/schedulingGates"}]',
                )
                await running(plane, fleet, 4, 20)
                assert fleet.reasons == {"": 4}

    asyncio.run(story())


@pytest.mark.parametrize("manifest", ["scheduler-standalone.yaml", "scheduler-extender.yaml"])
def test_the_rights_of_the_manifest_are_enough(plane, manifest):
    is_extender = "extender" in manifest

    async def story():
        async with fleet_on(plane, plans(5)) as fleet:
            rights(plane, manifest)
            ours = plane.account(NAMESPACE, "numalign-scheduler")
            with contextlib.ExitStack() as stack:
                mode = "--extender" if is_extender else "--standalone"
                lease = f"--lease={NAMESPACE}/numalign-scheduler"
                found = stack.enter_context(scheduler(plane, mode, lease, kubeconfig=ours))
                if is_extender:
                    verbs = ("filter", "preempt")
                    plane.start_scheduler(with_extender(found.address, verbs))
                    stack.callback(plane.stop_scheduler)
                name = "default-scheduler" if is_extender else "numalign"
                mix = [("few", 8, {"cpu": "3", "memory": "1Gi"})]
                mix.append(("huge", 1, {"cpu": "300", "memory": "1Gi"}))
                await asyncio.to_thread(deploy, plane, name, mix)
                assert await running(plane, fleet, 8, 60) == {"Running": 8, "Pending": 1}
                assert fleet.reasons == {"": 8}
                if not is_extender:
                    events = plane.objects("events.events.k8s.io")
                    told = {e["reason"] for e in events if e.get("reportingController") == name}
                    assert told == {"Scheduled", "FailedScheduling"}
                log = found.log.read_text()
                assert "403" not in log
                assert "forbidden" not in log

    asyncio.run(story())
    who = f"system:serviceaccount:{NAMESPACE}:numalign-scheduler"
    for what in (("get", "secrets"), ("delete", "nodes"), ("create", "pods")):
        with pytest.raises(RuntimeError):  # kubectl ends with 1 for "no"
            plane.kubectl("auth", "can-i", *what, "--as", who)
