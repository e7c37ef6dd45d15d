"""Work beside the loop, in threads of its own: disks, cgroups and /proc may take their time.

Each kind of work has its own few threads, so that one that hangs holds up nothing but its kind. The
threads are daemons, unlike those of the standard library's pools: work that never returns (a disk
that has gone) does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Job = tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Callable[[], Any]]


class Beside:
    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._threads = 0
        self._open = 0  # jobs that nobody has finished
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

    async def run(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """What the work gives; others are served meanwhile."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._open += 1
        if self._threads < min(self._open, self._threads_max):
            self._threads += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._jobs.put((loop, future, partial(work, *given, **named)))
        try:
            return await future
        finally:
            self._open -= 1

    async def finish(self, seconds_max: float) -> None:
        """Waits for the work that is under way, but not for ever; takes no more after it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self.run(_nothing)
        self.close()

    def close(self) -> None:
        """Ends the threads that have nothing to do, and waits for none of the others."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, future, work = job
            if future.cancelled():
                continue
            result, error = None, None
            try:
                result = work()
            except Exception as found:
                error = found
            with suppress(RuntimeError):  # the loop is gone, and who asked with it
                loop.call_soon_threadsafe(_hand_over, future, result, error)


def _hand_over(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # which no future takes
        future.set_exception(RuntimeError(f"the work raised StopIteration({error.value!r})"))
    else:
        future.set_exception(error)


def _nothing() -> None:
    """What is done last."""
