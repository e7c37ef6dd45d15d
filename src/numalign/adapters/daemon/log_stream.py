"""A log that never holds up who writes it: lines wait in a bounded queue for a thread of its own.

Who reads a log may stop reading, or go; a disk may be full. A line that finds no room is counted,
and the count is told as soon as there is room again.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

LINES_WAITING_MAX: Final = 1_000
LINE_BYTES_MAX: Final = 64 * 1024


class LogStream(io.TextIOBase):
    """Text for a descriptor. ``told`` makes a line of the number of lines that were lost."""

    def __init__(
        self, descriptor: int, told: Callable[[int], str], lines_max: int = LINES_WAITING_MAX
    ) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._told = told
        self._lines_max = lines_max
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._is_writing = False
        self._untold = 0
        self.dropped = 0
        threading.Thread(target=self._write_all, name=f"log-{descriptor}", daemon=True).start()

    # What everybody may call: none of it waits.

    def write(self, text: str, /) -> int:
        data = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if len(self._waiting) >= self._lines_max:
                self._count_lost()
            elif data:
                self._waiting.append(data[:LINE_BYTES_MAX])
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Nothing is waited for: see ``drain``."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def drain(self, seconds: float) -> None:
        """Waits until all is written, but no longer than this."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._waiting or self._is_writing:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return

    # The thread.

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                data = self._waiting.popleft()
                lost, self._untold = self._untold, 0
                self._is_writing = True
            told = self._told(lost).encode() if lost else b""
            is_written = self._write_one(told + data)
            with self._changed:
                self._is_writing = False
                if not is_written:
                    self._untold += lost
                    self._count_lost()
                self._changed.notify_all()

    def _write_one(self, data: bytes) -> bool:
        # Not through a buffer: its lock would be held by a write that hangs, also at the end.
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return False
        return True

    def _count_lost(self) -> None:
        self.dropped += 1
        self._untold += 1


def open_missing() -> None:
    """Opens standard streams that were closed, lest a file of ours gets their number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one


def is_real(stream: object, number: int) -> bool:
    """Whether a stream of Python is the one of the process, and not somebody's who listens in."""
    return stream is (sys.__stdout__ if number == 1 else sys.__stderr__)
