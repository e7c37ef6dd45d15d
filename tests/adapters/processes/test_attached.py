"""Processes that somebody else started, in a container's place: with cgroups and without."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from tests.adapters.cgroups.own_cgroups import LAST
from tests.adapters.processes.test_runtime import next_exit, places, run, spec

from numalign.adapters.local.run_client import process
from numalign.adapters.processes import callers, proc_table
from numalign.adapters.processes.found import CODE_UNKNOWN
from numalign.adapters.processes.runtime import Exited, Running
from numalign.core.errors import PeerError

pytestmark = [pytest.mark.e2e, pytest.mark.e2e_quick]

SCRIPT = "read go; setsid sleep 1000 >/dev/null 2>&1 & echo $!; read end; exit 5"
UID = "1234"


@pytest.fixture(params=["cgroups", "affinity"])
def again(request, tmp_path):
    with places(tmp_path, request.param) as make:
        yield make


@pytest.fixture
def foreign():
    """A process of ours that the runtime did not start, and its number, start and boot."""
    command = ["sh", "-c", SCRIPT]
    env = {**os.environ, callers.MARK: UID}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env) as found:
        start = proc_table.process(found.pid).start
        try:
            yield found, (found.pid, start, callers.boot_id())
        finally:
            found.kill()


async def reaped(found):
    """Its parent collects it, as a shell does, so that the kernel tells how it ended."""
    return await asyncio.to_thread(found.wait)


def test_it_is_moved_looked_after_and_its_left_overs_are_ended(again, foreign, tmp_path):
    found, who = foreign

    async def work():
        runtime = again()
        started = await runtime.attach(spec(tmp_path, "sh", pod_uid=UID), *who)
        assert isinstance(started, Running) and started.pid == found.pid
        assert proc_table.affinity(found.pid) == set(LAST)
        found.stdin.write("go\n")
        found.stdin.flush()
        left = int(await asyncio.to_thread(found.stdout.readline))
        assert proc_table.affinity(left) == set(LAST)
        found.stdin.write("end\n")
        found.stdin.flush()
        ended, code = await asyncio.gather(next_exit(runtime), reaped(found))
        assert code == 5
        assert ended.code in (5, CODE_UNKNOWN), "Linux 6.15 tells others than the parent"
        assert proc_table.process(left) is None
        runtime.remove(UID, "main")
        runtime.close()

    run(work())


def test_the_next_agent_knows_it_again_running_or_ended(again, foreign, tmp_path):
    found, who = foreign

    async def work():
        first = again()
        await first.attach(spec(tmp_path, "sh", pod_uid=UID), *who)
        first.close()
        second = again()
        [running] = await second.adopt()
        assert isinstance(running, Running) and running.pid == found.pid
        second.close()
        found.kill()
        await reaped(found)
        third = again()
        [ended] = await third.adopt()
        assert isinstance(ended, Exited) and ended.code == CODE_UNKNOWN
        third.remove(UID, "main")
        third.close()

    run(work())


def test_a_process_that_has_ended_or_is_another_is_not_taken(again, foreign, tmp_path):
    _, (pid, start, boot) = foreign

    async def work():
        runtime = again()
        for who in ((pid, start + 1, boot), (pid, start, "earlier"), (2**22 + 1, 1, boot)):
            with pytest.raises(PeerError, match="has ended"):
                await runtime.attach(spec(tmp_path, "sh", pod_uid=UID), *who)
        assert not list((Path(runtime.root) / "runs").iterdir())
        runtime.close()

    run(work())


def test_stopping_it_is_asking_and_then_ending_it(again, foreign, tmp_path):
    found, who = foreign

    async def work():
        runtime = again()
        await runtime.attach(spec(tmp_path, "sh", pod_uid=UID), *who)
        ended, code = await asyncio.gather(runtime.stop(UID, "main", 10.0), reaped(found))
        assert code == -15
        assert ended.code in (143, CODE_UNKNOWN)
        runtime.remove(UID, "main")
        runtime.close()

    run(work())


def test_a_process_tells_the_same_of_itself_as_the_agent_sees():
    told = process()
    assert callers.handle_exists(told["pid"], told["start"], told["boot"])
