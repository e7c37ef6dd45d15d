"""Room for pods of higher priority, for gangs, and between pods, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from tests.cluster import work
from tests.cluster.conftest import rights
from tests.cluster.fleet import HostPlan
from tests.cluster.schedulers import scheduler
from tests.cluster.test_pre_place import GATED, found, host_of, notes, stock
from tests.cluster.test_scheduler import fleet_on, report, running
from tests.packaging.manifests import NAMESPACE
from tests.real.control_plane import control_plane

from numalign.wire.kubernetes import crd
from numalign.wire.kubernetes.pod_rules import GANG_ANNOTATION, GANG_MINIMUM_ANNOTATION

pytestmark = pytest.mark.e2e

# Four NUMA nodes with 3, 4, 4 and 4 CPUs for pods.
ONE_HOST = [HostPlan("numa-4", "1s:4n:4c:1t,mem=8Gi", "single-numa-node")]
SMALL = {"cpu": "1", "memory": "256Mi"}
LARGE = {"cpu": "3", "memory": "256Mi"}
HIGH = "numalign-test-high"


def priority_class() -> str:
    return json.dumps(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": HIGH},
            "value": 1000,
        }
    )


def budget(allowed_at_most: int) -> str:
    return json.dumps(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "low"},
            "spec": {
                "maxUnavailable": None,
                "minAvailable": 15 - allowed_at_most,
                "selector": {"matchLabels": {"app": "low"}},
            },
        }
    )


class Mode:
    """Our scheduler in one of its modes, and what its pods need."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alone = name == "--standalone"

    def spec(self, **more) -> dict:
        return {**({"schedulerName": "numalign"} if self.is_alone else GATED), **more}

    @contextlib.contextmanager
    def on(self, plane, *arguments, **options):
        with contextlib.ExitStack() as stack:
            ours = stack.enter_context(scheduler(plane, self.name, *arguments, **options))
            if not self.is_alone:
                stack.enter_context(stock(plane))
            yield ours


MODES = [Mode("--standalone"), Mode("--pre-place")]
both = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


def message_of(plane, name: str) -> str:
    conditions = found(plane, name)["status"].get("conditions") or [{}]
    return next((c["message"] for c in conditions if c.get("type") == "PodScheduled"), "")


def said(plane, uids: set[str], reason: str) -> list[str]:
    """What events say of these pods; other tests have had pods of the same names."""
    return [
        e["note"]
        for e in plane.objects("events.events.k8s.io")
        if e["reason"] == reason and e["regarding"]["uid"] in uids
    ]


def filled(plane, mode: Mode, count: int = 15) -> None:
    """A host full of small pods."""
    plane.apply(
        *(
            work.pod(f"low-{n:02}", labels={"app": "low"}, **mode.spec(**SMALL))
            for n in range(count)
        )
    )


def left(plane) -> list[str]:
    names = [p["metadata"]["name"] for p in plane.objects("pods")]
    return sorted(name for name in names if name.startswith("low-"))


@both
def test_a_pod_of_higher_priority_gets_one_numa_node_cleared_and_no_pod_ends_in_vain(
    plane, until, mode
):
    async def story():
        plane.apply(priority_class())
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane) as ours:
                await asyncio.to_thread(filled, plane, mode)
                assert await running(plane, fleet, 15, 60) == {"Running": 15}
                uids = {p["metadata"]["uid"] for p in plane.objects("pods")}
                plane.apply(work.pod("high", priorityClassName=HIGH, **mode.spec(**LARGE)))
                there = await running(plane, fleet, 16, 60)
                assert there == {"Running": 13}, ours.log.read_text()[-3000:]
                assert fleet.reasons == {"": 16}, "a kubelet refused a pod"
                assert len(left(plane)) == 12
                assert host_of(plane, "high") == "numa-4"
                own = {found(plane, "high")["metadata"]["uid"]}
                (note,) = [n for n in said(plane, own, "FailedScheduling") if "evicts" in n]
                report(note)
                assert "evicts 3 pods of lower priority from numa-4: default/low-" in note
                assert ours.metric('numalign_scheduler_preemptions_total{result="evicted"}') == 3
                told = await asyncio.to_thread(until, lambda: said(plane, uids, "Preempted")[2:])
                assert len(told) == 1, "one event for each victim"

    asyncio.run(story())


