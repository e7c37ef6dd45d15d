"""``numalign run`` with a real agent: terminal, signals, kills and restarts."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, allowed_cpus

from numalign.adapters.local.run_client import ask
from numalign.core.errors import PeerError

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, one to reserve and one to give"
    ),
]


@pytest.fixture
def agent():
    with AgentProcess() as found:
        yield found


def line(agent, *words):
    socket = str(agent.state / "agent.sock")
    return [sys.executable, "-m", "numalign", "run", "--socket", socket, *words]


def run(agent, *words, **more):
    return subprocess.run(
        line(agent, *words), capture_output=True, text=True, timeout=60, check=False, **more
    )


@contextmanager
def going(agent, *words, **more):
    """A run in the background; killed at the end if it still runs."""
    process = subprocess.Popen(
        line(agent, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # what it left behind may still have the other end
        process.stderr.close()


def until_running(agent, name):
    agent.until_phase(name, "Running")


def until_free(agent):
    agent.until(lambda: not agent.pod_list(), "all to be given back")
    assert "entries" not in (agent.state / "cpu_manager_state").read_text()
    agent.until(lambda: not list((agent.state / "runs").glob("*/*")), "its records to be removed")


def test_the_command_has_its_cpu_and_all_else_is_the_callers(agent, tmp_path):
    script = "cat; pwd; echo $MINE; id -u; grep Cpus_allowed_list /proc/self/status; exit 7"
    found = run(
        agent,
        *("--cpus", "1", "--", "sh", "-c", script),
        input="typed\n",
        cwd=tmp_path,
        env={**os.environ, "MINE": "kept"},
    )
    assert found.returncode == 7, found.stderr
    typed, where, mine, user, cpus = found.stdout.splitlines()
    assert (typed, where, mine, user) == ("typed", str(tmp_path), "kept", str(os.getuid()))
    assert cpus.split() == ["Cpus_allowed_list:", "1"]
    until_free(agent)
    # Since 6.15 the kernel tells it to others than the parent.
    agent.until(
        lambda: re.search("container_exited .*code=(7|255)", agent.said()), "its code to be told"
    )


def test_an_affinity_of_the_caller_does_not_narrow_the_command(agent):
    shown = ["grep", "Cpus_allowed_list", "/proc/self/status"]
    command = ["taskset", "-c", "0", *line(agent, "--", *shown)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    shared = json.loads((agent.state / "cpu_manager_state").read_text())["defaultCpuSet"]
    assert found.stdout.split() == ["Cpus_allowed_list:", shared], found.stderr
    assert shared != "0"


def sleepers(parent):
    """The processes below one that are asleep by now; others on this machine may sleep too."""
    command = ["pgrep", "-x", "sleep", "-P", str(parent)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def test_it_is_seen_like_any_pod_and_a_kill_gives_all_back_with_what_it_left_behind(agent):
    script = "setsid sleep 1000 & sleep 1000"
    with going(agent, "--cpus", "1", "--name", "mine", "--", "sh", "-c", script) as process:
        until_running(agent, "mine")
        pod = agent.pod_list()["mine"]
        assert pod["numalign"]["source"] == "run"
        assert pod["numalign"]["containers"]["run"]["pid"] == process.pid
        assert 'phase="Running"' in agent.request("GET", "/metrics").text
        agent.until(lambda: len(sleepers(process.pid)) == 2, "both to sleep")
        left = int(sleepers(process.pid)[0])
        assert allowed_cpus(left) == "1"
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
        until_free(agent)
        agent.until(lambda: not Path(f"/proc/{left}/exe").exists(), "what it left to end")


def test_a_signal_reaches_the_command_and_its_death_is_ours(agent):
    with going(agent, "--name", "mine", "--", "sleep", "1000") as process:
        until_running(agent, "mine")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
        until_free(agent)


def test_the_command_has_the_terminal_and_ends_with_it(agent):
    script = (
        "import os, time; assert os.tcgetpgrp(0) == os.getpgrp(); open('/dev/tty').close(); "
        "print('mine', flush=True); time.sleep(1000)"
    )
    words = line(agent, "--cpus", "1", "--name", "mine", "--", sys.executable, "-c", script)
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        os.execv(words[0], words)
    try:
        said = b""
        while b"mine" not in said:
            said += os.read(terminal, 1000)
        until_running(agent, "mine")
        os.close(terminal)  # as when its window is closed
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGHUP
        until_free(agent)
    finally:
        agent.until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the command to end")


def test_it_goes_on_without_the_agent_and_is_taken_up_again(agent):
    with going(agent, "--cpus", "1", "--name", "mine", "--", "sleep", "1000") as process:
        until_running(agent, "mine")
        agent.kill()
        assert process.poll() is None
        agent.start()
        until_running(agent, "mine")
        assert agent.pod_list()["mine"]["numalign"]["containers"]["run"]["pid"] == process.pid
        assert allowed_cpus(process.pid) == "1"
        process.terminate()
        process.wait(10)
        until_free(agent)


def test_what_ended_while_the_agent_was_away_is_given_back(agent):
    with going(agent, "--cpus", "1", "--name", "mine", "--", "sleep", "1000") as process:
        until_running(agent, "mine")
        agent.kill()
        process.terminate()
        process.wait(10)
        agent.start()
        until_free(agent)


def test_refused_it_says_why_in_one_line_and_ends_with_1(agent):
    found = run(agent, "--cpus", "64", "--", "true")
    assert found.returncode == 1 and not found.stdout
    assert found.stderr.startswith("numalign run: refused: container run asks for 64 exclusive")
    assert found.stderr.count("\n") == 1
    until_free(agent)


def test_one_that_waits_starts_when_there_is_room_also_over_a_restart_of_the_agent(agent):
    with going(agent, "--cpus", "1", "--name", "first", "--", "sleep", "1000") as first:
        until_running(agent, "first")
        words = ["--cpus", "1", "--name", "second", "--wait", "--", "echo", "mine"]
        with going(agent, *words) as second:
            agent.until(lambda: "second" in agent.pod_list(), "the second to wait")
            said = second.stderr.readline()
            assert said.startswith("numalign run: waiting: it does not fit yet: container run asks")
            agent.kill()
            agent.start()
            assert agent.pod_list().keys() == {"first", "second"}
            first.terminate()
            out, err = second.communicate(timeout=60)
            assert (second.returncode, out) == (0, "mine\n"), err
            until_free(agent)


def test_one_that_is_interrupted_while_it_waits_leaves_the_queue(agent):
    with going(agent, "--cpus", "1", "--name", "first", "--", "sleep", "1000") as first:
        until_running(agent, "first")
        with going(agent, "--cpus", "1", "--name", "second", "--wait", "--", "true") as second:
            agent.until(lambda: "second" in agent.pod_list(), "the second to wait")
            second.send_signal(signal.SIGINT)
            assert second.wait(10) in (130, -signal.SIGINT)
            agent.until(lambda: "second" not in agent.pod_list(), "the second to be gone")
        first.terminate()
        first.wait(10)
        until_free(agent)


def test_a_dry_run_says_where_it_would_sit_and_runs_nothing(agent, tmp_path):
    mark = tmp_path / "mark"
    found = run(agent, "--cpus", "1", "--name", "mine", "--dry-run", "--", "touch", str(mark))
    assert found.returncode == 0, found.stderr
    head, row = found.stdout.splitlines()
    assert head.split() == ["POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES", "ALIGNED", "DISTANCE"]
    assert row.split()[:3] == ["default/mine", "run", "1@0"]
    assert not mark.exists() and not agent.pod_list()


def test_a_run_inside_a_run_has_its_own_place(agent):
    inner = line(agent, "--cpus", "1", "--name", "inner", "--", "sleep", "1000")
    found = run(agent, "--name", "outer", "--", *inner)
    assert found.returncode == 1
    assert "is the command of pod default/outer already" in found.stderr
    with going(agent, "--name", "outer", "--", "sh", "-c", f"{' '.join(inner)}; true"):
        until_running(agent, "outer")
        until_running(agent, "inner")
        [pid] = [p for (uid, _), p in agent.records().items() if uid == uid_of(agent, "inner")]
        deadline = time.monotonic() + 12  # the agent looks for drift every ten seconds
        while time.monotonic() < deadline and "drift_repaired" not in agent.said():
            time.sleep(0.1)
        assert allowed_cpus(pid) == "1"
        assert "drift_repaired" not in agent.said()
        os.kill(pid, signal.SIGKILL)
    until_free(agent)


def uid_of(agent, name):
    return agent.pod_list()[name]["metadata"]["uid"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--cpus", "x", "--", "true"), "error: --cpus: found 'x', expected an amount such as 4"),
        (("--device", "gpu", "--", "true"), "error: --device: found 'gpu', expected such as nv"),
        (("--policy", "best", "--", "true"), "error: --policy: found 'best', expected one of none"),
        (("--memory-policy", "near", "--", "true"), "error: --memory-policy: found 'near', expect"),
        (("--name", "A b", "--", "true"), "numalign run: refused: request: pod A b: metadata.name"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(agent, words, text):
    found = run(agent, *words)
    assert found.returncode == 2
    assert found.stderr.startswith(text) and found.stderr.count("\n") == 1


def test_a_command_that_is_not_there_is_127_and_nobody_is_asked(agent):
    found = run(agent, "--", "no-such-command")
    assert (found.returncode, "command not found" in found.stderr) == (127, True)
    assert "pod_admitted" not in agent.said()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_may_not(agent):
    pid = os.fork()
    if not pid:
        os.setgid(65534)
        os.setuid(65534)
        try:
            ask(str(agent.state / "agent.sock"), "POST", "/runs", {})
        except PeerError as error:
            os._exit(42 if "this user may not use the socket" in str(error) else 1)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
