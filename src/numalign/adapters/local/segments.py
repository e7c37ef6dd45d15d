"""A log of bounded size in a few files, which is read as far as it is sound.

Each file (segment) holds frames: length, checksum, bytes. The oldest segment goes when there are
too many. What is damaged, or was cut off by a crash, ends the reading of that segment, and the next
one stands for itself. Nothing here is needed to run: a disk that is full loses frames, not more.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from numalign.adapters.local.files import PRIVATE, read_bounded, reason_of
from numalign.core.errors import PeerError

_HEAD: Final = struct.Struct("<II")  # length, crc32
_NUMBER_DIGITS: Final = 10
FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Segments:
    """The segments of one name in one directory, used by one thread at a time."""

    def __init__(self, directory: Path, name: str, *, bytes_max: int, segments_max: int) -> None:
        self._directory = directory
        self._name = name
        self._bytes_max = bytes_max
        self._segments_max = segments_max
        self._current: int | None = None  # nothing is added to those of runs before
        self._size = 0

    def numbers(self) -> list[int]:
        """The segments that there are, the oldest first."""
        found = []
        for path in self._directory.glob(f"{self._name}-*.log"):
            digits = path.stem[len(self._name) + 1 :]
            if digits.isascii() and digits.isdigit():
                found.append(int(digits))
        return sorted(found)

    @property
    def is_full(self) -> bool:
        """Whether the next frames begin a new segment."""
        return self._current is None or self._size >= self._bytes_max

    def begin(self) -> int:
        """Has the next frames begin a new segment; its number."""
        known = self.numbers()
        self._current = max([*known, self._current or 0], default=0) + 1
        self._size = 0
        for number in known[: max(0, len(known) - self._segments_max + 1)]:
            self._path(number).unlink(missing_ok=True)
        return self._current

    def append(self, frames: Sequence[bytes]) -> int:
        """Adds frames to the segment, all of them or none; the number of the segment."""
        assert self._current is not None, "begin() comes first"
        data = b"".join(_HEAD.pack(len(one), zlib.crc32(one)) + one for one in frames)
        path = self._path(self._current)
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, _FLAGS, PRIVATE)
            try:
                self._write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise PeerError(f"{path}: cannot be written: {reason_of(error)}", retry=True) from error
        self._size += len(data)
        return self._current

    def _write(self, descriptor: int, data: bytes) -> None:
        """Writes all of it and has it on the disk, or leaves the file as it was."""
        before = os.fstat(descriptor).st_size
        try:
            done = 0
            while done < len(data):
                done += os.write(descriptor, data[done:])
            os.fdatasync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise

    def read(self, number: int) -> tuple[list[bytes], bool]:
        """The frames of a segment, and whether it is sound to its end."""
        try:
            data = read_bounded(self._path(number), self._bytes_max + 2 * FRAME_BYTES_MAX)
        except OSError:
            return [], False
        frames: list[bytes] = []
        at = 0
        while at < len(data):
            if at + _HEAD.size > len(data):
                return frames, False
            length, checksum = _HEAD.unpack_from(data, at)
            one = data[at + _HEAD.size : at + _HEAD.size + length]
            if length > FRAME_BYTES_MAX or len(one) < length or zlib.crc32(one) != checksum:
                return frames, False
            frames.append(one)
            at += _HEAD.size + length
        return frames, True

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._name}-{number:0{_NUMBER_DIGITS}}.log"