@both
def test_a_disruption_budget_is_respected_until_it_allows_enough(plane, until, mode):
    async def story():
        plane.apply(priority_class())
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane) as ours:
                await asyncio.to_thread(filled, plane, mode)
                assert await running(plane, fleet, 15, 60) == {"Running": 15}
                plane.apply(budget(2))
                plane.kubectl("wait", "pdb/low", "--for=jsonpath={.status.disruptionsAllowed}=2")
                plane.apply(work.pod("high", priorityClassName=HIGH, **mode.spec(**LARGE)))
                words = "does not help as far as PodDisruptionBudgets allow it"
                await asyncio.to_thread(until, lambda: words in message_of(plane, "high"))
                report(message_of(plane, "high"))
                assert len(left(plane)) == 15
                plane.apply(budget(3))
                there = await running(plane, fleet, 16, 60)
                assert there == {"Running": 13}, ours.log.read_text()[-3000:]
                assert fleet.reasons == {"": 16}
                plane.kubectl("delete", "pdb", "low")

    asyncio.run(story())


def test_the_rights_of_the_manifest_are_enough_to_make_room(plane, until):
    async def story():
        plane.apply(priority_class())
        rights(plane, "scheduler-standalone.yaml")
        account = plane.account(NAMESPACE, "numalign-scheduler")
        mode = MODES[0]
        lease = f"--lease={NAMESPACE}/numalign-scheduler"
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane, lease, kubeconfig=account) as ours:
                await asyncio.to_thread(filled, plane, mode)
                assert await running(plane, fleet, 15, 60) == {"Running": 15}
                plane.apply(work.pod("high", priorityClassName=HIGH, **mode.spec(**LARGE)))
                assert await running(plane, fleet, 16, 60) == {"Running": 13}
                log = ours.log.read_text()
                assert "403" not in log
                assert "forbidden" not in log

    asyncio.run(story())


def test_a_pod_whose_policy_is_never_evicts_nobody(plane, until):
    async def story():
        plane.apply(priority_class())
        mode = MODES[0]
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane):
                await asyncio.to_thread(filled, plane, mode)
                assert await running(plane, fleet, 15, 60) == {"Running": 15}
                spec = mode.spec(preemptionPolicy="Never", priorityClassName=HIGH, **LARGE)
                never = json.loads(priority_class())
                never["metadata"]["name"] = "numalign-test-never"
                never["preemptionPolicy"] = "Never"
                plane.apply(json.dumps(never))
                spec["priorityClassName"] = "numalign-test-never"
                plane.apply(work.pod("polite", **spec))
                await asyncio.to_thread(until, lambda: message_of(plane, "polite"))
                assert "evict" not in message_of(plane, "polite")
                assert len(left(plane)) == 15

    asyncio.run(story())


