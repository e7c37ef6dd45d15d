"""How late the agent's loop is, and what holds it up.

The loop is asked to wake up every moment; what it comes late by, everybody else waits too. A thread
beside it looks where it is stuck meanwhile, since afterwards nobody knows.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

MOMENT_SECONDS: Final = 0.1
SLOW_SECONDS: Final = 1.0
KEPT_SECONDS: Final = 60.0  # a delay is a problem for so long
_OURS: Final = "/numalign/"

log = structlog.get_logger("numalign.agent")


class Pace:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._delays: deque[tuple[float, float, str]] = deque(maxlen=100)  # when, how long, where
        self._beat = clock()
        self._busy: tuple[str, float] | None = None
        self._stuck_at = ""
        self.on_delay: Callable[[float], None] = lambda _seconds: None  # who counts

    # What the agent is busy with: nothing else is decided meanwhile.

    def begin(self, what: str) -> None:
        """Something is done that the next event waits for."""
        self._busy = what, self._clock()

    def end(self) -> None:
        """The next event can be handled."""
        self._busy = None

    # The delay of the loop.

    async def watch(self) -> None:
        """Measures for as long as it runs."""
        thread = threading.get_ident()
        with self._looking_at(thread):
            while True:
                due = self._clock() + MOMENT_SECONDS
                await asyncio.sleep(MOMENT_SECONDS)
                self._beat = self._clock()
                self.note(max(0.0, self._beat - due))

    def note(self, seconds: float) -> None:
        """The loop came so late."""
        self.on_delay(seconds)
        where, self._stuck_at = self._stuck_at, ""
        if seconds > SLOW_SECONDS:
            self._delays.append((self._clock(), seconds, where))
            log.warning("loop_delayed", seconds=round(seconds, 3), where=where or "unknown")

    def problems(self) -> list[str]:
        """Why answers or decisions are late, or were a moment ago; empty if they are not."""
        now = self._clock()
        found = []
        recent = [delay for delay in self._delays if now - delay[0] <= KEPT_SECONDS]
        if recent:
            at, seconds, where = max(recent, key=lambda delay: delay[1])
            told = f" in {where}" if where else ""
            found.append(
                f"the loop was held up for {seconds:.1f} s{told}, {now - at:.0f} s ago, so all "
                "answers were late; see numalign_loop_delay_seconds"
            )
        if self._busy is not None and now - self._busy[1] > SLOW_SECONDS:
            what, since = self._busy
            found.append(
                f"decisions wait: {what} has taken {now - since:.0f} s so far; look at the disk "
                "and at the kernel's log"
            )
        return found

    @contextmanager
    def _looking_at(self, thread: int) -> Iterator[None]:
        over = threading.Event()
        looking = threading.Thread(
            target=self._look, args=(thread, over), name="numalign-pace", daemon=True
        )
        looking.start()
        try:
            yield
        finally:
            over.set()

    def _look(self, thread: int, over: threading.Event) -> None:
        while not over.wait(SLOW_SECONDS / 2):
            if self._clock() - self._beat > SLOW_SECONDS and not self._stuck_at:
                self._stuck_at = _place(sys._current_frames().get(thread))


def _place(frame: FrameType | None) -> str:
    """The innermost place of our own code that is being run."""
    while frame is not None and _OURS not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None:
        return ""
    file = frame.f_code.co_filename.rpartition(_OURS)[2]
    return f"{frame.f_code.co_name} ({file}:{frame.f_lineno})"
