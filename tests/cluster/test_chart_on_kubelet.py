"""The chart on a real kubelet: our image in its runtime, each component as the pod it becomes.

Nothing of ours runs but in pods: with the tokens of their accounts, as the users and with the
rights that the chart gives them, reached by the kubelet's probes over a network of their own.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.cluster.real_worker import real_worker
from tests.cluster.test_chart import KINDS, NRI_VALUES, TAINT
from tests.cluster.test_real_kubelet import SINGLE, deployment, phases, report, until
from tests.packaging.manifests import CHART, NAMESPACE
from tests.real.control_plane import control_plane
from tests.real.helm import Helm
from tests.real.kept import CommandError, MissingError
from tests.real.own_image import NAME, own_image
from tests.twin.kubelet import HOST_NAME, RUNTIME

from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.scheduling import PRE_PLACE_GATE

pytestmark = pytest.mark.e2e_numa

RELEASE = "numalign"
IMAGE = f"--set=image.repository={NAME}"
# The chart as it was when it was installed for the first time, before there was an image.
FIRST_CHART = Path(__file__).parents[1] / "packaging" / "charts" / "numalign-0.1.0-first.tgz"
CPUS_PER_NODE = 4  # of the guest
HELM_SECONDS = 900  # a Python starts in half a minute in an emulated host
WAIT = ("--wait", "--wait-for-jobs", f"--timeout={HELM_SECONDS}s")
# The kubelet's managers off, as the NRI plugin needs it.
UNMANAGED = {
    "cpuManagerPolicy": "none",
    "memoryManagerPolicy": "None",
    "reservedMemory": [],
    "topologyManagerPolicy": "none",
}


class Installed:
    """A cluster of one real worker, and Helm for it."""

    def __init__(self, plane, worker, helm: Helm) -> None:
        self.plane = plane
        self.worker = worker
        self._helm = helm

    def helm(self, *arguments: str | Path) -> str:
        """Helm, with what our pods said if it fails."""
        try:
            return self._helm(*arguments, seconds_max=HELM_SECONDS + 60)
        except CommandError as error:
            said = self.plane.kubectl("get", "pods,events", "-n", NAMESPACE)
            logs = self.worker.call("inside_pod_log", "numalign")
            raise AssertionError(f"{error}\n{said}\n{logs}") from error

    def own_pods(self) -> dict[str, dict]:
        """Our pods that are not on their way out, by name."""
        found = self.plane.objects("pods", "-n", NAMESPACE)
        return {
            one["metadata"]["name"]: one
            for one in found
            if "deletionTimestamp" not in one["metadata"]
        }

    def components(self) -> Counter[str]:
        """How many pods of each component are ready."""
        label = "app.kubernetes.io/component"
        return Counter(
            pod["metadata"]["labels"][label] for pod in self.own_pods().values() if is_ready(pod)
        )

    def until_ready(self, expected: dict[str, int]) -> None:
        """Helm does not wait for the last pod of a DaemonSet that may be unavailable."""
        until(lambda: self.components() == expected, f"all are ready: {expected}")

    def given(self) -> dict[str, str]:
        """The CPUs of containers that have some of their own, by uid of their pod."""
        text = self.worker.state_files()["cpu_manager_state"]
        entries = json.loads(text).get("entries") or {}
        return {uid: cpus for uid, held in entries.items() for cpus in held.values()}


def is_ready(pod: dict) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextlib.contextmanager
def cluster(tmp_path, settings):
    """A control plane with the stock scheduler and accounts, and one worker with our image."""
    try:
        image = own_image()
        with (
            control_plane(tmp_path / "plane", has_accounts=True) as plane,
            real_worker(plane, settings, image=image) as worker,
        ):
            until(
                lambda: any(is_ready(node) for node in plane.objects("nodes")),
                f"the host is ready: {worker.log('kubelet')}",
            )
            yield Installed(plane, worker, Helm(plane.kubeconfig, tmp_path, NAMESPACE))
    except MissingError as missing:
        pytest.skip(str(missing))


def clock():
    began = time.monotonic()
    return lambda: f"{time.monotonic() - began:.0f} s"


def test_install_place_upgrade_under_load_roll_back_and_uninstall(tmp_path):
    with cluster(tmp_path, SINGLE) as one:
        plane = one.plane
        seconds = clock()
        # It had no startup probes: on a busy machine too many starts at once end each other.
        first = ("--set=scheduler.mode=pre-place", "--set=redeploy.replicas=1")
        one.helm("install", RELEASE, FIRST_CHART, "--create-namespace", IMAGE, *first, *WAIT)
        report(f"the first chart: {dict(one.components())} ready after {seconds()}")
        one.until_ready({"exporter": 1, "scheduler": 2, "redeploy": 1})

        plane.kubectl("label", "namespace", "default", "numalign.io/pre-place=enabled")
        seconds = clock()
        plane.apply(deployment("five", "default-scheduler"))
        until(lambda: phases(plane) == {"Running": 4, "Pending": 1}, "four pods run")
        report(f"four pods are placed and pinned, one waits at its gate: {seconds()}")
        are_placed(one)

        with churning(one) as churn:
            seconds = clock()
            steady = the_steady(plane)
            one.helm("upgrade", RELEASE, CHART, IMAGE, *WAIT)
            report(f"upgraded after {seconds()}, while {churn.count} pods were replaced")
            one.until_ready({"exporter": 1, "scheduler": 2, "redeploy": 2})
            assert the_steady(plane) == steady, "no pod that nobody deleted was touched"
            confined(one)
            seconds = clock()
            one.helm("test", RELEASE, f"--timeout={HELM_SECONDS}s")
            report(f"helm test passed after {seconds()}")
            before = churn.count
            seconds = clock()
            one.helm("rollback", RELEASE, "1", *WAIT)
            report(f"rolled back after {seconds()}, {churn.count - before} pods were replaced")
            assert the_steady(plane) == steady
            one.helm("upgrade", RELEASE, CHART, IMAGE, *WAIT)
        assert churn.count > 0, "there was load"
        assert churn.refused == []
        until(lambda: phases(plane) == {"Running": 4, "Pending": 1}, "four pods run again")
        are_placed(one)

        gated = [pod for pod in plane.objects("pods") if pod["spec"].get("schedulingGates")]
        assert [gate["name"] for pod in gated for gate in pod["spec"]["schedulingGates"]] == [
            PRE_PLACE_GATE
        ]
        seconds = clock()
        one.helm("uninstall", RELEASE, *WAIT[:1], f"--timeout={HELM_SECONDS}s")
        report(f"uninstalled after {seconds()}")
        assert not [pod for pod in plane.objects("pods") if pod["spec"].get("schedulingGates")]
        left_is_what_it_says(one)


def are_placed(one: Installed) -> None:
    """What runs has the CPUs of one NUMA node, and what waits says why."""
    until(lambda: len(one.given()) == 4, "the kubelet has given CPUs to four")
    assert sorted(node_of(cpus) for cpus in one.given().values()) == [0, 1, 2, 3]


def node_of(cpus: str) -> int:
    """The one NUMA node that all these CPUs are of."""
    [node] = {cpu // CPUS_PER_NODE for cpu in spread(cpus)}
    return node


def spread(text: str) -> list[int]:
    """The numbers of a CPU list."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def the_steady(plane) -> dict[str, tuple]:
    """Pods that nobody deletes: who they are, and whether a container of theirs started again."""
    return {
        pod["metadata"]["uid"]: tuple(c["restartCount"] for c in pod["status"]["containerStatuses"])
        for pod in plane.objects("pods", "-l", "app=five")
        if pod["metadata"]["labels"].get("is") == "steady"
    }


