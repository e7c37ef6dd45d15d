"""Parsers of fleets, of NRI and of the API server's smaller objects, as (name, seeds, parser)."""

from __future__ import annotations

import msgspec
from tests.core.hosts import machine as small_machine
from tests.core.hosts import settings
from tests.fuzz import seeds
from tests.paths import CHECKOUT
from tests.wire.nri import test_garbage as nri_frames

from numalign.apps.nri import saved
from numalign.core.errors import NumalignError
from numalign.core.kubelet import host as hosts
from numalign.core.values import mempolicy
from numalign.wire.fleet import capture, shapes
from numalign.wire.fleet.scenario import reading as scenario
from numalign.wire.fleet.traces import dlrm, openb, recorded
from numalign.wire.http_answer import AnswerReader
from numalign.wire.kubernetes import budgets, room
from numalign.wire.nri import host_file, messages, mux, pod_facts, ttrpc

RECORDED = b"""name,at,seconds,owner,cpu,memory,hugepages-1Gi,nvidia.com/gpu
web-1,0,3600,web,4,8Gi,,1
db-1,1.5,,db,16,64Gi,2Gi,
"""
DLRM = b"""instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,\
max_instance_per_node,creation_time,deletion_time
i1,HN,a,12,1,25,120.5,-1,,86400
i2,CN,a,64,0,1,240,2,3600.5,
"""
HOSTS = b"sn,cpu_milli,memory_mib,gpu,model\nb,96000,393216,8,G2\na,32000,262144,0,\n"
OPENB = b"""name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
deletion_time,scheduled_time
p1,12000,16384,1,1000,,LS,Running,0,12537496,0
p2,6000,12288,1,460,V100M16|V100M32,LS,Running,427061,12902960,427061
"""
SHAPES = b"small: {cpu: 4, memory: 8Gi, weight: 3}\nlarge: {cpu: 16, nvidia.com/gpu: 1}\n"
HOST_FILE = seeds.dumped(
    {**msgspec.json.decode(seeds.KUBELET), "numalign": {"annotationNamespaces": ["a", "b-*"]}}
)
BUDGET = seeds.dumped(
    {
        "metadata": {"name": "b", "namespace": "n", "generation": 2},
        "spec": {
            "minAvailable": "50%",
            "selector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["d"]}],
            },
        },
        "status": {"observedGeneration": 2, "disruptionsAllowed": 1},
    }
)
GROUP = seeds.dumped(
    {
        "metadata": {"name": "g", "namespace": "n"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
)
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nnothing",
]
FLEET = {
    capture.ABOUT: '{"version":1}',
    capture.HOSTS: f"[{seeds.NODE.decode()}]",
    capture.TOPOLOGIES: f"[{seeds.NRT.decode()}]",
    capture.PODS: f"[{seeds.POD.decode()}]",
}


def _reduced(data: bytes) -> None:
    """The members of a capture, and objects of which one is made."""
    try:
        files = msgspec.json.decode(data, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return  # only a set of members is of interest here
    capture.capture_of({name: text.encode() for name, text in files.items()}, "fuzz")


def _state_of_nri(data: bytes) -> None:
    """Under a checksum that is right."""
    checksum = saved._checksum(1, data).encode()
    built = hosts.build(settings("single-numa-node", safe=True), small_machine(nodes=2))
    saved.load([b'{"version":2,"number":1,"checksum":"%s","body":%s}' % (checksum, data)], built)


def _nri_frames() -> list[bytes]:
    found = []
    for payload in nri_frames.sample_payloads():
        request = ttrpc.encode_request(ttrpc.Request(1, "s", "m", payload))
        found.append(mux.frames(mux.PLUGIN, request))
    return found


def _nri_payloads(data: bytes) -> None:
    for decode in (*nri_frames.DECODERS, messages.failed_updates_of):
        try:
            decode(data)
        except NumalignError:
            continue


def _answer(data: bytes) -> None:
    """In two pieces, as it may come."""
    reader = AnswerReader()
    half = len(data) // 2
    for part in (data[:half], data[half:]):
        reader.feed(part)
    reader.end()


def _text(parse):
    return lambda data: parse(data.decode(errors="replace"))


def _csv(parse):
    return lambda data: parse("fuzz", data.decode(errors="replace"))


def parsers():
    scenarios = [path.read_bytes() for path in sorted((CHECKOUT / "examples/scenarios").iterdir())]
    body = b'{"pods":{"u":{"name":"n/p","cpus":{"a":"1-2"},"memory":{"a":[[[0],"memory",1024]]}}}}'
    shape = b"cpu=16,memory=64Gi,nvidia.com/gpu=1"
    declared = b"init/a:cpu=1,memory=1Gi;app/b:cpu=2,memory=2Gi,example.com/gpu=1;sidecar/c:"
    policies = [b"local", b"preferred=1", b"bind=0-1", b"interleave", b"weighted-interleave=0,2"]
    values = (NumalignError, ValueError)
    return [
        ("scenario", scenarios, lambda data: scenario.read(data, "fuzz")),
        ("recorded pods", [RECORDED], _csv(recorded.pods)),
        ("DLRM trace", [DLRM], _csv(dlrm.pods)),
        ("openb hosts", [HOSTS], _csv(openb.host_shapes)),
        ("openb pods", [OPENB], _csv(openb.shared_pods)),
        ("openb pods on NUMA hosts", [OPENB], _csv(openb.numa_pods)),
        ("fleet capture", [seeds.dumped(FLEET)], _reduced),
        ("shape", [shape], _text(shapes.shape_of)),
        ("shapes", [SHAPES], lambda data: shapes.reference_mix(data, "fuzz")),
        ("NRI frames", _nri_frames(), nri_frames.taken_in),
        ("NRI messages", nri_frames.sample_payloads(), _nri_payloads),
        ("NRI host file", [HOST_FILE, seeds.KUBELET], host_file.load),
        ("NRI declared pod", [declared], _text(pod_facts.declared)),
        ("NRI state", [body], _state_of_nri),
        ("budget of a planner", [BUDGET], budgets.budget_from_json),
        ("budget of a scheduler", [BUDGET], room.budget_from_json),
        ("pod group", [GROUP], room.group_from_json),
        ("HTTP answer", ANSWERS, _answer),
        ("memory policy", policies, _text(mempolicy.parsed), values),
    ]
