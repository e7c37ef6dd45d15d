"""Two minutes of hostile actions against a real agent, and whether the laws notice a fault."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps.agent.processes import manifest
from tests.hostile import actions, laws
from tests.hostile.__main__ import run
from tests.hostile.world import Hostile, World, saved

from numalign.adapters.local.paths import cgroup_parent

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts, cgroups and signals"),
]

SECONDS = 120


# Connections are cut at any moment on purpose, also under the driver's own client.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.seconds_max(900)
def test_two_minutes_of_hostile_actions_lose_double_and_orphan_nothing():
    seed = int(time.time())
    done = run(SECONDS, seed, lambda text: sys.stdout.write(f"seed {seed}: {text}\n"))
    assert done.total() >= 50
    missing = {action.__name__ for action in actions.ACTIONS} - set(done)
    # A slow machine does not come round to all of them.
    assert not missing or done.total() < sum(actions.ACTIONS.values()), missing


@pytest.fixture
def world():
    with Hostile() as agent:
        found = World(agent, random.Random(1))
        yield found
        found.end_plugin()


def test_every_law_notices_what_it_is_for(world):
    agent = world.agent
    command = ("sh", "-c", f": {agent.marker}; sleep 1000", agent.marker)
    answer = agent.request("POST", "/pods", json=manifest("a", cpu=1, command=command))
    assert answer.status_code == 201, answer.text
    agent.until(agent.records, "its process")
    laws.check(world)
    os.kill(agent.process.pid, signal.SIGSTOP)  # it would repair at once
    ((uid, name), pid) = next(iter(agent.records().items()))
    uids = {uid}
    try:
        Path("/sys/fs/cgroup/cpuset/cgroup.procs").write_text(str(pid))
        assert laws.misplaced(agent)
        command = ["sh", "-c", f": {agent.marker}; read x"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as orphan:
            assert laws.orphans(agent, uids)
            orphan.kill()
        group = Path("/sys/fs/cgroup/cpuset") / cgroup_parent(agent.state) / "podnobody"
        group.mkdir()
        assert laws.groups_of_nobody(agent, uids)
        group.rmdir()
        state = saved(agent, "cpu_manager_state")
        state["entries"]["other"] = {"c": state["entries"][uid][name]}
        with pytest.raises(AssertionError, match="given twice"):
            laws.cpus_belong_to_one(state)
        state["entries"] = {}
        with pytest.raises(AssertionError, match="lost"):
            laws.cpus_belong_to_one(state)
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)
