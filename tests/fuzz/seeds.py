"""Good inputs of every kind, small: what the mutations start from."""

import gzip
import json
import zlib
from base64 import b64decode
from pathlib import Path

from tests.paths import VECTORS
from tests.web.in_memory_agent import InMemoryAgent
from tests.wire.kubernetes import test_placement

from numalign.apps.agent import saved
from numalign.apps.agent.views.captured import captured
from numalign.core.machine.synthetic import synthetic_machine
from numalign.wire.bundle import packed
from numalign.wire.grpc._generated import cri_v1_pb2 as cri_pb
from numalign.wire.grpc._generated import deviceplugin_v1beta1_pb2 as plugin_pb
from numalign.wire.grpc._generated import podresources_v1_pb2 as resources_pb
from numalign.wire.grpc._generated.pluginregistration_v1_pb2 import PluginInfo
from numalign.wire.kubernetes import placement as placement_wire
from numalign.wire.machine import machine_yaml


def dumped(value):
    return json.dumps(value).encode()


_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web"},
        "annotations": {"numalign.io/avoided-hosts": "w1,w2"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "w1",
        "priority": 5,
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 3,
        "overhead": {"cpu": "10m"},
        "resources": {"limits": {"cpu": "4"}},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                    ]
                }
            }
        },
        "initContainers": [{"name": "init", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "app",
                "image": "a:b",
                "command": ["sh", "-c", "$(A) $$"],
                "args": ["$(B)"],
                "workingDir": "/",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(A)"}],
                "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                "resources": {
                    "requests": {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"},
                    "limits": {"cpu": 2, "memory": "1Gi", "example.com/gpu": "1"},
                },
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
                "securityContext": {"runAsUser": 1, "capabilities": {"drop": ["ALL"]}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
        "securityContext": {"fsGroup": 7, "seccompProfile": {"type": "RuntimeDefault"}},
    },
    "status": {"phase": "Failed", "reason": "x", "qosClass": "Guaranteed", "startTime": None},
}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}

