"""Real kubelets in guests with four NUMA nodes: what the stock scheduler breaks and ours does not.

Five pods with three CPUs each, on a host where four fit. The exporter runs in the guest on the
kubelet's own PodResources socket, with the rights of its manifest.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter

import pytest
from tests.cluster.conftest import rights, wait_until
from tests.cluster.processes import running
from tests.cluster.real_worker import real_worker
from tests.cluster.schedulers import scheduler, stock_config, with_extender
from tests.packaging.manifests import NAMESPACE
from tests.real.control_plane import control_plane
from tests.real.kept import MissingError
from tests.twin.kubelet import HOST_NAME
from tests.twin.sequences import GPU

from numalign.core.values.sets import CpuSet
from numalign.wire.checkpoints import cpu as cpu_checkpoint
from numalign.wire.checkpoints import devices as device_checkpoint
from numalign.wire.checkpoints import memory as memory_checkpoint
from numalign.wire.checkpoints import state_files
from numalign.wire.kubernetes import crd, nrt
from numalign.wire.kubernetes.scheduling import PRE_PLACE_GATE

pytestmark = pytest.mark.e2e_numa

IMAGE = "localhost/busybox:1"
REFUSED = "TopologyAffinityError"
STORM = 20  # refused pods are enough to see what happens
QUIET_SECONDS = 30  # in which the stock scheduler alone would have tens of pods refused
TOLD = f'numalign_redeploy_refusals_total{{host="{HOST_NAME}",reason="{REFUSED}"}}'
SECONDS_MAX = 600.0  # everything is emulated, and the machine may be busy
SINGLE = {"topologyManagerPolicy": "single-numa-node"}
WHOLE = ({"cpu": "3", "memory": "32Mi"},)
# The settings of the kubelet, and what the containers of each pod ask for.
CASES = {
    "single-numa-node": (SINGLE, WHOLE),
    "restricted": ({"topologyManagerPolicy": "restricted"}, WHOLE),
    "pod-scope": (
        {**SINGLE, "topologyManagerScope": "pod"},
        ({"cpu": "2", "memory": "16Mi"}, {"cpu": "1", "memory": "16Mi"}),
    ),
    "huge-pages-and-devices": (
        SINGLE,
        ({"cpu": "3", "memory": "32Mi", "hugepages-2Mi": "16Mi", GPU: "1"},),
    ),
}


def report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def deployment(name: str, scheduler_name: str, asked: tuple[dict, ...] = WHOLE, **more) -> str:
    """Five pods that fit four times: three of the four CPUs of a NUMA node each."""
    containers = [
        {
            "name": f"c{number}",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sleep", "100000"],
            "resources": {"limits": limits},
        }
        for number, limits in enumerate(asked)
    ]
    spec = {
        "schedulerName": scheduler_name,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": containers,
        **more,
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
    return wait_until(is_so, seconds, what, pause=1)


@contextlib.contextmanager
def cluster(tmp_path, settings):
    """A control plane and one real worker that has published itself."""
    try:
        with control_plane(tmp_path, has_scheduler=False) as plane:
            plane.apply(crd.text())
            plane.kubectl("create", "namespace", NAMESPACE)
            rights(plane, "exporter.yaml")
            # The kubelet takes up an object of its name; the exporter's token is bound to it.
            metadata = {"name": HOST_NAME}
            plane.apply(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
            account = plane.account(NAMESPACE, "numalign-exporter", host=HOST_NAME)
            with real_worker(plane, settings, exporter_kubeconfig=account) as worker:
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


@contextlib.contextmanager
def placing(plane, mode: str, asked: tuple[dict, ...]):
    """Our scheduler in this mode, with a stock one where that binds, and five pods for it."""
    is_ours = mode == "--standalone"
    arguments = () if mode == "--extender" else ("--no-leader-elect",)
    gates = {"schedulingGates": [{"name": PRE_PLACE_GATE}]} if mode == "--pre-place" else {}
    with scheduler(plane, mode, *arguments) as ours:
        if not is_ours:
            extending = with_extender(ours.address, ("filter",))
            plane.start_scheduler(extending if mode == "--extender" else stock_config())
        name = "numalign" if is_ours else "default-scheduler"
        plane.apply(deployment("five", name, asked, **gates))
        try:
            yield ours
        finally:
            plane.stop_scheduler()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "--standalone") for name in CASES),
        ("single-numa-node", "--pre-place"),
        ("huge-pages-and-devices", "--pre-place"),
        ("single-numa-node", "--extender"),
    ],
)
def test_four_run_one_waits_with_a_reason_and_none_fails(tmp_path, name, mode):
    settings, asked = CASES[name]
    with (
        cluster(tmp_path, settings) as (plane, worker),
        placing(plane, mode, asked) as ours,
    ):
        until(lambda: phases(plane)["Running"] == 4, f"four pods run: {ours.log.read_text()}")
        until(
            lambda: [e for e in plane.objects("events.events.k8s.io") if is_failure(e)],
            "an event says why the fifth waits",
        )
        assert phases(plane) == {"Running": 4, "Pending": 1}
        notes = [e["note"] for e in plane.objects("events.events.k8s.io") if is_failure(e)]
        report(f"{name}: 4 run, 1 waits: {notes[-1]}")
        # There is one GPU for each of the four; without any, it is the CPUs of one node.
        assert ("too few vendor.com/gpu" if GPU in asked[0] else "in one NUMA node") in notes[-1]
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
    """What the exporter publishes is what the kubelet has written down: CPUs, memory, devices."""

    def is_equal() -> bool:
        text = plane.kubectl("get", "noderesourcetopology", worker.name, "-o", "json")
        placement = nrt.read(text.encode()).topology.placement
        assert placement is not None
        files = worker.state_files()
        cpu = cpu_checkpoint.decode(files["cpu_manager_state"].encode(), placement.settings)
        memory = memory_checkpoint.decode(
            files["memory_manager_state"].encode(), placement.settings
        )
        devices = device_checkpoint.decode(files["kubelet_internal_checkpoint"].encode())
        held = state_files.saved_devices(devices).entries
        published = {
            (pod.uid, part.name): (
                part.cpus,
                sorted((b.type, b.nodes, b.size) for b in part.memory),
                {name: sorted(ids) for name, ids in part.devices.items()},
            )
            for pod in placement.pods
            for part in pod.containers
        }
        written = {
            (uid, name): (
                cpus,
                sorted((b.type, b.nodes, b.size) for b in memory.entries[uid][name]),
                {key: sorted(one.ids) for key, one in held.get(uid, {}).get(name, {}).items()},
            )
            for uid, containers in cpu.entries.items()
            for name, cpus in containers.items()
        }
        report(f"published {len(published)} containers, shared {CpuSet(placement.shared_cpus)}")
        return published == written and placement.shared_cpus == cpu.shared

    until(is_equal, "the published placement is that of the state files", 120)


def test_redeploy_cleans_up_after_the_stock_scheduler_and_ends_its_storm(tmp_path):
    everything_runs = Counter({"Running": 4, "Pending": 1})
    with cluster(tmp_path, SINGLE) as (plane, _):
        plane.start_scheduler(stock_config())
        plane.apply(deployment("five", "default-scheduler"))
        began = time.monotonic()
        until(lambda: phases(plane)[REFUSED] >= STORM, "pods are refused")
        seconds = time.monotonic() - began
        report(f"stock alone: {dict(phases(plane))} after {seconds:.0f} s, still growing")
        rights(plane, "redeploy.yaml")
        rights(plane, "redeploy-gate.yaml")
        account = plane.account(NAMESPACE, "numalign-redeploy")
        options = (f"--kubeconfig={account}", "--no-leader-elect", "--grace=2", "--keep=0")
        with running(tmp_path, "redeploy", *options) as loop:
            plane.kubectl("label", "namespace", "default", "numalign.io/redeploy=enabled")
            began = time.monotonic()
            until(lambda: phases(plane) == everything_runs, f"the storm ends: {loop.log}")
            seconds = time.monotonic() - began
            report(f"stock and redeploy: {dict(phases(plane))} after {seconds:.0f} s")
            refused = loop.metric(TOLD)
            assert refused
            time.sleep(QUIET_SECONDS)
            assert phases(plane) == everything_runs
            assert loop.metric(TOLD) == refused
