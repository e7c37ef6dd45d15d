"""Work in threads beside the loop: its results and errors come back, and nothing waits for ever."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from numalign.adapters.daemon.beside import Beside


def test_results_and_errors_come_back_to_who_asked():
    async def work():
        beside = Beside("test", 2)
        assert await beside.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await beside.run(divmod, 7, 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await beside.run(next, iter(()))
        beside.close()

    asyncio.run(work())


def test_one_thread_does_one_thing_after_the_other_in_order():
    done = []

    async def work():
        beside = Beside("test", 1)
        await asyncio.gather(*(beside.run(done.append, number) for number in range(50)))
        beside.close()

    asyncio.run(work())
    assert done == list(range(50))


def test_the_loop_goes_on_meanwhile_and_no_more_threads_run_than_are_allowed():
    running, most, gate = [], [], threading.Event()

    def job():
        running.append(1)
        most.append(len(running))
        gate.wait(10)
        running.pop()

    async def work():
        beside = Beside("test", 3)
        jobs = [asyncio.create_task(beside.run(job)) for _ in range(10)]
        while len(running) < 3:
            await asyncio.sleep(0.001)
        gate.set()
        await asyncio.gather(*jobs)
        beside.close()

    asyncio.run(work())
    assert max(most) == 3


def test_finishing_waits_for_what_is_under_way_but_not_for_ever():
    done, gate = [], threading.Event()

    async def work():
        beside = Beside("test", 1)
        task = asyncio.create_task(beside.run(lambda: (gate.wait(10), done.append(1))))
        await asyncio.sleep(0.01)
        start = time.monotonic()
        await beside.finish(0.1)
        assert time.monotonic() - start < 5
        assert not done
        gate.set()
        await task

    asyncio.run(work())
    assert done == [1]


def test_work_that_never_returns_does_not_keep_a_process_from_ending():
    text = (
        "import asyncio, threading\n"
        "from numalign.adapters.daemon.beside import Beside\n"
        "async def work():\n"
        "    asyncio.create_task(Beside('stuck', 1).run(threading.Event().wait))\n"
        "    await asyncio.sleep(0.1)\n"
        "asyncio.run(work())\n"
    )
    assert subprocess.run([sys.executable, "-c", text], timeout=30, check=False).returncode == 0
