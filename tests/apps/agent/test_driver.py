"""The driver lives on when the runtime refuses."""

import asyncio

from tests.core.hosts import machine, settings

from numalign.adapters.state_files import StateDirectory
from numalign.apps.agent.decide_only import DecideOnly
from numalign.apps.agent.driver import Agent
from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.core import host as hosts
from numalign.core import node_fit
from numalign.core.errors import PeerError
from numalign.core.synthetic import synthetic_machine


class Refusing(DecideOnly):
    """A runtime whose kernel says no, until it does not."""

    refuses = True

    async def mend(self, effects):
        if self.refuses:
            raise PeerError("cpuset.cpus: EBUSY")
        return await super().mend(effects)


def test_a_refusal_while_mending_is_a_problem_and_not_the_end(tmp_path):
    configured = settings("best-effort", safe=True, memory=False)
    info = machine(nodes=1)
    built = hosts.build(configured, info)
    setup = AgentSetup(built, node_fit.allocatable(configured, info))
    files = StateDirectory(tmp_path / "state")
    runtime = Refusing(tmp_path)

    async def work():
        agent = Agent(setup, synthetic_machine("1s:1n:4c:2t"), files, runtime, None, lambda: 0.0)
        agent.begin(AgentState(hosts.start(built)))
        assert await agent.repair() == []
        assert agent.health() == ["cpuset.cpus: EBUSY"]
        runtime.refuses = False
        await agent.repair()
        assert agent.health() == []

    asyncio.run(work())
