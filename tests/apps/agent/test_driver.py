"""The driver lives on when the runtime refuses."""

import asyncio
import errno
import json
import os
import threading

import pytest
from tests.core.hosts import machine, settings

from numalign.adapters.local.state_files import StateDirectory
from numalign.apps.agent import driver
from numalign.apps.agent.driver import Agent
from numalign.apps.agent.events import ForgetPod, RepairDue
from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.apps.agent.runtimes.decide_only import DecideOnly
from numalign.apps.agent.saved import load
from numalign.core.errors import PeerError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.machine.synthetic import synthetic_machine
from numalign.wire.pods.manifests import load_all


class Refusing(DecideOnly):
    """A runtime whose kernel says no, until it does not."""

    refuses = True

    async def repair_drift(self, pins, pods):
        if self.refuses:
            raise PeerError("cpuset.cpus: EBUSY")
        return await super().repair_drift(pins, pods)


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

        async def pin_helpers(self, cpus):
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
        [name] = agent.state.pods["a"].containers
        while os.strerror(number) not in agent.state.pods["a"].containers[name].message:
            await asyncio.sleep(0.001)
        assert [os.strerror(number) in problem for problem in agent.health()] == [True]
        runtime.is_short = False
        assert (await agent.submit(pod("b", cpu="2"))).accepted
        while agent.health():
            await asyncio.sleep(0.001)
        assert not loop.done()
        loop.cancel()

    asyncio.run(work())


def test_an_end_waits_for_what_was_decided(tmp_path):
    done, may_go_on = [], asyncio.Event()

    class Slow(DecideOnly):
        async def pin_helpers(self, cpus):
            await may_go_on.wait()
            done.append("pinned")

    files = StateDirectory(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, Slow(tmp_path))
        loop = asyncio.create_task(agent.run())
        asked = asyncio.create_task(agent.submit(pod("own", cpu="2")))
        while "own" not in agent.state.pods:
            await asyncio.sleep(0.001)
        ending = asyncio.create_task(agent.finish())
        await asyncio.sleep(0.01)
        assert not ending.done()
        may_go_on.set()
        await ending
        assert done == ["pinned"]
        for task in (loop, asked):
            task.cancel()

    asyncio.run(work())


def test_effects_are_carried_out_in_the_order_that_step_gives(tmp_path):
    done = []

    class Recording(DecideOnly):
        async def pin(self, pins):
            done.append("pin")

        async def start(self, request):
            done.append(f"start {request.uid}")
            return await super().start(request)

        async def repair_drift(self, pins, pods):
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


def test_an_effect_that_nobody_foresaw_is_a_problem_and_the_next_ones_are_carried_out(tmp_path):
    class Odd(DecideOnly):
        is_odd = True

        async def pin_helpers(self, cpus):
            if self.is_odd:
                raise KeyError(cpus)

        async def start(self, request):
            if request.uid == "a":
                raise KeyError("a")
            return await super().start(request)

    runtime = Odd(tmp_path)
    files = StateDirectory(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, runtime)
        loop = asyncio.create_task(agent.run())
        await agent.handle(RepairDue())
        assert [text.partition(":")[0] for text in agent.health()] == ["PinHelpers"]
        assert (await agent.submit(pod("a", cpu="2"))).accepted
        assert (await agent.submit(pod("b", cpu="2"))).accepted
        while agent.state.pods["b"].containers["c"].pid is None:
            await asyncio.sleep(0)
        status = agent.state.pods["a"].containers["c"]
        assert status.reason == "CrashLoopBackOff"
        assert "unexpected KeyError: 'a'" in status.message
        runtime.is_odd = False
        await agent.handle(RepairDue())
        assert agent.health() == []
        loop.cancel()

    asyncio.run(work())


class Forgetful(DecideOnly):
    """A runtime that does not foresee what keeps it from removing a pod, the first time."""

    tries = 0

    async def forget_pod(self, uid):
        self.tries += 1
        if self.tries == 1:
            raise KeyError(uid)
        await super().forget_pod(uid)


def test_what_nobody_foresaw_while_a_pod_is_removed_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "RETRY_SECONDS", 0.01)
    runtime = Forgetful(tmp_path)
    files = StateDirectory(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, runtime, memory=False)
        loop = asyncio.create_task(agent.run())
        await agent._carry_out([ForgetPod("gone")])
        assert [text.partition(":")[0] for text in agent.health()] == ["forget gone"]
        async with asyncio.timeout(10):
            while runtime.tries < 2 or agent.health():
                await asyncio.sleep(0.01)
        loop.cancel()

    asyncio.run(work())


def test_of_events_decided_together_only_the_one_that_cannot_be_saved_is_refused(tmp_path):
    odd = pod("odd")
    odd.metadata.labels = {"a": "\ud800"}  # no reader lets it through, and no writer can write it
    files = StateDirectory(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, DecideOnly(tmp_path))
        asked = [asyncio.create_task(agent.submit(one)) for one in (pod("a"), odd, pod("b"))]
        await asyncio.sleep(0)
        loop = asyncio.create_task(agent.run())
        answers = await asyncio.gather(*asked)
        assert [(a.accepted, a.reason) for a in answers] == [
            (True, ""),
            (False, "InternalError"),
            (True, ""),
        ]
        assert agent.state.pods.keys() == {"a", "odd", "b"}
        assert not loop.done()
        loop.cancel()

    asyncio.run(work())
    assert load(files.read("pods.json")).keys() == {"a", "odd", "b"}


def test_nobody_sees_a_state_that_is_not_on_the_disk(tmp_path):
    writing, go_on = threading.Event(), threading.Event()

    class Slow(StateDirectory):
        def write(self, name, data):
            if b'"a"' in data:
                writing.set()
                assert go_on.wait(10)
            return super().write(name, data)

    files = Slow(tmp_path / "state")
    files.prepare()

    async def work():
        agent = begun(files, DecideOnly(tmp_path))
        loop = asyncio.create_task(agent.run())
        asked = asyncio.create_task(agent.submit(pod("a", cpu="2")))
        await asyncio.to_thread(writing.wait, 10)
        assert not agent.state.pods, "the loop is free meanwhile, and shows what is saved"
        go_on.set()
        assert (await asked).accepted
        assert "a" in agent.state.pods
        loop.cancel()

    asyncio.run(work())
