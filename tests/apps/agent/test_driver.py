"""The driver lives on when the runtime refuses."""

import asyncio
import errno
import json
import os

import pytest
from tests.core.hosts import machine, settings

from numalign.adapters.local.state_files import StateDirectory
from numalign.apps.agent.driver import Agent
from numalign.apps.agent.events import RepairDue
from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.apps.agent.runtimes.decide_only import DecideOnly
from numalign.core.errors import PeerError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.machine.synthetic import synthetic_machine
from numalign.wire.pods.manifests import load_all


class Refusing(DecideOnly):
    """A runtime whose kernel says no, until it does not."""

    refuses = True

    async def repair_drift(self, pins):
        if self.refuses:
            raise PeerError("cpuset.cpus: EBUSY")
        return await super().repair_drift(pins)


def begun(files, runtime, *, memory=True):
    """An agent for a machine with one NUMA node, on an empty state."""
    configured = settings("best-effort", safe=True, memory=memory)
    info = machine(nodes=1)
    built = hosts.build(configured, info)
    setup = AgentSetup(built, node_fit.allocatable(configured, info))
    agent = Agent(setup, synthetic_machine("1s:1n:4c:2t"), files, runtime, None, lambda: 0.0)
    agent.begin(AgentState(hosts.cleaned(built, hosts.start(built))))
    return agent


def pod(uid, **limits):
    limits = {"memory": "64Mi", **limits}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    text = json.dumps({"kind": "Pod", "metadata": {"name": uid, "uid": uid}, "spec": spec})
    return load_all(text.encode(), source="test")[0]


def test_a_refusal_while_repairing_is_a_problem_and_not_the_end(tmp_path):
    runtime = Refusing(tmp_path)

    async def work():
        agent = begun(StateDirectory(tmp_path / "state"), runtime, memory=False)
        await agent.handle(RepairDue())
        await asyncio.sleep(0)
        assert agent.health() == ["cpuset.cpus: EBUSY"]
        runtime.refuses = False
        await agent.handle(RepairDue())
        await asyncio.sleep(0)
        assert agent.health() == []

    asyncio.run(work())


def test_a_save_that_fails_half_way_is_made_good_by_the_next_one(tmp_path):
    class Failing(StateDirectory):
        fails = False

        def write(self, name, data):
            if self.fails and name == "memory_manager_state":
                raise PeerError("no space")
            super().write(name, data)

    files = Failing(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, DecideOnly(tmp_path))
        loop = asyncio.create_task(agent.run())
        assert (await agent.submit(pod("a", cpu="2"))).accepted
        files.fails = True
        answer = await agent.submit(pod("b", cpu="2"))
        assert (answer.accepted, answer.reason) == (False, "StateNotSaved")
        files.fails = False
        assert (await agent.submit(pod("c", cpu="2"))).accepted
        loop.cancel()

    asyncio.run(work())
    for name in ("cpu_manager_state", "memory_manager_state"):
        assert json.loads(files.read(name))["entries"].keys() == {"a", "c"}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_a_system_that_is_out_of_something_fails_one_start_and_ends_nothing(tmp_path, number):
    class Short(DecideOnly):
        is_short = True

        def pin_helpers(self, cpus):
            self._check()

        async def start(self, request):
            self._check()
            return await super().start(request)

        def _check(self):
            if self.is_short:
                raise OSError(number, os.strerror(number))

    runtime = Short(tmp_path)
    files = StateDirectory(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, runtime, memory=False)
        loop = asyncio.create_task(agent.run())
        assert (await agent.submit(pod("a", cpu="2"))).accepted
        for _ in range(20):
            await asyncio.sleep(0)
        [status] = agent.state.pods["a"].containers.values()
        assert os.strerror(number) in status.message
        assert [os.strerror(number) in problem for problem in agent.health()] == [True]
        runtime.is_short = False
        assert (await agent.submit(pod("b", cpu="2"))).accepted
        assert agent.health() == []
        assert not loop.done()
        loop.cancel()

    asyncio.run(work())


def test_effects_are_carried_out_in_the_order_that_step_gives(tmp_path):
    done = []

    class Recording(DecideOnly):
        async def pin(self, pins):
            done.append("pin")

        async def start(self, request):
            done.append(f"start {request.uid}")
            return await super().start(request)

        async def repair_drift(self, pins):
            done.append("repair")
            return []

    files = StateDirectory(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, Recording(tmp_path))
        loop = asyncio.create_task(agent.run())
        assert (await agent.submit(pod("shared"))).accepted
        assert (await agent.submit(pod("own", cpu="2"))).accepted
        await asyncio.sleep(0)
        await agent.handle(RepairDue())
        await asyncio.sleep(0)
        loop.cancel()

    asyncio.run(work())
    assert done == ["start shared", "pin", "start own", "repair"]