def test_a_killed_scheduler_leaves_its_nomination_to_the_next_one(plane, until):
    async def story():
        plane.apply(priority_class())
        mode = MODES[0]
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane) as first:
                await asyncio.to_thread(filled, plane, mode)
                assert await running(plane, fleet, 15, 60) == {"Running": 15}
                # Victims that end when somebody allows it: the finalizer keeps them.
                for name in left(plane):
                    patch = {"metadata": {"finalizers": ["example.com/keep"]}}
                    plane.kubectl("patch", "pod", name, "--type=merge", "-p", json.dumps(patch))
                plane.apply(work.pod("high", priorityClassName=HIGH, **mode.spec(**LARGE)))

                def leaving():
                    pods = plane.objects("pods")
                    names = [
                        p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]
                    ]
                    return names if len(names) == 3 else None

                going = await asyncio.to_thread(until, leaving)
                assert found(plane, "high")["status"]["nominatedNodeName"] == "numa-4"
                first.kill()
                with mode.on(plane, name="second") as second:
                    await asyncio.to_thread(
                        until, lambda: second.metric("numalign_scheduler_leading") == 1, 40
                    )
                    plane.apply(work.pod("late", **mode.spec(**LARGE)))
                    await asyncio.to_thread(until, lambda: message_of(plane, "late"))
                    for name in left(plane):
                        patch = {"metadata": {"finalizers": None}}
                        plane.kubectl("patch", "pod", name, "--type=merge", "-p", json.dumps(patch))
                    await asyncio.to_thread(until, lambda: host_of(plane, "high"), 60)
                    await fleet.settled()
                    assert not host_of(plane, "late")
                    assert set(left(plane)).isdisjoint(going)
                    assert len(left(plane)) == 12, "nobody else was evicted"
                    assert fleet.reasons == {"": 16}

    asyncio.run(story())


def gang(name: str, number: int, minimum: int, mode: Mode, **spec) -> str:
    annotations = {GANG_ANNOTATION: name, GANG_MINIMUM_ANNOTATION: str(minimum)}
    return work.pod(f"{name}-{number}", annotations=annotations, **mode.spec(**LARGE, **spec))


def bound(plane, prefix: str) -> list[str]:
    pods = plane.objects("pods")
    return [
        p["metadata"]["name"]
        for p in pods
        if p["metadata"]["name"].startswith(prefix) and p["spec"].get("nodeName")
    ]


@both
def test_a_gang_runs_whole_or_not_at_all(plane, until, mode):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane) as ours:
                plane.apply(work.pod("blocker", **mode.spec(**LARGE)))
                assert await running(plane, fleet, 1, 30) == {"Running": 1}
                plane.apply(*(gang("team", n, 4, mode) for n in range(3)))
                words = "waits for the rest of its gang default/team, which needs 4 pods at once"
                await asyncio.to_thread(until, lambda: words in message_of(plane, "team-0"))
                plane.apply(gang("team", 3, 4, mode))
                words = "the gang default/team needs 4 pods at once, and only 3 of them find a host"
                await asyncio.to_thread(until, lambda: words in message_of(plane, "team-3"))
                report(message_of(plane, "team-3"))
                assert not bound(plane, "team")
                # What the gang cannot use is there for others.
                plane.apply(work.pod("other", **mode.spec(**LARGE)))
                await asyncio.to_thread(until, lambda: host_of(plane, "other"))
                plane.kubectl("delete", "pod", "blocker", "other", "--wait=false")
                there = await running(plane, fleet, 6, 60)
                assert there == {"Running": 4}, ours.log.read_text()[-3000:]
                assert len(bound(plane, "team")) == 4
                assert fleet.reasons == {"": 6}

    asyncio.run(story())


@both
def test_of_two_gangs_that_come_together_one_runs_and_the_other_one_follows(plane, until, mode):
    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane):
                pods = [gang(name, n, 3, mode) for n in range(3) for name in ("red", "blue")]
                plane.apply(*pods)
                await running(plane, fleet, 3, 30)
                counts = sorted(len(bound(plane, name)) for name in ("red", "blue"))
                assert counts == [0, 3]
                first = "red" if bound(plane, "red") else "blue"
                other = "blue" if first == "red" else "red"
                names = bound(plane, first)
                plane.kubectl("delete", "pod", *names, "--wait=false")
                await asyncio.to_thread(until, lambda: len(bound(plane, other)) == 3, 60)
                await fleet.settled()
                assert fleet.reasons == {"": 6}

    asyncio.run(story())


