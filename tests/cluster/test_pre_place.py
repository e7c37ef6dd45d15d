"""Gated pods on a real API server: we find the host, a stock kube-scheduler binds there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import pytest
from tests.cluster import work
from tests.cluster.conftest import rights
from tests.cluster.fleet import HostPlan, plans
from tests.cluster.schedulers import SlowWay, scheduler, stock_config
from tests.cluster.test_scheduler import COUNT, MIX, deploy, fleet_on, report, running
from tests.packaging.manifests import NAMESPACE

from numalign.wire.kubernetes.scheduling import PRE_PLACE_GATE, PRE_PLACED_ANNOTATION

pytestmark = pytest.mark.e2e

GATED = {"schedulingGates": [{"name": PRE_PLACE_GATE}]}
ONE_HOST = [HostPlan("numa-4", "1s:4n:4c:1t,mem=8Gi", "single-numa-node")]
BEING_BOUND = 'numalign_scheduler_pods_waiting{state="being_bound"}'
THREE = {"cpu": "3", "memory": "1Gi"}


@contextlib.contextmanager
def stock(plane):
    plane.start_scheduler(stock_config())
    try:
        yield
    finally:
        plane.stop_scheduler()


def gated(name: str, **spec) -> str:
    return work.pod(name, **{**THREE, **GATED, **spec})


def found(plane, name: str) -> dict:
    return json.loads(plane.kubectl("get", "pod", name, "-o", "json"))


def is_gated(pod: dict) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def host_of(plane, name: str) -> str:
    return found(plane, name)["spec"].get("nodeName", "")


def notes(plane, name: str, reason: str) -> list[str]:
    return [
        e["note"]
        for e in plane.objects("events.events.k8s.io")
        if e["reason"] == reason and e["regarding"]["name"] == name
    ]


def run_story(story) -> None:
    asyncio.run(story())


def test_no_pod_is_refused_with_a_stock_scheduler_that_is_told_the_host(plane):
    async def story():
        async with fleet_on(plane) as fleet:
            with scheduler(plane, "--pre-place") as ours, stock(plane):
                began = time.monotonic()
                mix = [(name, n, {**amounts, **GATED}) for name, n, amounts in MIX]
                await asyncio.to_thread(deploy, plane, "default-scheduler", mix)
                there = await running(plane, fleet, COUNT, 90)
                assert there == {"Running": COUNT}, ours.log.read_text()[-2000:]
                assert fleet.reasons == {"": COUNT}
                report(f"pre-place: {COUNT} pods run after {time.monotonic() - began:.1f} s")
                pods = plane.objects("pods")
                noted = [p["metadata"]["annotations"][PRE_PLACED_ANNOTATION] for p in pods]
                assert noted == [p["spec"]["nodeName"] for p in pods]

    run_story(story)


def test_a_gated_pod_that_fits_nowhere_waits_with_a_reason_and_starts_when_another_leaves(
    plane, until
):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with scheduler(plane, "--pre-place"), stock(plane):
                mix = [("five", 5, {**THREE, **GATED})]
                await asyncio.to_thread(deploy, plane, "default-scheduler", mix)
                assert await running(plane, fleet, 4, 30) == {"Running": 4, "Pending": 1}
                (waiting,) = [p for p in plane.objects("pods") if is_gated(p)]
                name = waiting["metadata"]["name"]
                told = until(lambda: notes(plane, name, "FailedScheduling"))
                (condition,) = found(plane, name)["status"]["conditions"]
                report(condition["message"])
                assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
                assert condition["message"].startswith("numalign: of 1 host: ")
                assert told == [condition["message"]]
                leaving = next(
                    p for p in plane.objects("pods") if p["status"]["phase"] == "Running"
                )
                plane.kubectl("scale", "deployment/five", "--replicas=4")
                plane.kubectl("delete", "pod", leaving["metadata"]["name"], "--wait=false")
                assert await running(plane, fleet, 5, 30) == {"Running": 4}
                assert fleet.reasons == {"": 5}

    run_story(story)


def test_a_pod_keeps_the_room_that_it_was_given_before_a_restart(plane, until):
    """Between the opened gate and the bind: no kube-scheduler runs yet."""

    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with scheduler(plane, "--pre-place") as first:
                plane.apply(*(gated(f"early-{n}") for n in range(3)))
                until(lambda: not any(map(is_gated, plane.objects("pods"))))
                first.kill()
            plane.apply(*(gated(f"late-{n}") for n in range(2)))
            with scheduler(plane, "--pre-place", "--no-leader-elect"):
                until(lambda: sum(map(is_gated, plane.objects("pods"))) == 1)
                with stock(plane):
                    assert await running(plane, fleet, 4, 30) == {"Running": 4, "Pending": 1}
                    assert fleet.reasons == {"": 4}
                    assert all(host_of(plane, f"early-{n}") == "numa-4" for n in range(3))

    run_story(story)


def test_a_pod_is_decided_anew_after_a_restart_before_its_gate_was_opened(plane, until):
    """Between the decision and its way to the API server."""

    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            slow = SlowWay(plane)
            with (
                slow.running() as kubeconfig,
                scheduler(plane, "--pre-place", kubeconfig=kubeconfig) as first,
            ):
                plane.apply(*(gated(f"pod-{n}") for n in range(4)))
                until(lambda: slow.held)
                until(lambda: first.metric(BEING_BOUND) == 4)
                first.kill()
            assert all(map(is_gated, plane.objects("pods")))
            with scheduler(plane, "--pre-place", "--no-leader-elect"), stock(plane):
                assert await running(plane, fleet, 4, 30) == {"Running": 4}
                assert fleet.reasons == {"": 4}

    run_story(story)


def test_what_a_killed_scheduler_had_sent_changes_nothing_when_it_arrives_late(plane, until):
    async def story():
        hosts = [HostPlan("a", "1s:1n:4c:1t,mem=8Gi"), HostPlan("b", "1s:1n:4c:1t,mem=8Gi")]
        async with fleet_on(plane, hosts) as fleet:
            slow = SlowWay(plane)
            with slow.running() as kubeconfig, stock(plane):
                with scheduler(plane, "--pre-place", kubeconfig=kubeconfig) as first:
                    plane.apply(gated("late"))
                    (change, *_) = until(lambda: slow.held)
                    first.kill()
                taken = change["metadata"]["annotations"][PRE_PLACED_ANNOTATION]
                plane.apply(work.pod("busy", taken, **THREE))
                await running(plane, fleet, 1, 20)
                with scheduler(plane, "--pre-place", "--no-leader-elect"):
                    assert await running(plane, fleet, 2, 30) == {"Running": 2}
                    before = found(plane, "late")
                    slow.let_through()
                    until(lambda: any(b" 422 " in line for line in slow.answers))
                after, (other,) = found(plane, "late"), {"a", "b"} - {taken}
                assert after["metadata"]["annotations"] == {PRE_PLACED_ANNOTATION: other}
                assert after["spec"] == before["spec"]
                assert fleet.reasons == {"": 2}

    run_story(story)


def test_a_pod_that_is_deleted_while_it_waits_or_is_on_its_way_frees_its_room(plane, until):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with scheduler(plane, "--pre-place"):
                plane.apply(*(gated(f"pod-{n}") for n in range(4)))
                until(lambda: not any(map(is_gated, plane.objects("pods"))))
                plane.apply(gated("waiting"), gated("leaving"))
                until(lambda: notes(plane, "leaving", "FailedScheduling"))
                plane.kubectl("delete", "pod", "leaving")  # gated
                plane.kubectl("delete", "pod", "pod-0")  # given a host, and not bound
                until(lambda: not is_gated(found(plane, "waiting")))
                with stock(plane):
                    assert await running(plane, fleet, 4, 30) == {"Running": 4}
                    assert fleet.reasons == {"": 4}

    run_story(story)


def test_pods_wait_while_nobody_decides(plane, until):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with stock(plane):
                plane.apply(gated("alone"))
                plane.apply(work.pod("other", cpu="500m"))
                until(lambda: host_of(plane, "other"))  # the kube-scheduler works
                assert is_gated(found(plane, "alone"))
                with scheduler(plane, "--pre-place"):
                    assert await running(plane, fleet, 2, 30) == {"Running": 2}

    run_story(story)


def test_a_gate_is_opened_after_a_time_where_that_is_wanted(plane, until):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            # Somebody who holds the lease and does nothing.
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "held", "namespace": "kube-system"},
                "spec": {"holderIdentity": "absent", "leaseDurationSeconds": 3600},
            }
            plane.apply(json.dumps(lease))
            arguments = ("--lease=kube-system/held", "--open-gate-after=3")
            with scheduler(plane, "--pre-place", *arguments), stock(plane):
                plane.apply(gated("opened"))
                assert await running(plane, fleet, 1, 30) == {"Running": 1}
                (note,) = notes(plane, "opened", "GateOpened")
                assert note == (
                    "numalign: nobody decided about the pod for 3 s: the kube-scheduler chooses "
                    "alone"
                )
                annotations = found(plane, "opened")["metadata"].get("annotations", {})
                assert PRE_PLACED_ANNOTATION not in annotations

    run_story(story)


def test_another_replica_takes_over_from_one_that_is_killed(plane, until):
    async def story():
        async with fleet_on(plane, plans(20)) as fleet:
            with (
                stock(plane),
                scheduler(plane, "--pre-place", name="first") as first,
                contextlib.ExitStack() as stack,
            ):
                until(lambda: first.metric("numalign_scheduler_leading") == 1)
                second = stack.enter_context(scheduler(plane, "--pre-place", name="second"))
                mix = [("many", 60, {"cpu": "2", "memory": "1Gi", **GATED})]
                await asyncio.to_thread(deploy, plane, "default-scheduler", mix)
                while fleet.reasons[""] < 10:
                    await asyncio.sleep(0.01)
                first.kill()
                assert await running(plane, fleet, 60, 90) == {"Running": 60}
                assert fleet.reasons == {"": 60}
                assert second.metric("numalign_scheduler_leading") == 1

    run_story(story)


def _with_port(number: int) -> dict:
    container = {
        "name": "app",
        "image": "none",
        "resources": {"limits": THREE},
        "ports": [{"containerPort": 80, "hostPort": number}],
    }
    return {"containers": [container]}


def _claiming(name: str) -> list[dict]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def _local_volume(host: str) -> tuple[str, str, str]:
    """A volume on one host, and a claim that is bound to it: only the kube-scheduler knows."""
    terms = [{"matchExpressions": [_at("kubernetes.io/hostname", host)]}]
    common = {"storageClassName": "here", "accessModes": ["ReadWriteOnce"]}
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "here"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "on-one-host"},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {**common, "resources": {"requests": {"storage": "1Gi"}}},
    }
    return json.dumps(storage_class), json.dumps(volume), json.dumps(claim)


def _at(key: str, value: str) -> dict:
    return {"key": key, "operator": "In", "values": [value]}


@pytest.fixture
def volume_on_b(plane):
    plane.apply(*_local_volume("b"))
    yield
    for what in ("persistentvolumeclaim/data", "persistentvolume/on-one-host"):
        plane.kubectl("delete", what, "--wait=false")


def test_a_pod_that_the_scheduler_cannot_place_is_made_anew_without_that_host(
    plane, until, volume_on_b
):
    async def story():
        # The busier one is not chosen first, and it is where the volume is.
        hosts = [HostPlan("a", "1s:2n:4c:1t,mem=8Gi"), HostPlan("b", "1s:2n:4c:1t,mem=8Gi")]
        async with fleet_on(plane, hosts) as fleet:
            with scheduler(plane, "--pre-place") as ours, stock(plane):
                plane.apply(work.pod("busy", "b", cpu="2"))
                await running(plane, fleet, 1, 20)
                mix = [("db", 1, {**THREE, **GATED, "volumes": _claiming("data")})]
                await asyncio.to_thread(deploy, plane, "default-scheduler", mix)
                assert await running(plane, fleet, 2, 60) == {"Running": 2}, ours.log.read_text()
                (pod,) = [p for p in plane.objects("pods") if p["metadata"]["name"] != "busy"]
                assert pod["spec"]["nodeName"] == "b"
                told = [
                    e["note"]
                    for e in plane.objects("events.events.k8s.io")
                    if e["reason"] == "NotFollowed"
                ]
                report(told[0])
                assert "the kube-scheduler cannot place it on a: 0/2 nodes" in told[0]
                assert "ReplicaSet/db-" in told[0]

    run_story(story)


def test_a_bare_pod_that_the_scheduler_cannot_place_stays_and_frees_its_room(
    plane, until, volume_on_b
):
    async def story():
        one = [HostPlan("a", "1s:1n:4c:1t,mem=8Gi")]
        async with fleet_on(plane, one) as fleet:
            with scheduler(plane, "--pre-place"), stock(plane):
                plane.apply(gated("bare", volumes=_claiming("data")))
                (note,) = until(lambda: notes(plane, "bare", "NotFollowed"), 40)
                assert "it has no controller that would make another one" in note
                plane.apply(gated("next"))  # there is room for one
                assert await running(plane, fleet, 1, 30) == {"Running": 1, "Pending": 1}
                assert host_of(plane, "next") == "a"

    run_story(story)


def test_rules_about_labels_of_namespaces_are_left_to_the_scheduler(plane, until):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with scheduler(plane, "--pre-place"), stock(plane):
                term = {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "none"}},
                    "namespaceSelector": {"matchLabels": {"team": "a"}},
                }
                apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                plane.apply(gated("apart", affinity={"podAntiAffinity": apart}))
                assert await running(plane, fleet, 1, 30) == {"Running": 1}
                (note,) = notes(plane, "apart", "HandedOver")
                assert "a namespaceSelector by other labels" in note

    run_story(story)


def test_another_gate_is_waited_for(plane, until):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with scheduler(plane, "--pre-place"), stock(plane):
                both = [{"name": "example.com/wait"}, *GATED["schedulingGates"]]
                plane.apply(gated("twice", schedulingGates=both), gated("once"))
                assert await running(plane, fleet, 1, 30) == {"Running": 1, "Pending": 1}
                patch = '[{"op": "remove", "path": "/spec/schedulingGates/0"}]'
                plane.kubectl("patch", "pod", "twice", "--type=json", f"-p={patch}")
                assert await running(plane, fleet, 2, 30) == {"Running": 2}

    run_story(story)


@pytest.fixture
def gate(plane, until):
    """The policy of the chart, which works a moment after it is there."""
    rights(plane, "scheduler-gate.yaml")
    plane.kubectl("label", "namespace", "default", "numalign.io/pre-place=enabled")

    def is_working() -> bool:
        plane.apply(work.pod("probe", **THREE))
        was_gated = is_gated(found(plane, "probe"))
        plane.kubectl("delete", "pod", "probe", "--grace-period=0", "--force")
        return was_gated

    until(is_working, 30)
    yield
    plane.kubectl("label", "namespace", "default", "numalign.io/pre-place-")
    for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
        plane.kubectl("delete", kind, "numalign-scheduler-gate")


def test_the_policy_of_the_chart_gates_the_pods_that_matter_and_no_others(plane, gate):
    device = {"example.com/nic": "1"}
    pages = {"hugepages-2Mi": "4Mi"}
    burstable = {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}
    plane.apply(
        work.pod("whole", cpu="3"),
        work.pod("part", cpu="1500m"),
        work.pod("device", cpu="500m", amounts=device),
        work.pod("pages", cpu="500m", amounts=pages),
        work.pod("burstable", containers=[{"name": "app", "image": "none", **burstable}]),
        work.pod("plain", containers=[{"name": "app", "image": "none"}]),
        work.pod("declined", cpu="3", labels={"numalign.io/pre-place": "disabled"}),
        gated("already", cpu="3"),
    )
    pods = {p["metadata"]["name"]: p["spec"].get("schedulingGates") for p in plane.objects("pods")}
    plane.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    ours = GATED["schedulingGates"]
    assert pods == {
        "whole": ours,
        "part": None,
        "device": ours,
        "pages": ours,
        "burstable": None,
        "plain": None,
        "declined": None,
        "already": ours,
    }


def test_the_rights_of_the_manifest_are_enough(plane, gate, volume_on_b):
    async def story():
        hosts = [HostPlan("a", "1s:2n:4c:1t,mem=8Gi"), HostPlan("b", "1s:2n:4c:1t,mem=8Gi")]
        async with fleet_on(plane, hosts) as fleet:
            rights(plane, "scheduler-pre-place.yaml")
            account = plane.account(NAMESPACE, "numalign-scheduler")
            lease = f"--lease={NAMESPACE}/numalign-scheduler"
            with scheduler(plane, "--pre-place", lease, kubeconfig=account) as ours, stock(plane):
                plane.apply(work.pod("busy", "b", cpu="2"))
                await running(plane, fleet, 1, 20)
                mix = [("huge", 1, {"cpu": "300", "memory": "1Gi"})]
                mix.append(("db", 1, {**THREE, "volumes": _claiming("data")}))
                await asyncio.to_thread(deploy, plane, "default-scheduler", mix)
                assert await running(plane, fleet, 2, 60) == {"Running": 2, "Pending": 1}
                log = ours.log.read_text()
                assert "403" not in log
                assert "forbidden" not in log

    run_story(story)
    who = f"system:serviceaccount:{NAMESPACE}:numalign-scheduler"
    for what in (("get", "secrets"), ("delete", "nodes"), ("create", "pods"), ("patch", "nodes")):
        with pytest.raises(RuntimeError):  # kubectl ends with 1 for "no"
            plane.kubectl("auth", "can-i", *what, "--as", who)
