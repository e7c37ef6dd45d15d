"""A time of day that does not jump: that of the start, carried on by the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

JUMP_SECONDS_MIN: Final = 1.0  # less is what a clock that is kept right is off now and then


class SteadyClock:
    """Seconds since 1970. When the clock of the host is set, ``jump`` tells and follows it."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def __call__(self) -> float:
        return self._steady() + self._offset

    def jump(self) -> float:
        """By how much the clock of the host was set since the last call; 0 if it was not."""
        seconds = self._wall() - self()
        if abs(seconds) < JUMP_SECONDS_MIN:
            return 0.0
        self._offset += seconds
        return seconds