@pytest.fixture(scope="module")
def grouped_plane(tmp_path_factory):
    """A control plane that has PodGroup objects."""
    options = (
        "--feature-gates=GenericWorkload=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    )
    place = tmp_path_factory.mktemp("grouped")
    with control_plane(place, has_scheduler=False, api_options=options) as plane:
        plane.apply(crd.text())
        plane.kubectl("wait", "--for=condition=Established", f"crd/{crd.NAME}", "--timeout=20s")
        yield plane


def test_a_pod_group_of_the_api_server_is_a_gang(grouped_plane, until):
    plane, mode = grouped_plane, MODES[0]
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }

    async def story():
        async with fleet_on(plane, ONE_HOST) as fleet:
            with mode.on(plane) as ours:
                pods = [
                    work.pod(
                        f"train-{n}",
                        schedulingGroup={"podGroupName": "train"},
                        **mode.spec(**LARGE),
                    )
                    for n in range(3)
                ]
                plane.apply(*pods[:2])
                words = "waits for the PodGroup default/train, which is not there"
                await asyncio.to_thread(until, lambda: words in message_of(plane, "train-0"))
                plane.apply(json.dumps(group))
                words = "waits for the rest of its gang default/train, which needs 3 pods at once"
                await asyncio.to_thread(until, lambda: words in message_of(plane, "train-0"))
                plane.apply(pods[2])
                there = await running(plane, fleet, 3, 60)
                assert there == {"Running": 3}, ours.log.read_text()[-3000:]
                assert fleet.reasons == {"": 3}

    asyncio.run(story())


def term(app: str, key: str) -> list[dict]:
    return [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@both
def test_rules_between_pods_are_honoured_also_those_of_pods_that_run(plane, until, mode):
    hosts = [
        HostPlan(f"rack-{n}", labels={"rack": "ab"[n // 2], "kubernetes.io/hostname": f"rack-{n}"})
        for n in range(4)
    ]

    async def story():
        async with fleet_on(plane, hosts) as fleet:
            with mode.on(plane) as ours:

                async def placed(name: str, **spec) -> str:
                    labels = {"app": name.partition("-")[0]}
                    plane.apply(work.pod(name, labels=labels, **mode.spec(**SMALL, **spec)))
                    await asyncio.to_thread(until, lambda: host_of(plane, name), 30, name)
                    return host_of(plane, name)

                def rack(host: str) -> str:
                    return next(plan.labels["rack"] for plan in hosts if plan.name == host)

                # It keeps pods of "noisy" out of its rack, though it was there first.
                quiet = await placed(
                    "quiet", affinity={"podAntiAffinity": {REQUIRED: term("noisy", "rack")}}
                )
                noisy = [await placed(f"noisy-{n}") for n in range(3)]
                assert {rack(one) for one in noisy} == set("ab") - {rack(quiet)}
                near = await placed(
                    "near", affinity={"podAffinity": {REQUIRED: term("quiet", "rack")}}
                )
                assert rack(near) == rack(quiet)
                spread = {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "even"}},
                }
                even = [
                    await placed(f"even-{n}", topologySpreadConstraints=[spread]) for n in range(4)
                ]
                assert len(set(even)) == 4
                await fleet.settled()
                assert set(fleet.reasons) == {""}
                assert not notes(plane, "even-0", "HandedOver")
                lonely = {"podAffinity": {REQUIRED: term("nobody", "rack")}}
                plane.apply(work.pod("lonely", **mode.spec(**SMALL, affinity=lonely)))
                words = "no pod there that the pod's affinity asks for"
                await asyncio.to_thread(until, lambda: words in message_of(plane, "lonely"))
                await placed("nobody")
                await asyncio.to_thread(until, lambda: host_of(plane, "lonely"), 30)
                assert rack(host_of(plane, "lonely")) == rack(host_of(plane, "nobody"))
                assert "Traceback" not in ours.log.read_text()

    asyncio.run(story())
