"""A CPU goes offline under real processes, as a file that stands for the kernel's says."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.apps.agent.processes import AgentProcess, allowed_cpus, manifest

from numalign.apps.agent.run import Options, assemble, run
from numalign.wire.pods.manifests import load_all

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.e2e_quick,
    pytest.mark.skipif(os.sched_getaffinity(0) < {0, 1}, reason="needs a CPU to reserve, and one"),
]


async def until(fact, what):
    for _ in range(600):
        if fact():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited for {what}")


def test_a_pod_without_cpus_is_ended_the_pool_shrinks_and_all_is_well_when_they_are_back(tmp_path):
    files = AgentProcess()  # for its directories, and to clean up
    online = tmp_path / "devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    every = Path("/sys/devices/system/cpu/online").read_text()
    online.write_text(every)

    async def work():
        parts = await assemble(Options(files.state, sysfs=tmp_path))
        agent = parts.agent
        running = asyncio.create_task(run(parts))
        try:
            for pod in (manifest("own", cpu=1), manifest("pool")):
                record = load_all(json.dumps(pod).encode(), source="test")[0]
                await agent.submit(record, uid=record.metadata.name)
            await until(lambda: len(files.records()) == 2, "both to run")
            pid = files.records()["pool", "c"]
            own = agent.state.host.cpu.entries["own"]["c"].bit_length() - 1
            others = [cpu for cpu in sorted(os.sched_getaffinity(0)) if cpu != own]
            online.write_text(",".join(map(str, others)))
            await until(lambda: agent.state.pods["own"].phase == "Failed", "it to be ended")
            assert agent.state.pods["own"].reason == "CpusOffline"
            assert any("went offline" in problem for problem in agent.health())
            await until(lambda: str(own) not in numbers(allowed_cpus(pid)), "the pool to shrink")
            online.write_text(every)
            await until(lambda: not problems(agent), "all to be well")
            await until(lambda: str(own) in numbers(allowed_cpus(pid)), "the pool to be whole")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await running

    try:
        asyncio.run(work())
    finally:
        files.clean_up()


def problems(agent):
    """But for a loop that was late, which is told for a minute: a machine can be busy."""
    return [problem for problem in agent.health() if "the loop was held up" not in problem]


def numbers(text):
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += map(str, range(int(first), int(last or first) + 1))
    return found
