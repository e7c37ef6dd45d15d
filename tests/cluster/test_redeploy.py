"""The redeploy loop as a process with its own account, against real controllers and schedulers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time

import pytest
from tests.cluster import work
from tests.cluster.conftest import rights
from tests.cluster.fleet import Fleet, HostPlan
from tests.cluster.processes import running
from tests.packaging.manifests import NAMESPACE

from numalign.adapters.kubernetes.api_server import ApiServer

pytestmark = pytest.mark.e2e
REFUSED = {
    "phase": "Failed",
    "reason": "TopologyAffinityError",
    "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
}


@pytest.fixture
def account(plane):
    """The kubeconfig of the manifest's account."""
    rights(plane, "redeploy.yaml")
    return plane.account(NAMESPACE, "numalign-redeploy")


@pytest.fixture
def namespace(plane):
    """A namespace of its own for each test."""
    name = f"redeploy-{time.time_ns():x}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")
    plane.kubectl("delete", "deployments,pods", "--all", "-n", name, "--force", "--grace-period=0")


def refuse(plane, namespace, name, **status):
    """What a kubelet writes about a pod that it refuses."""
    patch = json.dumps({"status": {**REFUSED, **status}})
    plane.kubectl("patch", "pod", name, "-n", namespace, "--subresource=status", "-p", patch)


def pods(plane, namespace):
    return {p["metadata"]["name"]: p for p in plane.objects("pods", "-n", namespace)}


def bare(plane, namespace, name, host="w1", **others):
    manifest = json.loads(work.pod(name, host, **others))
    manifest["metadata"]["namespace"] = namespace
    plane.apply(json.dumps(manifest))


def events(plane, namespace, reason):
    return [e for e in plane.objects("events", "-n", namespace) if e["reason"] == reason]


def failed(plane, namespace):
    return [n for n, p in pods(plane, namespace).items() if p["status"]["phase"] == "Failed"]


@contextlib.contextmanager
def redeploying(place, account, *arguments):
    with running(place, "redeploy", f"--kubeconfig={account}", *arguments) as found:
        yield found


def bind_and_refuse(plane, namespace, name, host="w1"):
    target = {"apiVersion": "v1", "kind": "Node", "name": host}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
    plane.kubectl("create", f"--raw={path}", "-f", "-", stdin=json.dumps(body))
    refuse(plane, namespace, name)


def test_failed_pods_of_a_deployment_go_and_the_newest_is_kept(
    plane, account, namespace, tmp_path, until
):
    plane.apply(work.deployment("web", 1, namespace=namespace))
    for count in range(1, 4):
        pending = until(
            lambda: [
                n for n, p in pods(plane, namespace).items() if p["status"]["phase"] == "Pending"
            ]
        )
        bind_and_refuse(plane, namespace, pending[0])
        until(lambda count=count: len(pods(plane, namespace)) == count + 1)
        time.sleep(1.1)  # status times are in seconds
    newest = max(failed(plane, namespace), key=lambda n: start_of(plane, namespace, n))
    with redeploying(tmp_path, account, "--grace=1", "--no-leader-elect") as loop:
        until(lambda: failed(plane, namespace) == [newest], what=loop.log)
        assert (
            loop.metric(
                'numalign_redeploy_actions_total{action="delete",owner_kind="ReplicaSet",result="done"}'
            )
            == 2
        )
        assert loop.problems == []
        told = until(lambda: events(plane, namespace, "TopologyRefused"))
        assert told[0]["involvedObject"]["kind"] == "ReplicaSet"


def start_of(plane, namespace, name):
    found = pods(plane, namespace)[name]
    return found["status"].get("startTime") or found["metadata"]["creationTimestamp"]


def test_a_dry_run_changes_nothing(plane, account, namespace, tmp_path, until):
    bare(plane, namespace, "lonely", annotations={"numalign.io/recreate": "true"})
    refuse(plane, namespace, "lonely")
    before = pods(plane, namespace)
    with redeploying(tmp_path, account, "--dry-run", "--wait=0.1", "--avoid=1") as loop:
        until(
            lambda: (
                loop.metric(
                    'numalign_redeploy_actions_total{action="recreate",owner_kind="",result="dry-run"}'
                )
                == 1
            ),
            what=loop.log,
        )
        time.sleep(1)
    assert pods(plane, namespace) == before


