"""``numalign view`` as a real process: what it shows, where, and what it refuses."""

import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx
import pytest
from tests.paths import CHECKOUT

SCENARIO = """
apiVersion: numalign.io/v1
kind: Scenario
name: small
hosts:
  - group: edge
    count: 3
    machine: 2s:1n:32c:2t,mem=256Gi,hp1Gi=64
    devices: {intel.com/sriov_vf: 16}
    kubelet: {topologyManagerPolicy: single-numa-node, reservedSystemCPUs: "0"}
work:
  - preset: telco
    pods: 240
    load: 0.95
    hours: 72
schedulers: [totals]
seeds: 1
"""


@contextmanager
def viewed(*arguments):
    """The URL of a page, for as long as the block lasts."""
    command = [sys.executable, "-m", "numalign", "view", *arguments, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT
    )
    timer = threading.Timer(100, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
        match = re.fullmatch(r"In a browser: (http://127\.0\.0\.1:\d+)/\n", line)
        assert match, line + process.stderr.read()
        with httpx.Client(base_url=match[1], trust_env=False, timeout=30) as client:
            yield client
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("view") / "small.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_machine_is_shown_with_nothing_on_it():
    with viewed("epyc-2s-nps4") as client:
        assert "<title>numalign</title>" in client.get("/").text
        node = client.get("/node").json()
        assert (node["source"]["kind"], node["source"]["name"]) == ("machine", "epyc-2s-nps4")
        assert len(node["nodes"]) == 8
        assert any("no kubelet configuration" in note for note in node["source"]["notes"])
        assert client.get("/pods").json()["items"] == []
        asked = client.post("/admission", json={"shape": {"cpu": "4", "memory": "8Gi"}}).json()
        assert asked["items"][0]["admitted"]
        for path in ("/history", "/manifests", "/metrics", "/capture"):
            assert client.get(path).status_code == 404
        assert client.post("/pods", json={}).status_code == 405


def test_a_simulated_host_and_its_capture_are_the_same(scenario, tmp_path, numalign):
    at = ["--host", "edge-0001", "--at", "48h"]
    bundle = tmp_path / "edge.tar.gz"
    assert numalign("simulate", str(scenario), *at, "-o", str(bundle)).returncode == 0
    with viewed(str(scenario), *at) as client:
        simulated = client.get("/node").json(), client.get("/pods").json()
    with viewed(str(bundle)) as client:
        captured = client.get("/node").json(), client.get("/pods").json()
    assert simulated[0]["source"]["kind"] == captured[0]["source"]["kind"] == "simulation"
    assert simulated[0]["nodes"] == captured[0]["nodes"]
    names = [
        [pod["metadata"]["name"] for pod in found[1]["items"]] for found in (simulated, captured)
    ]
    assert names[0] == names[1] != []


def test_a_fleet_of_a_scenario_and_of_its_capture(scenario, tmp_path, numalign):
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("small: {cpu: 2, memory: 1Gi}\n")
    capture = tmp_path / "fleet.tar.gz"
    done = numalign("simulate", str(scenario), "--fleet", "--at", "36h", "-o", str(capture))
    assert done.returncode == 0
    with viewed(str(scenario), "--at", "36h", "--shapes", str(shapes)) as client:
        simulated = client.get("/fleet").json()
        node = client.get("/hosts/edge-0001/node").json()
    with viewed("--from", str(capture), "--shapes", str(shapes)) as client:
        captured = client.get("/fleet").json()
    assert simulated["hosts"] == captured["hosts"]
    assert simulated["shapes"] == captured["shapes"]
    assert [simulated["source"]["kind"], captured["source"]["kind"]] == ["simulation", "capture"]
    assert captured["source"]["at"] > 0
    tile = next(host for host in simulated["hosts"] if host["name"] == "edge-0001")
    free = sum(own["cpus"][0] for own in tile["nodes"])
    assert free == sum(len(_cpus(own["cpus"]["free"])) for own in node["nodes"])


def _cpus(text):
    found = []
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["x.tar.gz", "--cluster"], "expected one of them"),
        (["--cluster", "--from", "f"], "expected one of them"),
        (["--host", "a"], "expected a scenario"),
        (["--from", "/nonexistent.tar.gz"], "/nonexistent.tar.gz"),
        (["/nonexistent.tar.gz"], "nonexistent"),
        (["epyc-2s-nps4", "--listen", ""], "expected an address"),
        (["epyc-2s-nps4", "--listen", "0.0.0.0:0"], "expected a loopback one"),
        (["epyc-2s-nps4", "--shapes", "/nonexistent"], "cannot be read"),
    ],
)
def test_what_cannot_be_shown_is_said_clearly(numalign, arguments, text):
    done = numalign("view", *arguments)
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_host_that_the_scenario_has_not(numalign, scenario):
    done = numalign("view", str(scenario), "--host", "nobody")
    assert done.returncode != 0
    assert "found no host 'nobody'" in done.stderr
