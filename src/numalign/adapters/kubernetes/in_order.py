"""Requests that run side by side, up to a limit, but in order where they are about one thing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator


class InOrder:
    """Lines of waiting requests, one for each key. Who asks first goes first."""

    def __init__(self, most: int) -> None:
        self._slots = asyncio.Semaphore(most)
        self._lines: dict[str, asyncio.Lock] = {}
        self._lengths: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None, None]:
        """Waits until all that came before with this key is over, and for a free slot."""
        line = self._lines.setdefault(key, asyncio.Lock())
        # Counted by ourselves: a lock that was just released is not locked, though others wait.
        self._lengths[key] = self._lengths.get(key, 0) + 1
        try:
            async with line, self._slots:
                yield
        finally:
            self._lengths[key] -= 1
            if not self._lengths[key]:
                del self._lines[key], self._lengths[key]
