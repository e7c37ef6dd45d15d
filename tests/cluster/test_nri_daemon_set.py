"""The plugin as the pod of its DaemonSet, under an unchanged kubelet of a real cluster.

A guest with four NUMA nodes, a kubelet without managers, containerd 2.4 with its validator, and the
manifests as they are delivered but for the image: its files are this host's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
import yaml
from tests.cluster.conftest import rights, wait_until
from tests.cluster.real_worker import real_worker
from tests.cluster.test_real_kubelet import IMAGE, is_ready, report
from tests.packaging.manifests import MANIFESTS, NAMESPACE
from tests.paths import CHECKOUT
from tests.real.built_runtimes import CONTAINERD
from tests.real.containerd import VALIDATOR
from tests.real.control_plane import control_plane
from tests.real.kept import MissingError
from tests.twin.kubelet import RUNTIME
from tests.twin.nri.run import OFF

from numalign.wire.kubernetes import crd

pytestmark = pytest.mark.e2e_numa

SECONDS_MAX = 900.0  # everything is emulated, and the machine may be busy
HOST_FILE = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0",
    "memoryManagerPolicy": "Static",
    "systemReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "200Mi"}}],
}
STATE = "/var/lib/numalign/nri"
# What an image would bring.
FILES = ["/usr", "/lib", "/lib64", "/bin", sys.base_prefix, sys.prefix, str(CHECKOUT)]


def until(is_so, what: str, seconds: float = SECONDS_MAX):
    return wait_until(is_so, seconds, what, pause=1)


def daemon_set() -> dict:
    """The DaemonSet as it is delivered, with the programs of this host in place of its image."""
    found = yaml.safe_load_all((MANIFESTS / "nri.yaml").read_text())
    daemons = next(one for one in found if one and one["kind"] == "DaemonSet")
    pod = daemons["spec"]["template"]["spec"]
    # Hosts here have no network between pods, and pods no token (the control plane is a bare one).
    pod |= {"hostNetwork": True}
    (container,) = pod["containers"]
    container["args"].remove("--taint")  # the validator does better
    container |= {"image": IMAGE, "imagePullPolicy": "Never"}
    container["command"] = [sys.executable, "-m", "numalign"]
    container["env"].append({"name": "PYTHONPATH", "value": str(CHECKOUT / "src")})
    del container["livenessProbe"]  # an emulated CPU takes long to load it
    for number, path in enumerate(dict.fromkeys(FILES)):
        name = f"image-{number}"
        pod["volumes"].append({"name": name, "hostPath": {"path": path}})
        container["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})
    for volume in pod["volumes"]:
        if volume["name"] == "nri":
            volume["hostPath"]["path"] = str(RUNTIME)
    return daemons


def deployment(name: str, replicas: int, cpus: int) -> str:
    limits = {"cpu": str(cpus), "memory": "16Mi"}
    container = {
        "name": "c",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "100000"],
        "resources": {"limits": limits},
    }
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            },
        }
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    try:
        with control_plane(tmp_path_factory.mktemp("plane")) as plane:
            plane.apply(crd.text())
            plane.kubectl("create", "namespace", NAMESPACE)
            rights(plane, "nri.yaml")
            plane.apply((MANIFESTS / "nri-admission.yaml").read_text())
            text = {"data": {"host.yaml": json.dumps(HOST_FILE)}}
            plane.kubectl(
                *("patch", "configmap", "numalign-nri", "-n", NAMESPACE, "--type=merge"),
                f"--patch={json.dumps(text)}",
            )
            options = ["--pod-resources", f"{STATE}/pod-resources.sock", "--state", STATE]
            options += ["--kubelet-config", "/run/nri-host-file.yaml"]
            with real_worker(
                plane, OFF, suite=CONTAINERD[-1], runtime=VALIDATOR, exporter=options
            ) as worker:
                worker.call("inside_write", "/run/nri-host-file.yaml", json.dumps(HOST_FILE))
                until(lambda: is_ready(plane), "the host is ready")
                yield plane, worker
    except MissingError as missing:
        pytest.skip(str(missing))


def pods(plane, name: str) -> list[dict]:
    return [p for p in plane.objects("pods") if p["metadata"]["labels"].get("app") == name]


def running(plane, name: str) -> list[dict]:
    found = pods(plane, name)
    return [p for p in found if all("running" in s["state"] for s in statuses(p)) and statuses(p)]


def statuses(pod: dict) -> list[dict]:
    return pod["status"].get("containerStatuses", [])


def waits(plane, name: str) -> list[str]:
    found = [s["state"].get("waiting", {}) for p in pods(plane, name) for s in statuses(p)]
    return [one.get("message", "") for one in found if one.get("reason") == "CreateContainerError"]


def cpuset(worker, pod: dict) -> tuple[str, str]:
    (status,) = statuses(pod)
    group = f"kubepods/pod{pod['metadata']['uid']}/{status['containerID'].rpartition('/')[2]}"
    return tuple(
        worker.guest.call("tests.real.guest_server:read", f"/sys/fs/cgroup/{group}/{name}").strip()
        for name in ("cpuset.cpus", "cpuset.mems")
    )


def test_a_deployment_waits_for_the_plugin_is_pinned_and_seen_by_everything(cluster):
    plane, worker = cluster
    # First the pods, then the plugin: nobody runs unplaced meanwhile.
    plane.apply(deployment("first", 1, 3))
    plane.apply(deployment("others", 3, 3))
    until(lambda: len(waits(plane, "others")) == 3, f"three pods wait: {worker.log('kubelet')}")
    assert all("10-numalign" in text for text in waits(plane, "others"))
    report(f"without the plugin: {waits(plane, 'others')[0]}")

    plane.apply(json.dumps(daemon_set()))
    try:
        until(lambda: len(running(plane, "others")) == 3, "the pods start by themselves")
        until(lambda: running(plane, "first"), "the first starts by itself")
    except AssertionError as error:
        raise AssertionError(f"{error}: {plugin_words(plane)}") from error
    placed = [cpuset(worker, pod) for name in ("first", "others") for pod in running(plane, name)]
    report(f"with the plugin: {sorted(placed)}")
    assert sorted(placed) == [("1-3", "0"), ("12-14", "3"), ("4-6", "1"), ("8-10", "2")]

    shows_what_is_free(plane)

    # No node has two CPUs left: it waits, and there is one pod of it, not a storm.
    plane.apply(deployment("late", 1, 2))
    until(lambda: waits(plane, "late"), "the last one is refused")
    (text,) = waits(plane, "late")
    assert "TopologyAffinityError" in text
    report(f"refused: {text}")
    time.sleep(20)
    assert len(pods(plane, "late")) == 1

    plane.kubectl("scale", "deployment/first", "--replicas=0")
    until(lambda: not pods(plane, "first"), "the first pod goes")
    began = time.monotonic()
    until(lambda: running(plane, "late"), "the refused one starts by itself")
    report(f"the refused pod ran {time.monotonic() - began:.0f} s after another one left")
    assert cpuset(worker, running(plane, "late")[0])[1] == "0"
    assert len(pods(plane, "late")) == 1
    assert [p["status"]["phase"] for p in plane.objects("pods")].count("Failed") == 0


def shows_what_is_free(plane) -> None:
    """The host under the plugin is published, and decided about, as one with managers."""

    def said(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "numalign", *words, f"--kubeconfig={plane.kubeconfig}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def is_published() -> bool:
        return "12-14" in said("pods")[1]

    until(is_published, "the placement is published")
    report(said("hosts")[1] + said("pods")[1])
    for cpus, code in ((1, 0), (2, 1)):
        place = plane.place / "asked.json"
        place.write_text(deployment("asked", 1, cpus))
        found, text = said("fit", "-f", str(place))
        assert found == code, text


def plugin_words(plane) -> str:
    found = plane.objects("pods", "-n", NAMESPACE)
    return json.dumps([pod["status"] for pod in found])[-3000:]
