"""Pods that our extender refuses, and a cluster in which nothing happens but a publication.

A kube-scheduler does not watch what hosts publish. Without our own doing such a pod waits until the
kube-scheduler looks at everything it has put aside, after five minutes.
"""

from __future__ import annotations

import contextlib
import json

import httpx
import pytest
from tests.cluster import work
from tests.cluster.fleet import FleetHost, HostPlan
from tests.cluster.schedulers import scheduler, with_extender
from tests.cluster.test_scheduler import ONE_CALL, THREE_CALLS, clear

from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.scheduling import pod_of
from numalign.wire.kubernetes.scheduling_bodies import ROOM_CONDITION

pytestmark = pytest.mark.e2e

SECONDS_MAX = 60.0  # far less than five minutes
PLAN = HostPlan("lonely", "1s:1n:4c:1t,mem=8Gi")
WAYS = [((), ONE_CALL), (("--three-calls",), THREE_CALLS)]


@pytest.fixture
def lonely(plane):
    """One host that nobody looks after: what it publishes is up to the test."""
    host = FleetHost(PLAN)
    node = host.node()
    plane.apply(json.dumps(node))
    status = json.dumps({"status": node["status"]})
    plane.kubectl(
        "patch", "node", PLAN.name, "--subresource=status", "--type=strategic", f"-p={status}"
    )
    yield host
    clear(plane)
    for kind in ("node", "noderesourcetopology"):
        plane.kubectl("delete", kind, PLAN.name, "--ignore-not-found")


def publish(plane, host: FleetHost) -> None:
    plane.apply(json.dumps(nrt.body(host.topology())))


@contextlib.contextmanager
def extended(plane, arguments, verbs):
    with scheduler(plane, "--extender", *arguments) as ours:
        plane.start_scheduler(with_extender(ours.address, verbs))
        try:
            yield ours
        finally:
            plane.stop_scheduler()


def pod_on(plane, name: str) -> dict:
    return json.loads(plane.kubectl("get", "pod", name, "-o", "json"))


def message(plane, name: str) -> str:
    conditions = pod_on(plane, name)["status"].get("conditions", [])
    found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return f"{found[0]['reason']}: {found[0]['message']}" if found else ""


@pytest.mark.parametrize(("arguments", "verbs"), WAYS, ids=["one-call", "three-calls"])
def test_a_refused_pod_is_bound_soon_after_its_host_publishes_more_room(
    plane, until, lonely, arguments, verbs
):
    # Somebody on the host whom the API server does not know, such as a pod that is just gone.
    ghost = json.loads(work.pod("ghost", cpu="3"))
    ghost["metadata"] |= {"uid": "ghost", "namespace": "default"}
    assert lonely.admit(pod_of(ghost).pod) is None
    publish(plane, lonely)
    with extended(plane, arguments, verbs) as ours:
        plane.apply(work.pod("waiting", cpu="3"))
        until(lambda: message(plane, "waiting").startswith("Unschedulable: "), 30)
        lonely.end("ghost")
        publish(plane, lonely)
        bound = lambda: pod_on(plane, "waiting")["spec"].get("nodeName")  # noqa: E731
        assert until(bound, SECONDS_MAX) == PLAN.name
        assert ours.metric('numalign_scheduler_attempts_total{result="touched"}') >= 1


def test_what_a_scheduler_does_not_take_up_is_free_again(plane, until, lonely):
    publish(plane, lonely)
    with scheduler(plane, "--extender") as ours:
        plane.apply(work.pod("first", cpu="3"), work.pod("second", cpu="3"))

        def given(name: str) -> list[str]:
            asked = {"Pod": pod_on(plane, name), "Nodes": None, "NodeNames": [PLAN.name]}
            return httpx.post(f"{ours.address}/scheduler/filter", json=asked).json()["NodeNames"]

        def is_told(name: str) -> bool:
            conditions = pod_on(plane, name)["status"].get("conditions", [])
            return any(c["type"] == ROOM_CONDITION for c in conditions)

        assert given("first") == [PLAN.name]
        assert given("second") == []
        # The kube-scheduler that asked has gone: nobody binds the first one.
        until(lambda: is_told("second"), SECONDS_MAX)
        assert ours.metric('numalign_scheduler_attempts_total{result="unconfirmed"}') == 1
        assert given("second") == [PLAN.name]


@pytest.mark.parametrize(("arguments", "verbs"), WAYS, ids=["one-call", "three-calls"])
def test_a_pod_that_must_wait_for_a_publication_is_asked_about_again(
    plane, until, lonely, arguments, verbs
):
    publish(plane, lonely)
    # Bound before we came, and not published: where it sits is not known.
    plane.apply(work.pod("early", PLAN.name, cpu="1"))
    with extended(plane, arguments, verbs):
        plane.apply(work.pod("waiting", cpu="2"))
        until(lambda: "have yet to publish: ask again" in message(plane, "waiting"), 30)
        assert message(plane, "waiting").startswith("SchedulerError: ")
        assert lonely.admit(pod_of(pod_on(plane, "early")).pod) is None
        publish(plane, lonely)
        bound = lambda: pod_on(plane, "waiting")["spec"].get("nodeName")  # noqa: E731
        assert until(bound, SECONDS_MAX) == PLAN.name
