"""A real agent whose descriptors, connections and streams others take: it lives on."""

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

STRANGER = 65534
TCP = ("--listen", "127.0.0.1:0")

# Connects so many times, asks for the path if there is one, and holds what it has until its end.
CROWD = """
import resource, select, socket, sys
host, port, count, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
held = []
for _ in range(count):
    one = socket.create_connection((host, port), timeout=60)
    if path:
        one.sendall(f"GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".encode() * 5)
    held.append(one)
print("held", flush=True)
if path == "/decisions":
    while True:
        ready, _, _ = select.select(held, [], [])
        for one in ready:
            if not one.recv(65536):
                held.remove(one)
sys.stdin.read()
"""


@contextlib.contextmanager
def crowd(agent, count, path=""):
    """Another user's connections, as long as the block lasts."""
    where = urlsplit(agent.tcp())
    who = {"user": STRANGER, "group": STRANGER, "extra_groups": []} if os.geteuid() == 0 else {}
    command = ["prlimit", "--nofile=4096", "python3", "-c"]
    with subprocess.Popen(
        [*command, CROWD, where.hostname, str(where.port), str(count), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        **who,
    ) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield
        finally:
            process.kill()


def seconds_of(agent, path="/healthz"):
    """How long the unix socket takes to answer."""
    start = time.monotonic()
    assert agent.request("GET", path).status_code == 200
    return time.monotonic() - start


def descriptors_of(agent):
    return len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))


def tcp_status(agent, path="/healthz"):
    where = urlsplit(agent.tcp())
    with socket.create_connection((where.hostname, where.port), timeout=60) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return one.recv(64).split()[1]


def test_1200_idle_connections_of_a_stranger_take_neither_agent_nor_descriptors():
    with AgentProcess(arguments=TCP, descriptors=1024) as agent:
        with crowd(agent, 1200):
            assert descriptors_of(agent) < 250
            assert seconds_of(agent) < 5
            assert agent.apply(manifest("through")).status_code == 201
            agent.until_phase("through", "Running")
            assert tcp_status(agent) == b"200", "an idle connection makes place for a new one"
            assert agent.problems() == []
        assert agent.process.poll() is None


def test_40_pods_run_with_48_descriptors_and_readyz_says_what_is_short():
    with AgentProcess(arguments=TCP, descriptors=48) as agent:
        names = [f"p{number}" for number in range(40)]
        for name in names:
            assert agent.apply(manifest(name, memory="8Mi")).status_code == 201
        for name in names:
            agent.until_phase(name, "Running")
        assert agent.request("GET", "/readyz").status_code == 503
        [problem] = agent.problems()
        assert "of 48 descriptors are free" in problem
        assert "LimitNOFILE" in problem
        # The end of one that is looked after without a descriptor is seen too.
        run = agent.pod_list()["p39"]["numalign"]["containers"]["c"]
        os.kill(run["pid"], 9)
        agent.until(lambda: restarts(agent, "p39") > 0, "the container to be started again")
        assert agent.stop() == 0
        agent.start()
        agent.until(lambda: len(agent.records()) == 40, "all to go on")
        for name in names:
            answer = agent.request("DELETE", f"/pods?name={name}")
            assert answer.status_code in {200, 202}, answer.text
        agent.until(lambda: not agent.pod_list(), "all to end")
        agent.until_well()


def restarts(agent, name):
    [status] = agent.pod_list()[name]["status"]["containerStatuses"]
    return status["restartCount"]


def test_48_descriptors_outlast_1200_idle_connections():
    with AgentProcess(arguments=TCP, descriptors=48) as agent:
        with crowd(agent, 1200):
            assert seconds_of(agent) < 5
            assert agent.apply(manifest("through")).status_code == 201
            agent.until_phase("through", "Running")
        agent.until_well()


def test_streams_of_strangers_leave_those_of_the_owner_alone():
    with AgentProcess(arguments=TCP) as agent, crowd(agent, 100, "/events"):
        agent.until(lambda: tcp_status(agent, "/events") == b"503", "all streams to be taken")
        with socket.socket(socket.AF_UNIX) as own:
            own.settimeout(10)
            own.connect(str(agent.state / "agent.sock"))
            own.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
            assert own.recv(64).split()[1] == b"200"
        assert seconds_of(agent) < 2


def test_a_hundred_readers_of_decisions_do_not_hold_up_the_owner():
    arguments = (*TCP, "--runtime", "none", "--machine", "epyc-2s-nps4")
    with AgentProcess(arguments=arguments) as agent:
        for number in range(200):
            agent.apply(manifest(f"p{number}", cpu=500))  # refused, with an explanation
        agent.until(lambda: agent.said().count("refusal_explained") >= 200, "all explanations")
        alone = seconds_of(agent)
        with crowd(agent, 100, "/decisions"):
            slowest = max(seconds_of(agent, path) for path in ("/healthz", "/pods") * 5)
        assert slowest < 2, f"alone it took {alone:.3f} s"
