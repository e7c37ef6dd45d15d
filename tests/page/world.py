"""A large host for the page: the real agent with device plugins and pods of a believable kind."""

import json
import os
import signal
import socket
import subprocess
import sys

from tests.apps.agent.processes import AgentProcess
from tests.paths import CHECKOUT

GPU, NIC = "nvidia.com/gpu", "openshift.io/sriov_numa"
DEVICES = (
    f"{GPU}=gpu-0@0,gpu-1@1,gpu-2@4,gpu-3@5",
    f"{NIC}=vf-0@2,vf-1@2,vf-2@2,vf-3!@2,vf-4@6,vf-5@6,vf-6@6,vf-7@6",
)
RESERVED_MI = 8 * 1024
CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "container",
    "reservedSystemCPUs": "0,64,128,192",
    "kubeReserved": {"memory": f"{RESERVED_MI - 100}Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [
        {"numaNode": node, "limits": {"memory": f"{RESERVED_MI // 2}Mi"}} for node in (0, 4)
    ],
}
SMALL = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0",
}
SHAPES = """
web: {cpu: 8, memory: 16Gi}
inference: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 1}
packet-core: {cpu: 16, memory: 24Gi, openshift.io/sriov_numa: 2}
database: {cpu: 32, memory: 96Gi}
"""


def container(name="main", cpu="4", memory="8Gi", **devices):
    limits = {"cpu": cpu, "memory": memory, **devices}
    return {"name": name, "image": "none", "resources": {"limits": limits}}


def pod(name, *containers, namespace="shop", owner=None, init=(), uid=None):
    metadata = {"name": name, "namespace": namespace}
    if owner is not None:
        kind, _, owner_name = owner.partition("/")
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": owner_name}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    if uid is not None:
        metadata["uid"] = uid
    spec = {"containers": list(containers) or [container()]}
    if init:
        spec["initContainers"] = list(init)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def shared(name, **more):
    """A pod without CPUs of its own."""
    return pod(
        name, {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}, **more
    )


def busy():
    """What runs on the host, in the order of its coming."""
    found = [
        pod(
            f"db-{n}",
            container("postgres", "16", "64Gi"),
            container("exporter", "1", "1Gi"),
            owner="StatefulSet/db",
            namespace="data",
        )
        for n in range(3)
    ]
    found += [
        pod(
            f"web-6d5f-{n}",
            container("web", "6", "12Gi"),
            container("proxy", "2", "2Gi"),
            owner="ReplicaSet/web-6d5f",
        )
        for n in range(6)
    ]
    found += [
        pod(
            f"llm-{n}",
            container("vllm", "12", "48Gi", **{GPU: "1"}),
            namespace="ml",
            owner="StatefulSet/llm",
        )
        for n in range(3)
    ]
    found += [
        pod(
            f"upf-{n}",
            container("upf", "8", "8Gi", **{NIC: "2", "hugepages-1Gi": "4Gi"}),
            namespace="core-5g",
            owner="StatefulSet/upf",
        )
        for n in range(3)
    ]
    found += [pod("etl", container("spark", "20", "40Gi"), namespace="data")]
    found += [
        shared(f"log-agent-{n}", namespace="kube-system", owner="DaemonSet/log-agent")
        for n in range(2)
    ]
    found += [shared("prometheus", namespace="monitoring")]
    found += [pod("batch", container("solve", "30", "100Gi"), namespace="data")]
    found += [pod("llm-big", container("vllm", "28", "96Gi", **{GPU: "1"}), namespace="ml")]
    found += [pod("two-gpus", container("train", "16", "32Gi", **{GPU: "2"}), namespace="ml")]
    return found


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class World(AgentProcess):
    """The agent, decisions only, on a machine that this host need not be."""

    def __init__(self, *, machine="epyc-2s-nps4", config=None, devices=DEVICES, port=None, more=()):
        arguments = ["--machine", machine, "--runtime", "none", *more]
        self.port = port or free_port()
        super().__init__(
            config=json.dumps(CONFIG if config is None else config), arguments=arguments
        )
        (self.root / "shapes.yaml").write_text(SHAPES)
        self.arguments += [
            "--listen",
            f"127.0.0.1:{self.port}",
            "--shapes",
            str(self.root / "shapes.yaml"),
        ]
        self.devices, self.plugins = devices, None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def start(self, *, wait=True):
        super().start(wait=wait)
        if self.devices and self.plugins is None:
            command = [sys.executable, "-m", "tests.page.plugins", self.state / "device-plugins"]
            self.plugins = subprocess.Popen(
                [*map(str, command), *self.devices], cwd=CHECKOUT, env=dict(os.environ)
            )
        if self.devices:
            wanted = len(self.devices)
            self.until(
                lambda: (
                    len({d["resource"] for d in self.node()["devices"] if d["healthy"]}) == wanted
                ),
                "the devices",
            )

    def node(self):
        return self.request("GET", "/node").json()

    def fill(self, pods=None):
        for one in busy() if pods is None else pods:
            self.apply(one)
        return self

    def clean_up(self):
        if self.plugins is not None:
            self.plugins.kill()
            self.plugins.wait()
        super().clean_up()


def main(machine="epyc-2s-nps4", port="8499"):
    """Serves a busy host until it is told to stop, to look at it in a browser."""
    small = {
        **CONFIG,
        "memoryManagerPolicy": "None",
        "reservedMemory": [],
        "reservedSystemCPUs": "0",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "64"},
    }
    more = {} if machine == "epyc-2s-nps4" else {"config": small, "devices": ()}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with World(machine=machine, port=int(port), **more) as world:
        world.fill()
        sys.stdout.write(f"{world.url}\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