def test_bare_pods_are_left_alone_unless_they_ask(plane, account, namespace, tmp_path, until):
    plane.kubectl("create", "clusterrole", "may-create-pods", "--verb=create", "--resource=pods")
    plane.kubectl(
        "create",
        "clusterrolebinding",
        "may-create-pods",
        "--clusterrole=may-create-pods",
        f"--serviceaccount={NAMESPACE}:numalign-redeploy",
    )
    asks = {"numalign.io/recreate": "true"}
    bare(plane, namespace, "db", annotations=asks, labels={"keep": "me"})
    bare(plane, namespace, "quiet")
    for name in ("db", "quiet"):
        refuse(plane, namespace, name)
    # Another host must be known, or there would be no sense in trying.
    plane.apply(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w2"}}))
    with redeploying(tmp_path, account, "--wait=0.5", "--no-leader-elect") as loop:
        until(lambda: set(pods(plane, namespace)) == {"db-r1", "quiet"}, what=loop.log)
    again = pods(plane, namespace)["db-r1"]
    assert again["metadata"]["labels"] == {"keep": "me"}
    assert "nodeName" not in again["spec"]
    (term,) = again["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    rule = {"key": "metadata.name", "operator": "NotIn", "values": ["w1"]}
    assert term["matchFields"] == [rule]
    plane.kubectl("delete", "node", "w2")
    plane.kubectl("delete", "clusterrole,clusterrolebinding", "may-create-pods")


def test_the_account_can_do_what_the_loop_does_and_nothing_more(plane, account):
    def may(verb, resource, namespace="default"):
        try:
            answer = plane.kubectl(
                "auth",
                "can-i",
                verb,
                resource,
                "-n",
                namespace,
                f"--as=system:serviceaccount:{NAMESPACE}:numalign-redeploy",
            )
        except RuntimeError:
            return False
        return answer.strip() == "yes"

    assert all(may(verb, "pods") for verb in ("get", "list", "watch", "patch", "delete"))
    assert may("update", "leases/numalign-redeploy", NAMESPACE)
    refused = [("create", "pods"), ("get", "secrets"), ("patch", "nodes"), ("update", "pods")]
    refused += [("create", "pods/exec"), ("update", "leases/kube-scheduler")]
    assert [what for what in refused if may(*what)] == []


def test_two_replicas_take_turns(plane, account, namespace, tmp_path, until):
    leading = "numalign_redeploy_leading"
    with redeploying(tmp_path, account) as one:
        until(lambda: one.metric(leading) == 1, what=one.log)
        with redeploying(tmp_path, account) as two:
            until(lambda: two.problems == [], what=two.log)
            assert (one.metric(leading), two.metric(leading)) == (1, 0)
            one.process.terminate()
            until(lambda: two.metric(leading) == 1, 20, what=two.log)


@contextlib.asynccontextmanager
async def fleet_of(plane, *plans):
    async with ApiServer.connect(plane.kubeconfig) as api, Fleet(api, plans) as found:
        yield found
        await found.remove()


async def true_within(is_true, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(is_true):
            await asyncio.sleep(0.2)


def running_pods(plane, namespace):
    return [n for n, p in pods(plane, namespace).items() if p["status"]["phase"] == "Running"]


@pytest.fixture
def scheduler(plane, namespace):
    """The stock scheduler, and a namespace whose new pods get the gate."""
    rights(plane, "redeploy-gate.yaml")
    plane.kubectl("label", "namespace", namespace, "numalign.io/redeploy=enabled")
    plane.start_scheduler()
    yield
    plane.stop_scheduler()


STORM = HostPlan("storm-host", "1s:4n:4c:1t,mem=8Gi")


def storm(plane, namespace, seconds):
    """How many pods fail within this time when 5 pods want to go where 4 fit, and how many run."""

    async def story():
        async with fleet_of(plane, STORM) as fleet:
            plane.apply(work.deployment("storm", 5, namespace=namespace, cpu="3"))
            await asyncio.sleep(seconds)
            found = fleet.reasons["TopologyAffinityError"], len(running_pods(plane, namespace))
            plane.kubectl("delete", "deployment", "storm", "-n", namespace)
            await true_within(lambda: not running_pods(plane, namespace))
            return found

    return asyncio.run(story())


def test_with_the_gate_the_storm_of_the_stock_scheduler_stops(
    plane, account, namespace, scheduler, tmp_path, until, capsys
):
    plane.kubectl("label", "namespace", namespace, "numalign.io/redeploy-")
    alone, ran_alone = storm(plane, namespace, 15)
    plane.kubectl("delete", "pods", "--all", "-n", namespace, "--force", "--grace-period=0")
    plane.kubectl("label", "namespace", namespace, "numalign.io/redeploy=enabled")
    time.sleep(2)  # the API server reads labels and policies in the background
    with redeploying(tmp_path, account, "--grace=2", "--keep=0") as loop:
        until(lambda: loop.metric("numalign_redeploy_leading") == 1, 20, what=loop.log)
        gated, ran_gated = storm(plane, namespace, 15)
        until(lambda: failed(plane, namespace) == [], what=loop.log)
    with capsys.disabled():
        sys.stdout.write(f"\nrefused in 15 s: {alone} alone, {gated} with redeploy and its gate\n")
    assert (ran_alone, ran_gated) == (4, 4)
    assert alone > 10
    assert gated == 1


def test_when_a_pod_leaves_the_one_that_waited_starts_at_once(
    plane, account, namespace, scheduler, tmp_path
):
    async def story(loop):
        async with fleet_of(plane, STORM) as fleet:
            bare(plane, namespace, "tenant", host="storm-host", cpu="3")
            await true_within(lambda: running_pods(plane, namespace) == ["tenant"])
            plane.apply(work.deployment("web", 4, namespace=namespace, cpu="3"))
            await true_within(lambda: fleet.reasons["TopologyAffinityError"] == 1)
            await true_within(lambda: loop.metric("numalign_redeploy_waiting_pods") == 1)
            assert len(running_pods(plane, namespace)) == 4
            begun = time.monotonic()
            plane.kubectl("delete", "pod", "tenant", "-n", namespace, "--wait=false")
            await true_within(
                lambda: (
                    len(running_pods(plane, namespace)) == 4
                    and "tenant" not in pods(plane, namespace)
                )
            )
            return time.monotonic() - begun, fleet.reasons["TopologyAffinityError"]

    with redeploying(tmp_path, account, "--no-leader-elect", "--avoid=300") as loop:
        seconds, refused = asyncio.run(story(loop))
    assert refused == 1
    assert seconds < 20  # the host would have been avoided for 300


def test_a_refused_pod_goes_to_another_host(plane, account, namespace, scheduler, tmp_path):
    """One host is fragmented, which the stock scheduler cannot see, and it likes that host."""
    first = {"matchExpressions": [{"key": "liked", "operator": "Exists"}]}
    liking = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": first}]
    }

    async def story():
        liked = HostPlan("liked", "1s:4n:4c:1t,mem=8Gi", labels={"liked": "yes"})
        async with fleet_of(plane, liked, HostPlan("other", "1s:1n:8c:1t,mem=8Gi")) as fleet:
            for number in range(4):
                bare(plane, namespace, f"small-{number}", host="liked", cpu="3")
                await fleet.settled()
            plane.apply(
                work.deployment(
                    "web", 1, namespace=namespace, cpu="3", affinity={"nodeAffinity": liking}
                )
            )
            await true_within(lambda: len(running_pods(plane, namespace)) == 5)
            placed = [
                p["spec"]["nodeName"]
                for n, p in pods(plane, namespace).items()
                if n.startswith("web") and p["status"]["phase"] == "Running"
            ]
            return placed, fleet.reasons["TopologyAffinityError"]

    with redeploying(tmp_path, account, "--no-leader-elect", "--wait=1"):
        placed, refused = asyncio.run(story())
    assert placed == ["other"]
    assert refused == 1
