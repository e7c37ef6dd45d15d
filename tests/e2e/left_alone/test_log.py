"""A real agent whose log nobody reads, or which has none: it goes on, and it ends when told to."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys

import pytest
from tests.apps.agent.processes import AgentProcess, found_below, manifest

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

F_SETPIPE_SZ = 1031
ROUNDS_MAX = 60  # of 20 refusals with some lines each; a thousand lines are kept


class LoggingAgent(AgentProcess):
    """One whose stdout and stderr are the given descriptors."""

    def __init__(self, *, shell="", **streams):
        super().__init__()
        self.shell = shell
        self.streams = streams

    def start(self, *, wait=True):
        command = [sys.executable, "-m", "numalign", "agent", "--listen", ""]
        command += ["--state-dir", str(self.state), "--pods", str(self.pods)]
        if self.shell:
            command = ["sh", "-c", f'exec "$@" {self.shell}', "sh", *command]
        self.process = subprocess.Popen(command, **self.streams)
        if wait:
            self.until(self.answers, "the agent to answer")


def refuse_many(agent, count=300):
    for number in range(count):
        name = f"a-{number}"
        agent.apply(manifest(name, cpu=1000))
        agent.request("DELETE", f"/pods?name={name}")


def assert_ends(agent):
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(60) == 0


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_log_that_nobody_reads_holds_nothing_up(name):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
    other = {"stdout": "stderr", "stderr": "stdout"}[name]
    streams = {name: writer, other: subprocess.DEVNULL}
    try:
        with LoggingAgent(**streams) as agent:
            os.set_blocking(writer, False)
            with contextlib.suppress(BlockingIOError):
                while os.write(writer, b"x" * 512):
                    pass
            os.set_blocking(writer, True)
            refuse_many(agent, 30)
            assert agent.request("GET", "/healthz").status_code == 200
            assert_ends(agent)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.seconds_max(900)
def test_lines_that_found_no_room_are_counted_and_told_when_there_is_room_again():
    reader, writer = os.pipe()
    fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
    try:
        with LoggingAgent(stderr=writer, stdout=subprocess.DEVNULL) as agent:
            os.close(writer)
            rounds = 0
            while not _dropped(agent):  # however long so many lines take on this machine
                rounds += 1
                assert rounds <= ROUNDS_MAX, "lines are kept without end"
                refuse_many(agent, 20)
            os.set_blocking(reader, False)
            said = bytearray()

            def has_told():
                with contextlib.suppress(BlockingIOError):
                    while part := os.read(reader, 65536):
                        said.extend(part)
                return b"event=log_lines_dropped" in said

            agent.until(has_told, "the count of lost lines")
            assert_ends(agent)
    finally:
        os.close(reader)


def _dropped(agent):
    for line in agent.request("GET", "/metrics").text.splitlines():
        if line.startswith("numalign_log_lines_dropped_total "):
            return float(line.split()[1])
    raise AssertionError("there is no such metric")


def test_a_log_whose_reader_is_gone_ends_nothing():
    reader, writer = os.pipe()
    with LoggingAgent(stdout=writer, stderr=writer) as agent:
        os.close(writer)
        os.close(reader)
        refuse_many(agent, 10)
        assert agent.request("GET", "/healthz").status_code == 200
        assert_ends(agent)


def test_an_agent_without_any_output_writes_no_log_into_its_state():
    with LoggingAgent(shell=">&- 2>&- <&-") as agent:
        refuse_many(agent, 10)
        agent.apply(manifest("a"))
        agent.until_phase("a", "Running")
        found = [path for path in found_below(agent.state, "**/*") if path.is_file()]
        assert not [path for path in found if b"event=" in path.read_bytes()]
        assert_ends(agent)
        agent.start()
        agent.until_phase("a", "Running")


def test_what_happens_is_in_the_log_on_stderr_one_line_each():
    reader, writer = os.pipe()
    with LoggingAgent(stderr=writer, stdout=subprocess.DEVNULL) as agent:
        os.close(writer)
        refuse_many(agent, 1)
        assert_ends(agent)
    said = b""
    while part := os.read(reader, 65536):
        said += part
    os.close(reader)
    [line] = [line for line in said.splitlines() if b"event=pod_rejected" in line]
    assert line.startswith(b"timestamp=")
