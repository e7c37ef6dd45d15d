"""An unprivileged user of the same host against a real agent of root: uid 65534 gets nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, manifest
from tests.paths import CHECKOUT
from tests.sockets import make_short_directory

from numalign.adapters.local.paths import trial_directory
from numalign.adapters.local.private import check_private

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else"),
]

STRANGER = 65534


def as_stranger(command):
    """Runs a command as a user without rights."""
    ids = {"user": STRANGER, "group": STRANGER, "extra_groups": []}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **ids)


@pytest.mark.parametrize("command", ["agent", "up"])
def test_a_state_directory_that_a_stranger_made_first_is_not_used(command):
    root = make_short_directory("nu-")
    root.chmod(0o1777)
    state = root / "state"
    plant = f"mkdir -m 700 {state} && umask 077 && echo known-to-me > {state}/api-token"
    as_stranger(["sh", "-c", plant])
    numalign = [sys.executable, "-m", "numalign", command, "--state-dir", str(state)]
    found = subprocess.run(
        [*numalign, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    subprocess.run(["rm", "-r", str(root)], check=True)
    assert found.returncode == 2, found.stderr
    assert "uid 65534" in found.stderr
    assert found.stderr.count("\n") == 1, "one clear line"


def test_up_and_make_run_never_live_in_a_place_that_others_can_make_first():
    assert trial_directory() == Path("/var/lib/numalign/up")
    check_private(trial_directory().parents[1])
    made = subprocess.run(
        ["make", "-n", "run"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert '--state-dir ".run"' in made.stdout


def test_a_planted_socket_hears_nothing_from_a_client():
    with AgentProcess() as agent:
        os.chown(agent.state / "agent.sock", STRANGER, STRANGER)
        command = [sys.executable, "-m", "numalign", "get", "pods"]
        found = subprocess.run(
            [*command, "--socket", str(agent.state / "agent.sock")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (found.returncode, found.stdout) == (2, "")
        assert "uid 65534" in found.stderr


# Everything that a user without rights can try; prints what succeeded and what it read.
TRIES = r"""
import encodings.idna, gzip, http.client, json, os, signal, socket, sys
# The interpreter may be where nobody else can read, so all is loaded before.
os.setgroups([]); os.setgid(65534); os.setuid(65534)
state, pods, port, uid, pids = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]
done, seen = [], []

def attempt(name, work):
    try:
        done.append((name, str(work())))
    except OSError:
        pass

def connected(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)

def asked(method, path, body=None, **headers):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request(method, path, body, headers)
    answer = client.getresponse()
    data = answer.read()
    seen.append((gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("latin-1"))
    return answer.status

for name in ("api-token", "pods.json", "cpu_manager_state", "agent.lock"):
    attempt("read " + name, lambda: open(f"{state}/{name}").read())
    attempt("write " + name, lambda: open(f"{state}/{name}", "a").close())
attempt("list", lambda: os.listdir(state))
attempt("plant a state file", lambda: open(f"{state}/x", "w").close())
attempt("plant a manifest", lambda: open(f"{pods}/x.json", "w").close())
for name in ("agent.sock", "pod-resources/kubelet.sock", "device-plugins/kubelet.sock"):
    attempt("connect to " + name, lambda: connected(f"{state}/{name}"))
for pid in pids:
    attempt("environ", lambda: open(f"/proc/{pid}/environ", "rb").read())
    attempt("memory", lambda: open(f"/proc/{pid}/mem", "rb").close())
    attempt("files", lambda: os.listdir(f"/proc/{pid}/fd"))
    for number in (signal.SIGKILL, signal.SIGSTOP):
        attempt("signal", lambda: os.kill(int(pid), number))
    attempt("move", lambda: os.sched_setaffinity(int(pid), {0}))
spec = {"containers": [{"name": "c"}]}
pod = json.dumps({"kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
changes = [("POST", "/pods", pod), ("POST", "/runs", pod), ("DELETE", "/pods?name=a", None)]
changes += [("DELETE", "/pods/" + uid, None), ("GET", f"/pods/{uid}/log?container=c", None)]
for method, path, body in changes:
    for more in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer "}):
        status = asked(method, path, body, **more)
        if status not in (401, 403):
            done.append((f"{method} {path} {more}", str(status)))
reads = "/pods /node /decisions /manifests /capture /metrics /readyz /".split()
for path in [*reads, "/pods/" + uid]:
    if (status := asked("GET", path)) != 200:
        done.append(("no answer to " + path, str(status)))
print(json.dumps([done, "".join(seen)]))
"""


def test_a_stranger_can_neither_write_nor_read_secrets_nor_end_anything():
    secret = "hunter2-of-root"
    with AgentProcess(arguments=["--listen", "127.0.0.1:0"]) as agent:
        agent.root.chmod(0o755)  # only the agent's own rights protect what is below
        pod = manifest("a")
        pod["metadata"]["annotations"] = {
            "kubectl.kubernetes.io/last-applied-configuration": f'{{"env":"{secret}"}}'
        }
        pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": secret}]
        assert agent.apply(pod).status_code == 201
        agent.until_phase("a", "Running")
        [((uid, _), child)] = agent.records().items()
        [run] = [json.loads(path.read_text()) for path in agent.run_files()]
        port = agent.tcp().rpartition(":")[2]
        pids = [agent.process.pid, child, run["supervisor"]]
        words = [str(agent.state), str(agent.pods), port, uid, *map(str, pids)]
        command = [sys.executable, "-c", TRIES, *words]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
        done, seen = json.loads(found.stdout)
        assert done == []
        assert secret not in seen
        assert (agent.state / "api-token").read_text().strip() not in seen
        assert agent.process.poll() is None
        assert agent.records() == {(uid, "c"): child}
        assert agent.problems() == []
        assert set(agent.pod_list()) == {"a"}
