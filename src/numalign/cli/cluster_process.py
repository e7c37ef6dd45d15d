"""Running a component of the cluster beside its probes until it is told to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine

from numalign.web import probes


async def until_told(
    work: Coroutine[None, None, None],
    component: probes.Probed,
    address: tuple[str, int] | None,
) -> None:
    """Runs a component and serves its probes until SIGTERM or SIGINT, or until it fails."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = [loop.create_task(work)]
    if address is not None:
        tasks.append(loop.create_task(probes.serve(component, address)))
    waiter = loop.create_task(stop.wait())
    done, _ = await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, waiter):
        task.cancel()
    await asyncio.gather(*tasks, waiter, return_exceptions=True)
    for task in done:
        if task is not waiter:
            task.result()
