"""An agent that runs nothing: pods come, stay over a restart and go, as far as anybody can tell."""

import asyncio
import json

from numalign.apps.agent import run
from numalign.apps.agent.events import SourcesReady
from numalign.wire.pods.manifests import load_all


def record(name, *, init=False):
    limits = {"cpu": "2", "memory": "64Mi"}
    container = {"name": "c", "resources": {"limits": limits}}
    spec = {"containers": [container]} | (
        {"initContainers": [{**container, "name": "i"}]} if init else {}
    )
    manifest = {"kind": "Pod", "metadata": {"name": name, "uid": name}, "spec": spec}
    return load_all(json.dumps(manifest).encode(), source="test")[0]


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")


def phases(agent):
    return {uid: pod.phase.value for uid, pod in agent.state.pods.items()}


def test_pods_run_stay_over_a_restart_and_give_everything_back_when_deleted(tmp_path):
    options = run.Options(tmp_path / "s", machine="2s:1n:4c:2t", runtime="none")

    async def first():
        agent = (await run.assemble(options)).agent
        task = asyncio.create_task(agent.run())
        assert (await agent.submit(record("plain"))).accepted
        assert (await agent.submit(record("with-init", init=True))).accepted
        await until(lambda: phases(agent) == {"plain": "Running", "with-init": "Running"})
        task.cancel()

    async def second():
        parts = await run.assemble(options)
        agent = parts.agent
        assert phases(agent) == {"plain": "Running", "with-init": "Running"}
        task = asyncio.create_task(agent.run(parts.first))
        agent.tell(SourcesReady(0.0))
        assert len(agent.state.host.cpu.entries) == 2
        for uid in ("plain", "with-init"):
            assert (await agent.delete(uid)).accepted
        await until(lambda: not agent.state.pods)
        assert agent.state.host.cpu.entries == {}
        task.cancel()

    asyncio.run(first())
    asyncio.run(second())