class Churn:
    def __init__(self) -> None:
        self.count = 0
        self.refused: list[str] = []
        self.ends = threading.Event()


@contextlib.contextmanager
def churning(one: Installed):
    """Load: a running pod is deleted again and again, and the one that waits takes its place."""
    plane, churn = one.plane, Churn()
    for pod in running_pods(plane)[:2]:
        plane.kubectl("label", "pod", pod["metadata"]["name"], "is=steady")

    def work() -> None:
        while not churn.ends.wait(3):
            with contextlib.suppress(RuntimeError):
                found = plane.objects("pods")
                churn.refused += [
                    f"{pod['metadata']['name']}: {pod['status'].get('reason')}"
                    for pod in found
                    if pod["status"]["phase"] == "Failed"
                ]
                free = [
                    pod
                    for pod in running_pods(plane)
                    if pod["metadata"]["labels"].get("is") != "steady"
                ]
                if len(free) == 2:
                    name = free[0]["metadata"]["name"]
                    plane.kubectl("delete", "pod", name, "--wait=false")
                    churn.count += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield churn
    finally:
        churn.ends.set()
        thread.join()


def running_pods(plane) -> list[dict]:
    return [
        pod
        for pod in plane.objects("pods")
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def confined(one: Installed) -> None:
    """What the kernel says of the processes of our pods."""
    found = one.worker.call("inside_confinement")
    report(f"our processes: {found}")
    assert {name for name, _ in found} == {"export", "scheduler", "redeploy"}
    for name, facts in found:
        assert facts["CapEff"] == facts["CapBnd"] == "0" * 16, name
        assert facts["NoNewPrivs"] == "1"
        assert facts["Seccomp"] == "2", "a filter"
        assert facts["root"] == "ro"
        assert facts["Uid"] == ("0" if name == "export" else "65532")


def left_is_what_it_says(one: Installed) -> None:
    found = one.plane.objects(f"{KINDS},leases,pods", "-A")
    left = {
        f"{thing['kind']}/{thing['metadata']['name']}"
        for thing in found
        if thing["metadata"]["name"].startswith("numalign")
    }
    assert left == {"Lease/numalign-scheduler", "Lease/numalign-redeploy"}
    assert one.plane.objects("noderesourcetopologies")


def test_the_nri_plugin_places_under_an_unchanged_kubelet_and_leaves_no_taint(tmp_path):
    with cluster(tmp_path, UNMANAGED) as one:
        plane = one.plane
        seconds = clock()
        socket = f"--set=nri.socket={RUNTIME}/nri.sock"
        more = ("-f", NRI_VALUES, socket)
        one.helm("install", RELEASE, CHART, "--create-namespace", IMAGE, *more, *WAIT)
        report(f"with the NRI plugin: {dict(one.components())} ready after {seconds()}")
        one.until_ready({"exporter": 1, "nri": 1, "scheduler": 2, "redeploy": 2})
        until(lambda: taints(plane) == [], "the plugin has taken its taint off")
        plane.apply(deployment("four", "default-scheduler"))
        plane.kubectl("scale", "deployment/four", "--replicas=4")
        until(lambda: phases(plane) == {"Running": 4}, "four pods run")
        pinned = one.worker.call(
            "inside_cpusets", [p["metadata"]["uid"] for p in running_pods(plane)]
        )
        report(f"cpusets: {pinned}")
        assert sorted(node_of(text) for text in pinned) == [0, 1, 2, 3]
        until(lambda: published(plane) == 4, "the exporter says what the plugin gave")
        seconds = clock()
        one.helm("uninstall", RELEASE, *WAIT[:1], f"--timeout={HELM_SECONDS}s")
        report(f"uninstalled after {seconds()}")
        assert TAINT["key"] not in taints(plane)
        left_is_what_it_says(one)
        assert phases(plane) == {"Running": 4}


def taints(plane) -> list[str]:
    (node,) = plane.objects("nodes")
    return [one["key"] for one in node["spec"].get("taints", ())]


def published(plane) -> int:
    """How many containers hold CPUs of their own, as published."""
    text = plane.kubectl("get", "noderesourcetopology", HOST_NAME, "-o", "json")
    placement = nrt.read(text.encode()).topology.placement
    return sum(bool(part.cpus) for pod in placement.pods for part in pod.containers)
