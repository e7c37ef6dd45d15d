"""Files that must survive a crash whole: written beside, flushed, then renamed into place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from numalign.core.errors import PeerError

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
FILE_MODE: Final = 0o600
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
            with path.open("rb") as stream:
                data = stream.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(path, error, "read it") from error
        if len(data) > FILE_BYTES_MAX:
            raise PeerError(
                f"{path}: found more than {FILE_BYTES_MAX} bytes, expected a state file"
            )
        self._written[name] = data
        return data

    def write(self, name: str, data: bytes) -> bool:
        """Writes a file unless it already has this content; whether it did."""
        if self._written.get(name) == data:
            return False
        path = self.root / name
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.rename(path)
            _sync(path.parent)
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
            _sync(path.parent)
        except OSError as error:
            raise _refused(path, error, "remove it") from error
        self._written.pop(name, None)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _refused(path: Path, error: OSError, what: str) -> PeerError:
    return PeerError(
        f"{path}: cannot {what}: {error.strerror or error}. "
        "Check that the disk has room and that the directory is writable.",
        retry=True,
    )
