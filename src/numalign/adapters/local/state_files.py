"""Files that must survive a crash whole: written beside, flushed, then renamed into place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from numalign.adapters.local.files import flush_directory, read_current, reason_of, replace_file
from numalign.core.errors import PeerError

FILE_BYTES_MAX: Final = 64 * 1024 * 1024  # read and written: never more than can be read again
DIRECTORY_MODE: Final = 0o700


class StateDirectory:
    """One directory of state files. What was written is on the disk when ``write`` returns.

    A name may lie in one of its ``folders``.
    """

    def __init__(self, root: Path, folders: Sequence[str] = ()) -> None:
        self.root = root
        self._folders = [root, *(root / folder for folder in folders)]
        self._written: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Makes the directory and removes what a crash in the middle of a write left behind."""
        try:
            for folder in self._folders:
                folder.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
                for left in folder.glob(".*.tmp"):
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise _refused(self.root, error, "make the state directory") from error

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        path = self.root / name
        try:
            data = read_current(path, FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(path, error, "read it") from error
        self._written[name] = data
        return data

    def write(self, name: str, data: bytes) -> bool:
        """Writes a file unless it already has this content; whether it did."""
        if self._written.get(name) == data:
            return False
        path = self.root / name
        if len(data) > FILE_BYTES_MAX:
            # A start would refuse it, again and again.
            raise PeerError(
                f"{path}: found {len(data)} bytes to write, expected at most {FILE_BYTES_MAX}, as "
                "a start reads no more. Delete pods."
            )
        try:
            replace_file(path, data)
        except OSError as error:
            self._written.pop(name, None)
            raise _refused(path, error, "write it") from error
        self._written[name] = data
        return True

    def remove(self, name: str) -> None:
        """Removes a file if it is there."""
        path = self.root / name
        try:
            path.unlink(missing_ok=True)
            flush_directory(path.parent)
        except OSError as error:
            raise _refused(path, error, "remove it") from error
        self._written.pop(name, None)


def _refused(path: Path, error: OSError, what: str) -> PeerError:
    return PeerError(
        f"{path}: cannot {what}: {reason_of(error)}. "
        "Check that the disk has room and that the directory is writable.",
        retry=True,
    )
