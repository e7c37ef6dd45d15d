"""A real agent as a process of its own, for tests."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.sockets import make_short_directory

from numalign.adapters.cgroups.tree import CgroupTree
from numalign.adapters.local import tmpfs
from numalign.adapters.local.paths import cgroup_parent

WAIT_SECONDS = 60.0  # a machine may be busy


class AgentProcess:
    """``numalign agent`` with its own directories. Everything it started is ended at the end."""

    wait_seconds = WAIT_SECONDS

    def __init__(self, *, config=None, arguments=(), descriptors=None):
        self.root = make_short_directory("na-")
        self.state = self.root / "s"
        self.pods = self.root / "pods"
        self.pods.mkdir()
        self.arguments = list(arguments)
        # What the agent may have open at most; None: as many as we.
        self.limit = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}"]
        if config is not None:
            (self.root / "config.yaml").write_text(config)
            self.arguments += ["--config", str(self.root / "config.yaml")]
        self.process = None
        self.environment = dict(os.environ)
        self.output = (self.root / "output").open("ab")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.clean_up()

    def start(self, *, wait=True):
        command = [*self.limit, sys.executable, "-m", "numalign", "agent", "--listen", ""]
        command += ["--state-dir", str(self.state), "--pods", str(self.pods), *self.arguments]
        self.process = subprocess.Popen(
            command, stdout=self.output, stderr=self.output, env=self.environment
        )
        if wait:
            self.until(self.answers, "the agent to answer")

    def kill(self):
        self.process.kill()
        self.process.wait()

    @contextmanager
    def paused(self):
        """An agent that sees nothing for the time of the block, however long that takes here."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_SECONDS)

    def tcp(self):
        """The URL on which an agent that listens on TCP does so."""
        self.until(lambda: "in a browser: " in self.said(), "the agent to say where it listens")
        return self.said().rpartition("in a browser:")[2].split()[0]

    def said(self):
        self.output.flush()
        return (self.root / "output").read_text()

    def request(self, method, path, **arguments):
        # Nothing here is of TLS, whose certificates take longer to read than an answer.
        transport = httpx.HTTPTransport(uds=str(self.state / "agent.sock"), verify=False)
        with httpx.Client(
            transport=transport, base_url="http://agent", timeout=60, trust_env=False, verify=False
        ) as client:
            return client.request(method, path, **arguments)

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the agent ended: {self.said()}")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(20)
            try:
                probe.connect(str(self.state / "agent.sock"))
                probe.sendall(b"GET /readyz HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")
                return probe.recv(100).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
            except OSError:  # a child of one that was killed may hold its socket for a moment
                return False

    def pod_list(self):
        found = self.request("GET", "/pods").json()["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def phase(self, name):
        pod = self.pod_list().get(name)
        return None if pod is None else pod["status"].get("phase")

    def until(self, condition, what):
        end = time.monotonic() + self.wait_seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(f"waited {self.wait_seconds:g} s for {what}; {self.said()[-2000:]}")

    def problems(self):
        """But for a loop that was late, which is told for a minute: a machine can be busy."""
        told = self.request("GET", "/readyz").json()["problems"]
        return [problem for problem in told if "the loop was held up" not in problem]

    def until_well(self):
        self.until(lambda: not self.problems(), "all to be well")

    def until_phase(self, name, phase):
        self.until(lambda: self.phase(name) == phase, f"{name} to be {phase}")

    def apply(self, manifest):
        return self.request("POST", "/pods", content=json.dumps(manifest))

    def records(self):
        """(uid, container) -> pid of every process that a supervisor recorded and that lives."""
        found = {}
        for path in self.run_files():
            try:
                run = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            pid = run.get("child")
            if pid and is_alive(pid) and not (path.parent / "exit.json").exists():
                found[path.parent.parent.name, path.parent.name.rpartition(".")[0]] = pid
        return found

    def run_files(self):
        """The records of all runs; what ends while we look is passed over."""
        return found_below(self.state / "runs", "*/*/run.json")

    def clean_up(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for path in self.run_files():
            try:
                run = json.loads(path.read_text())
            except (OSError, ValueError):
                continue
            if (path.parent / "exit.json").exists():
                continue
            for name in ("child", "supervisor"):
                _kill_if_ours(run.get(name), self.state)
        self.output.close()
        time.sleep(0.1)
        if os.geteuid() == 0:
            _remove_cgroups(self.state)
            for volumes in (self.state / "volumes").glob("*"):
                tmpfs.unmount_below(volumes)
        shutil.rmtree(self.root, ignore_errors=True)


def _remove_cgroups(state):
    mountinfo = Path("/proc/self/mountinfo").read_text()
    tree = CgroupTree.detect(Path("/sys/fs/cgroup"), mountinfo, cgroup_parent(state))
    for _ in range(50):
        if not tree.kill(""):
            break
        time.sleep(0.05)
    tree.remove("")


def _kill_if_ours(pid, state):
    """Ends a process only if it belongs to this agent: its supervisor names our directory."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        above = Path(f"/proc/{parent}/cmdline").read_bytes()
        if str(state).encode() in line + above:
            os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError, TypeError):
        return


def allowed_cpus(pid):
    """Where a process may run, as the kernel has it; None if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    for line in lines:
        if line.startswith("Cpus_allowed_list:"):
            return line.split()[1]
    return None


def is_alive(pid):
    """Whether a process runs: one that has ended has a number until its parent has asked for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def found_below(directory, pattern):
    """What matches below a directory whose content comes and goes while we look."""
    while True:
        try:
            return sorted(directory.glob(pattern))
        except FileNotFoundError:  # a directory was removed between its name and its content
            continue


def manifest(name, *, cpu=None, memory="32Mi", command=("sleep", "1000"), **spec):
    limits = {"memory": memory} | ({} if cpu is None else {"cpu": str(cpu)})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "c", "command": list(command), "resources": {"limits": limits}}
            ],
            **spec,
        },
    }
