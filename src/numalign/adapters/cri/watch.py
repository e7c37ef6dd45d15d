"""Hearing of containers that a runtime runs: its stream of events, and a look at the whole list.

A runtime may not have the stream (containerd 1.6), may share one stream between all who listen
(1.7), and loses it when it restarts. So an event is only a reason to look now: what counts is the
list, and it is looked at from time to time whatever the stream says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final

import structlog

from numalign.adapters.cri.client import CriClient
from numalign.core.errors import PeerError

LOOK_SECONDS: Final = 1.0  # without a stream of events
LOOK_SECONDS_MAX: Final = 5.0  # with one
GATHER_SECONDS: Final = 0.02
RETRY_SECONDS: Final = 0.5
RETRY_SECONDS_MAX: Final = 10.0

log = structlog.get_logger("numalign.cri")


class Watch:
    """Looks whenever something may have happened."""

    def __init__(self, client: CriClient, look: Callable[[], Awaitable[None]]) -> None:
        self._client = client
        self._look = look
        self._news = asyncio.Event()
        self._has_events = False

    def hint(self) -> None:
        """Something may have happened."""
        self._news.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._look_again())

    async def _listen(self) -> None:
        pause = RETRY_SECONDS
        while True:
            try:
                async with aclosing(self._client.events()) as events:
                    self._has_events = True
                    async for _ in events:
                        pause = RETRY_SECONDS
                        self._news.set()
                why = "the runtime ended it"
            except PeerError as error:
                why = str(error)
            self._has_events = False
            self._news.set()
            log.info("no_events_of_runtime", error=why, again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    async def _look_again(self) -> None:
        pause = RETRY_SECONDS
        while True:
            try:
                await self._look()
                pause = RETRY_SECONDS
            except PeerError as error:
                log.warning("runtime_does_not_answer", error=str(error), again_in=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_SECONDS_MAX)
                continue
            seconds = LOOK_SECONDS_MAX if self._has_events else LOOK_SECONDS
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                pass
            # Others' containers are in the stream too: many events are worth one look.
            await asyncio.sleep(GATHER_SECONDS)
            self._news.clear()
