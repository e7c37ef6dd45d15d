"""What the clients of one socket may take at once, so that those of another are never starved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from numalign.web.answers import ProblemError

WAIT_SECONDS_MAX: Final = 10.0
SEND_SECONDS_MAX: Final = 0.5
PART_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class CachedViews:
    """Answers that are made once for all who ask while nothing changes."""

    _kept: dict[str, tuple[Sequence[object], bytes]] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, name: str, made_of: Sequence[object], make: Callable[[], bytes]) -> bytes:
        """An answer made of these very objects; a thread makes it, one at a time."""
        async with self._making:
            kept = self._kept.get(name)
            if kept is None or not _are_same(kept[0], made_of):
                kept = made_of, await asyncio.to_thread(make)
                self._kept[name] = kept
        return kept[1]


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


@dataclass(slots=True)
class Budget:
    """The streams and costly answers of one socket."""

    streams_max: int
    costly_max: int
    streams: int = 0
    views: CachedViews = field(default_factory=CachedViews)
    _costly: asyncio.Semaphore | None = None

    def take_stream(self) -> None:
        if self.streams >= self.streams_max:
            error = f"{self.streams} streams are open, which is the limit; close some"
            raise ProblemError(503, "TooManyStreams", error, headers={"retry-after": "5"})
        self.streams += 1

    def give_stream_back(self) -> None:
        self.streams -= 1

    async def take_turn(self) -> Callable[[], None]:
        """Waits until a costly answer may be made and sent; gives what ends the turn."""
        self._costly = self._costly or asyncio.Semaphore(self.costly_max)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._costly.acquire()
        except TimeoutError as exc:
            error = f"{self.costly_max} long answers are being sent, which is the limit; try again"
            raise ProblemError(503, "TooManyReaders", error, headers={"retry-after": "1"}) from exc
        return _only_once(self._costly.release)


def _only_once(end: Callable[[], None]) -> Callable[[], None]:
    ends = [end]

    def once() -> None:
        if ends:
            ends.pop()()

    return once


class LongAnswer(Response):
    """An answer sent part by part, as fast as the client reads it.

    Its turn ends with it, or soon, so that clients who do not read hold up nobody.
    """

    def __init__(
        self,
        content: bytes,
        media_type: str,
        end_turn: Callable[[], None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._end_turn = end_turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        timer = asyncio.get_running_loop().call_later(SEND_SECONDS_MAX, self._end_turn)
        try:
            head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(head)
            content = bytes(self.body)
            for start in range(0, max(len(content), 1), PART_BYTES):
                part = content[start : start + PART_BYTES]
                more = start + PART_BYTES < len(content)
                await send({"type": "http.response.body", "body": part, "more_body": more})
        finally:
            timer.cancel()
            self._end_turn()
