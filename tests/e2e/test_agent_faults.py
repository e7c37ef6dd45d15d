"""A real agent whose disk is full or read-only, or whose clients never read: it lives on."""

import contextlib
import os
import socket
import subprocess
import time

import pytest
from tests.apps.agent.processes import AgentProcess, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]


@contextlib.contextmanager
def on_small_disk():
    """An agent whose state directory is a filesystem of its own, of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    agent = AgentProcess()
    agent.state.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(agent.state)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        agent.clean_up()
        pytest.skip("this host does not let us mount a tmpfs")
    try:
        agent.start()
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.kill()
        subprocess.run(["umount", "-l", str(agent.state)], check=True)
        agent.clean_up()


def small(name):
    return manifest(name, command=("true",), restartPolicy="Never")


def assert_refused_and_alive(agent, name, words):
    answer = agent.apply(small(name))
    assert answer.status_code == 503, answer.text
    assert answer.json()["reason"] == "StateNotSaved"
    assert words in answer.json()["error"]
    assert agent.request("GET", "/healthz").status_code == 200
    ready = agent.request("GET", "/readyz")
    assert ready.status_code == 503
    assert any(words in problem for problem in ready.json()["problems"])
    assert name not in agent.pod_list()


def test_a_full_disk_refuses_pods_and_is_over_when_there_is_room_again():
    with on_small_disk() as agent:
        assert agent.apply(small("before")).status_code == 201
        agent.until_phase("before", "Succeeded")
        filler = os.open(agent.state / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(filler, b"x" * 4096):
                pass
        os.close(filler)
        assert_refused_and_alive(agent, "refused", "No space left on device")
        (agent.state / "filler").unlink()
        agent.until(lambda: agent.apply(small("after")).status_code in {201, 409}, "room")
        agent.until_well()


def test_a_state_directory_that_becomes_read_only_refuses_pods_and_the_agent_lives():
    with on_small_disk() as agent:
        assert agent.apply(small("before")).status_code == 201
        agent.until_phase("before", "Succeeded")
        again = ["mount", "-o", "remount,ro", str(agent.state)]
        for _ in range(50):
            # A file that somebody just has open for writing forbids it for a moment.
            found = subprocess.run(again, capture_output=True, text=True, check=False)
            if found.returncode == 0:
                break
            time.sleep(0.1)
        else:
            pytest.skip(f"the filesystem cannot be made read-only: {found.stderr}")
        assert_refused_and_alive(agent, "refused", "Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", str(agent.state)], check=True)
        agent.until(lambda: agent.apply(small("after")).status_code in {201, 409}, "to be writable")


def test_clients_that_ask_and_never_read_hold_up_nobody():
    with AgentProcess() as agent, contextlib.ExitStack() as stack:
        for number in range(30):
            assert agent.apply(small(f"p{number}")).status_code in {201, 422}
        request = b"GET /pods HTTP/1.1\r\nHost: x\r\n\r\n"
        for path in (b"/pods", b"/events"):
            for _ in range(20):
                client = stack.enter_context(socket.socket(socket.AF_UNIX))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(str(agent.state / "agent.sock"))
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    for _ in range(50):
                        client.send(request.replace(b"/pods", path))
        start = time.monotonic()
        assert agent.apply(small("through")).status_code == 201
        assert agent.request("GET", "/pods").status_code == 200
        assert time.monotonic() - start < 10
        assert agent.process.poll() is None
