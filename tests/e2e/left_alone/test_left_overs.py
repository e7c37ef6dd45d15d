"""What ended attempts, orphans and killed supervisors of a real agent leave behind: nothing."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, found_below, is_alive, manifest

from numalign.adapters.local.paths import cgroup_parent

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

NOBODY = 65534
# The interpreter may lie in somebody's home; nothing else is allowed by reading there.
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
QUICK = "apiVersion: numalign.io/v1\nkind: AgentConfiguration\nbackoffSeconds: 0.01\n"


def groups(agent):
    """The cgroups of the agent's pods, in all hierarchies."""
    found = found_below(Path("/sys/fs/cgroup"), f"*/{cgroup_parent(agent.state)}/**/pod*")
    return [path for path in found if path.is_dir()]


def restarts(agent, name):
    statuses = agent.pod_list()[name]["status"].get("containerStatuses") or [{}]
    return statuses[0].get("restartCount", 0)


def test_a_container_that_fails_again_and_again_leaves_one_run_directory():
    with AgentProcess(config=QUICK) as agent:
        agent.apply(manifest("a", command=("false",)))
        agent.until(lambda: restarts(agent, "a") >= 5, "some restarts")
        assert len(found_below(agent.state / "runs", "*/*")) <= 2


@pytest.mark.skipif(os.geteuid() != 0, reason="cgroups need root")
def test_a_pod_that_has_ended_has_no_cgroups():
    with AgentProcess() as agent:
        agent.apply(manifest("a", command=("true",), restartPolicy="Never"))
        agent.until_phase("a", "Succeeded")
        agent.until(lambda: not groups(agent), "its groups to be gone")
        assert agent.stop() == 0
        parent = cgroup_parent(agent.state)
        assert not list(Path("/sys/fs/cgroup").glob(f"*/{parent}"))
        agent.start()
        agent.until_phase("a", "Succeeded")
        assert not groups(agent)


def test_after_a_reset_nothing_is_left_of_the_pods_from_before():
    with AgentProcess() as agent:
        agent.apply(manifest("ended", command=("echo", "hello"), restartPolicy="Never"))
        agent.apply(manifest("running", command=("sh", "-c", "echo hello; sleep 1000")))
        agent.until_phase("ended", "Succeeded")
        agent.until_phase("running", "Running")
        agent.stop()
        reset = [sys.executable, "-m", "numalign", "state", "reset"]
        subprocess.run([*reset, "--state-dir", agent.state], check=True, capture_output=True)
        assert list((agent.state / "runs").iterdir()) and list((agent.state / "logs").iterdir())
        agent.start()
        agent.until(lambda: not list((agent.state / "runs").iterdir()), "the records to be gone")
        agent.until(lambda: not list((agent.state / "logs").iterdir()), "the logs to be gone")
        assert not groups(agent) and not agent.records()


class AgentOfNobody(AgentProcess):
    """The same without root: no cgroups."""

    def start(self, *, wait=True):
        self.root.chmod(0o755)
        self.pods.chmod(0o755)
        self.state.mkdir(mode=0o700, exist_ok=True)
        shutil.chown(self.state, NOBODY, NOBODY)
        command = [*AS_NOBODY, sys.executable, "-m", "numalign", "agent", "--listen", ""]
        command += ["--state-dir", str(self.state), "--pods", str(self.pods), *self.arguments]
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output, cwd="/")
        if wait:
            self.until(self.answers, "the agent to answer")


@pytest.fixture
def unprivileged():
    if os.geteuid() != 0:
        pytest.skip("becoming somebody else needs root")
    if subprocess.run([*AS_NOBODY, sys.executable, "-c", ""], check=False).returncode:
        pytest.skip("nobody cannot run the interpreter here")
    with AgentOfNobody() as found:
        yield found


def daemon(tmp_path):
    """A command whose child has a session of its own and writes its number to a file."""
    tmp_path.chmod(0o777)
    number = tmp_path / "number"
    return number, ("sh", "-c", f"setsid sh -c 'echo $$$$ > {number}; exec sleep 1000' & wait")


@pytest.mark.parametrize("is_away", [False, True], ids=["while it runs", "while it is away"])
def test_without_root_the_daemons_of_a_container_end_with_its_killed_supervisor(
    unprivileged, is_away
):
    agent = unprivileged
    place = Path("/tmp") / f"na-daemon-{os.getpid()}"
    place.mkdir()
    number, command = daemon(place)
    try:
        file = agent.pods / ".a.json"
        file.write_text(json.dumps(manifest("a", command=command, restartPolicy="Never")))
        shutil.chown(file, NOBODY, NOBODY)  # what root asks for, nobody could not run
        file.rename(agent.pods / "a.json")
        agent.until(lambda: number.exists() and number.read_text().strip(), "the daemon")
        pid = int(number.read_text())
        [path] = (agent.state / "runs").glob("*/*/run.json")
        supervisor = json.loads(path.read_text())["supervisor"]
        if is_away:
            agent.kill()
        os.kill(supervisor, signal.SIGKILL)
        if is_away:
            agent.start()
        agent.until(lambda: not is_alive(pid), "the daemon to be ended")
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(number.read_text()), signal.SIGKILL)
        shutil.rmtree(place)