POD = dumped(_POD)
GATED = dumped(
    {**_POD, "spec": {**_POD["spec"], "schedulingGates": [{"name": "numalign.io/topology"}]}}
)
DEPLOYMENT = dumped(
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "template": _TEMPLATE},
    }
)
POD_LIST = dumped(
    {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": [_POD]}
)
WATCH_LINE = dumped({"type": "MODIFIED", "object": _POD})
STATUS = dumped({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 1}})
NODE = dumped(
    {
        "metadata": {"name": "w1", "labels": {"a": "b"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": 110},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
)
FILTER = dumped({"Pod": _POD, "NodeNames": ["w1"], "Nodes": {"items": [json.loads(NODE)]}})
BIND = dumped({"PodName": "a", "PodNamespace": "b", "PodUID": "c", "Node": "w1"})
PREEMPT = dumped(
    {"Pod": _POD, "NodeNameToVictims": {"w1": {"Pods": [_POD], "NumPDBViolations": 1}}}
)
NRT = dumped(
    {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "w1", "annotations": {}},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [
            {
                "name": "node-0",
                "type": "Node",
                "costs": [{"name": "node-0", "value": 10}],
                "resources": [
                    {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "3500m"}
                ],
            }
        ],
    }
)
KUBELET = dumped(
    {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "cpuManagerReconcilePeriod": "5s",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "8"},
        "reservedSystemCPUs": "0-1",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1100Mi"}}],
        "systemReserved": {"memory": "1000Mi"},
        "kubeReserved": {"cpu": "0"},
        "evictionHard": {"memory.available": "100Mi"},
        "featureGates": {"PodLevelResources": True},
        "maxPods": 110,
        "cpuCFSQuotaPeriod": "100ms",
    }
)
AGENT = dumped(
    {
        "apiVersion": "numalign.io/v1",
        "kind": "AgentConfiguration",
        "backoffSeconds": 0.2,
        "fidelity": "safe",
        "kubeletConfig": "kubelet.yaml",
        "devices": [{"resource": "example.com/gpu", "ids": ["g0"], "pci": "10de:*"}],
    }
)
FLAGS = (
    b"kubelet --cpu-manager-policy=static --reserved-memory 0:memory=1Gi;1:memory=1Gi "
    b"--kube-reserved cpu=1,memory=1Gi --feature-gates=A=true,B=false --max-pods 100"
)
REFUSALS = dumped(
    {
        "version": 1,
        "refusals": [
            {
                "uid": "u",
                "at": 1.5,
                "namespace": "ns",
                "name": "a",
                "reason": "r",
                "message": "m",
                "why": "w",
                "explanation": {"hints": []},
            }
        ],
    }
)
RECORD = dumped({"pod_uid": "u", "container": "c", "attempt": 0, "qos": "Guaranteed", "mems": "0"})
RUN = dumped(
    {"supervisor": 7, "supervisor_start": 1, "child": 8, "child_start": 2, "started_ns": 3}
)


def _files(name, count=20):
    with gzip.open(VECTORS / "unit" / name, "rt") as lines:
        found = [json.loads(line)["file"] for _, line in zip(range(count), lines, strict=False)]
    return [text.encode() for text in found]


DEVICES = _files("checkpoint_device.jsonl.gz", 1)[0]


def checkpoints(name):
    kind = name.partition("_")[0]
    return _files(f"checkpoint_{kind}.jsonl.gz")


def pods_list():
    """The list in pods.json, without what surrounds it."""
    pod = {"uid": "u", "record": _POD, "source": "api", "created_at": 1.5, "phase": "Running"}
    status = {"state": "running", "pid": 7, "started_at": 1.0, "restarts": 2}
    return dumped([{**pod, "containers": {"init": status, "app": status}}])


def pods_file():
    body = pods_list()
    checksum = saved.checksum(body).encode()
    return b'{"version":1,"checksum":"%s","pods":%s}' % (checksum, body)


def placement():
    """The content of an annotation, before it is packed."""
    text = placement_wire.encode(test_placement.placement(test_placement.POD))
    return zlib.decompress(b64decode(text.partition(":")[2]))


def machine_texts():
    machine = synthetic_machine("2s:1n:4c:2t,mem=4Gi,hp2Mi=16,gpu=1")
    return [
        machine_yaml.dump(machine).encode(),
        machine_yaml.to_json(machine).encode(),
        HWLOC,
        CADVISOR,
    ]


HWLOC = b"""<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" os_index="0" cpuset="0xf" nodeset="0x1" gp_index="1">
<object type="Package" os_index="0" cpuset="0xf" nodeset="0x1" gp_index="2">
<object type="NUMANode" os_index="0" cpuset="0xf" nodeset="0x1" gp_index="3"
 local_memory="8589934592"><page_type size="4096" count="2097152"/></object>
<object type="L3Cache" cpuset="0xf" nodeset="0x1" gp_index="4" cache_size="8388608" depth="3"
 cache_linesize="64" cache_type="0">
<object type="Core" os_index="0" cpuset="0x3" nodeset="0x1" gp_index="5">
<object type="PU" os_index="0" cpuset="0x1" nodeset="0x1" gp_index="6"/>
<object type="PU" os_index="1" cpuset="0x2" nodeset="0x1" gp_index="7"/></object>
<object type="Core" os_index="1" cpuset="0xc" nodeset="0x1" gp_index="8">
<object type="PU" os_index="2" cpuset="0x4" nodeset="0x1" gp_index="9"/>
<object type="PU" os_index="3" cpuset="0x8" nodeset="0x1" gp_index="10"/></object>
</object></object></object>
<distances2 type="NUMANode" nbobjs="1" kind="5" indexing="os"><indexes length="2">0 </indexes>
<u64values length="3">10 </u64values></distances2></topology>"""
CADVISOR = dumped(
    {
        "num_cores": 4,
        "num_sockets": 1,
        "memory_capacity": 8589934592,
        "topology": [
            {
                "node_id": 0,
                "memory": 8589934592,
                "hugepages": [{"page_size": 2048, "num_pages": 3}],
                "distances": [10],
                "cores": [
                    {"core_id": 0, "thread_ids": [0, 1], "socket_id": 0},
                    {"core_id": 1, "thread_ids": [2, 3], "socket_id": 0},
                ],
            }
        ],
    }
)


def bundle():

    agent = InMemoryAgent(Path("/nowhere"))
    return packed(captured(agent.setup, agent.state, agent.machine, "2026-01-01T00:00:00Z"))


def cri():
    metadata = cri_pb.ContainerMetadata(name="c", attempt=1)
    labels = {"io.kubernetes.pod.uid": "u", "io.kubernetes.container.name": "c"}
    one = cri_pb.Container(id="1", metadata=metadata, labels=labels, state=cri_pb.CONTAINER_RUNNING)
    status = cri_pb.ContainerStatus(id="1", metadata=metadata, started_at=5, exit_code=3)
    return [
        cri_pb.VersionResponse(runtime_name="x", runtime_api_version="v1").SerializeToString(),
        cri_pb.ListContainersResponse(containers=[one]).SerializeToString(),
        cri_pb.ContainerStatusResponse(status=status, info=_INFO).SerializeToString(),
        cri_pb.StatusResponse().SerializeToString(),
    ]


_INFO = {"info": '{"pid": 7}'}


def plugin():
    device = plugin_pb.Device(ID="g0", health="Healthy")
    device.topology.nodes.add(ID=1)
    answer = plugin_pb.ContainerAllocateResponse(envs={"A": "b"}, annotations={"c": "d"})
    answer.mounts.add(container_path="/a", host_path="/b")
    pod = resources_pb.PodResources(name="a", namespace="b")
    pod.containers.add(name="c", cpu_ids=[1, 2])
    return [
        plugin_pb.ListAndWatchResponse(devices=[device]).SerializeToString(),
        plugin_pb.AllocateResponse(container_responses=[answer]).SerializeToString(),
        plugin_pb.RegisterRequest(version="v1beta1", endpoint="a").SerializeToString(),
        PluginInfo(type="DevicePlugin", name="a.b/c", endpoint="x").SerializeToString(),
        resources_pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString(),
    ]
