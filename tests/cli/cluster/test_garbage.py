"""Commands that look at a cluster in which somebody has written garbage."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.cluster.fleet import FleetHost, HostPlan

from numalign.cli.main import main
from numalign.core.cluster.publish.placement import PlacedContainer, PlacedPod
from numalign.wire.kubernetes import nrt

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {containers: [{name: c, resources: {limits: {cpu: "3", memory: 1Gi}}}]}
"""


def plan(name):
    return FleetHost(HostPlan(name, "1s:2n:4c:1t,mem=8Gi"))


def zone(name="node-0", available="4"):
    amounts = {"name": "cpu", "capacity": "4", "allocatable": "4", "available": available}
    return [{"name": name, "type": "Node", "resources": [amounts]}]


HOSTILE = "x\x1b[2J\ny"


def with_hostile_names(topology):
    """The same, with a pod in its placement whose name would clear a terminal."""
    pods = (PlacedPod("ns", HOSTILE, containers=(PlacedContainer(HOSTILE),)),)
    return replace(topology, placement=replace(topology.placement, pods=pods))


GOOD = nrt.body(plan("good").topology())
LARGE = {"name": "large", "annotations": {nrt.PLACEMENT_ANNOTATION: "1:" + "A" * (2 << 20)}}
TOPOLOGIES = [
    GOOD,
    {"metadata": {"name": "garbage"}, "zones": 3},
    {**GOOD, "metadata": {"name": "negative"}, "zones": zone(available="-4")},
    {**GOOD, "metadata": {"name": "strange"}, "zones": zone("numa-0")},
    {**GOOD, "metadata": LARGE},
    {**GOOD, "metadata": {"name": "../../etc/passwd\n\u202e"}},
    nrt.body(with_hostile_names(plan("hostile").topology())),
]
PODS = [
    {"metadata": {"name": "a\nb", "uid": "u1"}, "spec": {"nodeName": "good", "containers": []}},
    {"metadata": {"name": "x", "uid": "u2"}, "spec": {"containers": "none"}},
]


@pytest.fixture
def kubeconfig(tmp_path):
    """The way to an API server with such objects."""
    hosts = ["good", "garbage", "negative", "strange", "large"]
    lists = {
        "/api/v1/nodes": [plan(name).node() for name in hosts],
        "/api/v1/pods": PODS,
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies": TOPOLOGIES,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            items = lists[self.path.partition("?")[0]]
            content = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(port=server.server_port))
    yield str(path)
    server.shutdown()
    thread.join()
    server.server_close()


WARNINGS = (
    "NodeResourceTopology garbage is passed over: found no NodeResourceTopology",
    "negative: zone node-0: cpu: found -4, expected 0 or more",
    "strange: zone 'numa-0' of type 'Node' is passed over",
    "large: annotation numalign.io/placement: found a placement of 2097154 characters",
    "expected the name of a host",
    "Pod x is passed over: found no v1.Pod",
)


def test_hosts_are_shown_as_far_as_they_make_sense(kubeconfig, capsys):
    assert main(["hosts", "-o", "json", "--kubeconfig", kubeconfig]) == 0
    out, err = capsys.readouterr()
    hosts = {host["name"]: host for host in json.loads(out)}
    assert hosts["good"]["isProven"]
    assert hosts["good"]["largest"]["cpu"] == 4
    assert not hosts["garbage"]["published"]
    assert not hosts["negative"]["published"]
    assert hosts["strange"]["nodes"] == []
    assert (hosts["large"]["isProven"], hosts["large"]["largest"]["cpu"]) == (False, 4)
    for words in WARNINGS:
        assert words in err
    lines = err.splitlines()
    assert all(line.startswith("warning: ") and len(line) < 500 for line in lines)
    assert "\u202e" not in err


def test_the_table_can_be_shown(kubeconfig, capsys):
    assert main(["hosts", "--kubeconfig", kubeconfig]) == 0
    assert "publishes nothing" in capsys.readouterr().out


def test_a_pod_is_fitted_to_the_hosts_that_make_sense(kubeconfig, capsys, tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    assert main(["fit", "-f", str(path), "-o", "json", "--kubeconfig", kubeconfig]) == 0
    out, err = capsys.readouterr()
    (answer,) = json.loads(out)
    fits = {host["host"]: host["fits"] for host in answer["hosts"]}
    assert fits["good"]
    assert not fits["strange"]
    assert WARNINGS[0] in err


def test_who_sits_where_is_shown_without_the_garbage(kubeconfig, capsys):
    assert main(["pods", "-A", "--kubeconfig", kubeconfig]) == 0
    out, err = capsys.readouterr()
    assert WARNINGS[1] in err
    assert "x\\x1b[2J\\ny" in out
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out


def test_a_hostile_name_is_looked_for_and_not_found(kubeconfig, capsys):
    assert main(["explain", "pod", "../x\n", "--kubeconfig", kubeconfig]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert errors == ["error: found no pod default/../x in the cluster. See 'kubectl get pods'."]
