"""How far a long run is, on stderr: a line on a terminal, a few lines in a log."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import Final, Self

REFRESH_SECONDS: Final = 0.5
LOG_SECONDS: Final = 15.0


class RunProgress:
    """While it is open the first Ctrl-C stops the run kindly; a second one ends it."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._start = self._shown = time.monotonic()
        self._before: object = None
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]  # what signal gave us
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True

    def at(self, share: float) -> bool:
        """Shows how far it is; whether to stop now."""
        now = time.monotonic()
        if now - self._shown >= (REFRESH_SECONDS if self._is_terminal else LOG_SECONDS):
            self._shown = now
            text = f"simulating: {share * 100:.0f} %, {_left(now - self._start, share)}"
            if self._is_terminal:
                sys.stderr.write(f"\r\x1b[K{text} (Ctrl-C reports what there is)")
            else:
                sys.stderr.write(text + "\n")
            sys.stderr.flush()
        return self.is_stopped


def _left(elapsed: float, share: float) -> str:
    if share <= 0.01:
        return "time left not known yet"
    seconds = elapsed * (1 - share) / share
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
