"""A history on a real disk: what it remembers, over restarts, and what a bad disk does to it."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest
from tests.adapters.local.test_segments import files_no_larger_than
from tests.apps.past.test_chain import submitted
from tests.web.in_memory_agent import InMemoryAgent

from numalign.apps.agent import events as ev
from numalign.apps.past.recorder import DIRECTORY, Recorder
from numalign.apps.past.shown import shown


@asynccontextmanager
async def recording(agent, directory, **more):
    recorder = Recorder(agent.setup, directory, "host", together_seconds=0.01, **more)
    agent.journal.on_note = lambda note, _seconds: recorder.heard(note, agent.state, agent.now)
    task = asyncio.create_task(recorder.run(lambda: agent.state, lambda: agent.now))
    try:
        await until(lambda: recorder.moments() or recorder.problem)
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await recorder.finish()


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
def agent(tmp_path):
    return InMemoryAgent(tmp_path)


def test_decisions_are_remembered_over_a_restart(agent, tmp_path):
    async def run():
        async with recording(agent, tmp_path) as recorder:
            submitted(agent, "a", cpu="4")
            submitted(agent, "big", cpu="30")
            agent._tell(ev.PodDeleted("uid-a", agent.now, 1))
            await until(lambda: recorder.moments()[-1].what == "pod_deleted")
            await until(lambda: recorder.moments()[2].why)
            first = recorder.moments()
        agent.now += 3600
        async with recording(agent, tmp_path) as again:
            await until(lambda: len(again.moments()) > len(first))
            assert again.moments()[:-1] == first
            assert [m.id for m in again.moments()] == list(range(1, len(first) + 2))
            for moment in first:
                then = await again.then(moment.id)
                assert then is not None, moment
            [_, admitted, rejected, *_] = first
            then = shown(await again.then(admitted.id), agent.machine, trace=True)
            assert [p.metadata.name for p in then.pods.items] == ["a"]
            assert then.trace
            then = shown(await again.then(rejected.id), agent.machine, trace=False)
            assert [p.metadata.name for p in then.pods.items] == ["a", "big"]
            assert then.pods.items[1].status.phase == "Failed"
        return first

    found = asyncio.run(run())
    words = [m.what for m in found]
    assert words[:3] == ["started", "pod_admitted", "pod_rejected"]
    assert words[-1] == "pod_deleted"
    refused = found[2]
    assert "30 exclusive CPUs" in refused.why
    assert refused.reason


def test_charts_hold_what_was_given_minute_by_minute(agent, tmp_path):
    async def run():
        async with recording(agent, tmp_path) as recorder:
            submitted(agent, "a", cpu="4")
            submitted(agent, "big", cpu="30")
            agent.now += 120
            submitted(agent, "b", cpu="2")
            await until(lambda: len(recorder.moments()) == 4)
            rows = recorder.rows()
        async with recording(agent, tmp_path) as again:
            await until(lambda: len(again.rows()) >= 2)
            assert list(again.rows())[:2] == list(rows)
        return rows

    first, second = asyncio.run(run())
    assert (first.cpus_given, first.admitted, first.refused, first.pods) == (4, 1, 1, 1)
    assert (second.cpus_given, second.admitted, second.refused, second.pods) == (6, 1, 0, 2)
    assert second.time - first.time == 120
    assert second.largest == 8
    assert second.fragments == 1.0, "no sixteen CPUs are together on such a small machine"


@pytest.mark.parametrize("segment_bytes", [1, 512 * 1024])
def test_a_full_disk_is_told_and_then_forgotten(agent, tmp_path, segment_bytes):
    """Also where what is lost was to begin a segment."""

    async def run():
        async with recording(agent, tmp_path, segment_bytes=segment_bytes) as recorder:
            known = len(recorder.moments())
            with files_no_larger_than(1):
                submitted(agent, "lost", cpu="1")
                await until(lambda: recorder.problem)
            assert len(recorder.moments()) == known
            assert "not kept" in recorder.problem
            submitted(agent, "kept", cpu="1")
            await until(lambda: not recorder.problem and len(recorder.moments()) > known)
            then = shown(await recorder.then(recorder.moments()[-1].id), agent.machine, trace=False)
            assert [p.metadata.name for p in then.pods.items] == ["lost", "kept"]

    asyncio.run(run())


def test_what_is_damaged_is_passed_over(agent, tmp_path):
    async def run():
        async with recording(agent, tmp_path, segment_bytes=2_000) as recorder:
            for number in range(12):
                submitted(agent, f"p{number}", cpu="100m")
                await until(lambda count=number: len(recorder.moments()) >= count + 2)
        paths = sorted((tmp_path / DIRECTORY).glob("moments-*.log"))
        assert len(paths) > 2
        os.truncate(paths[0], 5)
        data = bytearray(paths[1].read_bytes())
        data[-3] ^= 1
        paths[1].write_bytes(data)
        async with recording(agent, tmp_path) as again:
            await until(lambda: again.moments()[-1].what == "started")
            ids = [m.id for m in again.moments()]
            assert ids == sorted(ids)
            assert 3 < len(ids) < 14
            for number in ids:
                assert await again.then(number) is not None

    asyncio.run(run())


def test_the_history_is_bounded(agent, tmp_path):
    async def run():
        async with recording(agent, tmp_path, segment_bytes=1_000) as recorder:
            for number in range(60):
                submitted(agent, f"p{number}", cpu="100m")
                if number % 2:
                    await until(lambda count=number: recorder.moments()[-1].pod == f"p{count}")
            assert len(list((tmp_path / DIRECTORY).glob("moments-*.log"))) <= 16
            oldest = recorder.moments()[0]
            assert await recorder.then(oldest.id) is None or oldest.id > 1

    asyncio.run(run())


def test_a_moment_that_was_never_there_is_none(agent, tmp_path):
    async def run():
        async with recording(agent, tmp_path) as recorder:
            assert await recorder.then(99) is None

    asyncio.run(run())
