"""Long searches: progress on a terminal's stderr, and Ctrl-C gives what was found so far."""

# ruff: noqa: PLC0415 - rich is loaded only when there is something to show
from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.status import Status

QUIET_SECONDS: Final = 0.5  # a search that ends sooner shows nothing
REFRESH_SECONDS: Final = 0.1


class SearchProgress:
    """While it is open, ``going`` may be given to a search; the first Ctrl-C stops it kindly."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._start = self._shown = time.monotonic()
        self._status: Status | None = None
        self._before: object = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]  # what signal gave us
        if self._status is not None:
            self._status.stop()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_stopped:
            raise KeyboardInterrupt
        self.is_stopped = True

    def going(self, stage: str, runs: int) -> bool:
        """Whether to go on; shows where the search is."""
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._start > QUIET_SECONDS:
            if self._status is None:
                from rich.console import Console

                self._status = Console(stderr=True).status("")
                self._status.start()
            if now - self._shown > REFRESH_SECONDS:
                self._shown = now
                self._status.update(f"{stage}: {runs} tried (Ctrl-C shows what was found so far)")
        return not self.is_stopped
