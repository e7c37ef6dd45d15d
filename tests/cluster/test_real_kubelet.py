"""Real kubelets in guests with four NUMA nodes: what the stock scheduler breaks and ours does not.

Five pods with three CPUs each, on a host where four fit. The exporter runs in the guest on the
kubelet's own PodResources socket.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter

import pytest
from tests.cluster.real_worker import real_worker
from tests.cluster.schedulers import STOCK, scheduler
from tests.real.control_plane import control_plane
from tests.real.kubernetes import MissingError

from numalign.core.sets import CpuSet
from numalign.wire import crd, nrt

pytestmark = pytest.mark.e2e_numa

IMAGE = "localhost/busybox:1"
SECONDS_MAX = 600.0  # everything is emulated, and the machine may be busy
REFUSED = "TopologyAffinityError"
CASES = {
    "single-numa-node": ({"topologyManagerPolicy": "single-numa-node"}, {}),
    "restricted": ({"topologyManagerPolicy": "restricted"}, {}),
    "pod-scope": (
        {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"},
        {},
    ),
    "huge-pages": ({"topologyManagerPolicy": "single-numa-node"}, {"hugepages-2Mi": "16Mi"}),
}


def report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def deployment(name: str, scheduler_name: str, more: dict) -> str:
    """Five pods that fit four times: three of the four CPUs of a NUMA node each."""
    container = {
        "name": "c",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "100000"],
        "resources": {"limits": {"cpu": "3", "memory": "32Mi", **more}},
    }
    spec = {
        "schedulerName": scheduler_name,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": 5,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        }
    )


def phases(plane) -> Counter[str]:
    return Counter(p["status"].get("reason") or p["status"]["phase"] for p in plane.objects("pods"))


def until(is_so, what: str, seconds: float = SECONDS_MAX):
    deadline = time.monotonic() + seconds
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < deadline, f"still not so after {seconds:.0f} s: {what}"
        time.sleep(1)


@contextlib.contextmanager
def cluster(tmp_path, settings):
    """A control plane and one real worker that has published itself."""
    try:
        with control_plane(tmp_path, has_scheduler=False) as plane:
            plane.apply(crd.text())
            with real_worker(plane, settings) as worker:
                until(
                    lambda: plane.objects("noderesourcetopology"),
                    f"the host has published: {worker.log('exporter')}",
                )
                until(lambda: is_ready(plane), "the host is ready")
                yield plane, worker
    except MissingError as missing:
        pytest.skip(str(missing))


def is_ready(plane) -> bool:
    (node,) = plane.objects("nodes")
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


@pytest.mark.parametrize("name", CASES)
def test_four_run_one_waits_with_a_reason_and_none_fails(tmp_path, name):
    settings, more = CASES[name]
    with (
        cluster(tmp_path, settings) as (plane, worker),
        scheduler(plane, "--standalone", "--no-leader-elect") as ours,
    ):
        plane.apply(deployment("five", "numalign", more))
        until(lambda: phases(plane)["Running"] == 4, f"four pods run: {ours.log.read_text()}")
        until(
            lambda: [e for e in plane.objects("events.events.k8s.io") if is_failure(e)],
            "an event says why the fifth waits",
        )
        assert phases(plane) == {"Running": 4, "Pending": 1}
        notes = [e["note"] for e in plane.objects("events.events.k8s.io") if is_failure(e)]
        report(f"{name}: 4 run, 1 waits: {notes[-1]}")
        assert "NUMA node" in notes[-1]
        published_equals_state(plane, worker)

        leaving = next(p for p in plane.objects("pods") if p["status"]["phase"] == "Running")
        plane.kubectl("scale", "deployment/five", "--replicas=4")
        plane.kubectl("delete", "pod", leaving["metadata"]["name"], "--wait=false")
        until(lambda: phases(plane) == {"Running": 4}, "the fifth runs in the place of the first")
        assert leaving["metadata"]["uid"] not in {
            p["metadata"]["uid"] for p in plane.objects("pods")
        }


def is_failure(event: dict) -> bool:
    return event["reason"] == "FailedScheduling"


def published_equals_state(plane, worker) -> None:
    """What the exporter says of CPUs is what the kubelet has written down."""

    def is_equal() -> bool:
        text = plane.kubectl("get", "noderesourcetopology", worker.name, "-o", "json")
        placement = nrt.read(text.encode()).topology.placement
        assert placement is not None
        state = json.loads(worker.state_files()["cpu_manager_state"])
        published = {
            (pod.uid, part.name): part.cpus
            for pod in placement.pods
            for part in pod.containers
            if part.cpus
        }
        written = {
            (uid, container): CpuSet.parse(cpus).mask
            for uid, containers in state["entries"].items()
            for container, cpus in containers.items()
        }
        report(f"published {len(published)} containers, shared {CpuSet(placement.shared_cpus)}")
        shared = CpuSet.parse(state["defaultCpuSet"]).mask
        return published == written and placement.shared_cpus == shared

    until(is_equal, "the published placement is that of the state files", 120)


def test_the_stock_scheduler_alone_makes_a_storm_of_refused_pods(tmp_path):
    with cluster(tmp_path, {"topologyManagerPolicy": "single-numa-node"}) as (plane, _):
        plane.start_scheduler(STOCK)
        plane.apply(deployment("five", "default-scheduler", {}))
        began = time.monotonic()
        until(lambda: phases(plane)[REFUSED] >= 20, "pods are refused")
        plane.stop_scheduler()
        report(f"stock: {phases(plane)} after {time.monotonic() - began:.0f} s")
