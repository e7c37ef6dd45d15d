"""Running a component of the cluster beside its probes until it is told to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterable

from numalign.web import probes


async def until_told(
    work: Coroutine[None, None, None],
    component: probes.Probed,
    address: tuple[str, int] | None,
) -> None:
    """Runs a component and serves its probes until SIGTERM or SIGINT, or until it fails."""
    works = [work]
    if address is not None:
        works.append(probes.serve(component, address))
    await all_until_told(works)


async def all_until_told(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Runs all of it until SIGTERM or SIGINT, or until one of them ends or fails."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = [loop.create_task(work) for work in works]
    waiter = loop.create_task(stop.wait())
    done, _ = await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, waiter):
        task.cancel()
    await asyncio.gather(*tasks, waiter, return_exceptions=True)
    for task in done:
        if task is not waiter:
            task.result()
