"""Two copies of a text in one file, overwritten in turn: one flush of the disk for each save.

A file that is replaced costs two flushes, of its content and of its name, and a commit of the file
system's own journal for each. Here names and sizes stay as they are. A crash in the middle of a
write spoils the older copy, which nobody needs; the text itself must tell which copy is newer and
whether it is whole. Each copy ends with a line break, so that people and tools see two lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from numalign.adapters.local.files import read_current, reason_of, replace_file
from numalign.core.errors import PeerError

COPY_BYTES_MIN: Final = 16 << 10  # of one copy; whole pages, so that none is in both
COPY_BYTES_MAX: Final = 32 << 20
_BLANK: Final = b" "
_END: Final = b"\n"


class TwoCopies:
    """The file. What was written is on the disk when ``write`` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0  # of the last text that is good; the next one takes the other place
        self._descriptor = -1

    def read(self) -> tuple[bytes, ...]:
        """The text of each copy, empty where none was written; nothing if there is no file."""
        try:
            data = read_current(self.path, 2 * COPY_BYTES_MAX)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _refused(self.path, error, "read it") from error
        half = len(data) // 2
        return data[:half].strip(), data[half:].strip()

    def write(self, text_of: Callable[[int], bytes]) -> None:
        """Writes the text with the next number, in the place of the one but last."""
        number = self.number + 1
        text = text_of(number)
        size = len(text) + len(_END)
        if size > COPY_BYTES_MAX:
            raise PeerError(
                f"{self.path}: found {size} bytes to write, expected at most {COPY_BYTES_MAX}, as "
                "a start reads no more. Delete pods."
            )
        try:
            descriptor, room = self._opened()
            if size > room:
                self._replace(number, text)
            else:
                _write(descriptor, _filled(text, room), number % 2 * room)
                os.fdatasync(descriptor)
        except OSError as error:
            # What a disk has refused once it may forget without a word: it is opened anew.
            self.close()
            raise _refused(self.path, error, "write it") from error
        self.number = number

    def close(self) -> None:
        """Gives the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _opened(self) -> tuple[int, int]:
        """The file that has our name now, and the room of a copy; none where it is not ours."""
        try:
            named = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            self.close()
            return -1, 0
        if self._descriptor < 0 or not os.path.samestat(os.fstat(self._descriptor), named):
            self.close()
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        half = os.fstat(self._descriptor).st_size // 2
        return self._descriptor, half if half % COPY_BYTES_MIN == 0 else 0

    def _replace(self, number: int, text: bytes) -> None:
        room = COPY_BYTES_MIN
        while room < len(text) + len(_END):
            room *= 2
        copies = [_filled(b"", room), _filled(b"", room)]
        copies[number % 2] = _filled(text, room)
        self.close()
        replace_file(self.path, b"".join(copies))


def _filled(text: bytes, room: int) -> bytes:
    return text + _BLANK * (room - len(text) - len(_END)) + _END


def _write(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(descriptor, view, at)
        view, at = view[done:], at + done


def _refused(path: Path, error: OSError, what: str) -> PeerError:
    return PeerError(
        f"{path}: cannot {what}: {reason_of(error)}. "
        "Check that the disk has room and that the directory is writable.",
        retry=True,
    )
