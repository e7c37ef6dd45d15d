"""The output of containers, from files in the CRI's format: ``TIME STREAM F|P TEXT``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 64 * 1024
POLL_SECONDS: Final = 0.2


def plain_text(lines: bytes) -> bytes:
    """Whole lines of a file without times and streams; parts of one line joined."""
    parts = []
    for line in lines.splitlines(keepends=True):
        fields = line.split(b" ", 3)
        if len(fields) < 4:
            parts.append(line)  # not ours; shown as it is
        elif fields[2] == b"P":
            parts.append(fields[3].rstrip(b"\n"))
        else:
            parts.append(fields[3])
    return b"".join(parts)


def tail_offset(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines of a file begin."""
    end = file.seek(0, os.SEEK_END)
    at, newlines = end, 0
    while at > 0:
        start = max(0, at - CHUNK_BYTES)
        file.seek(start)
        chunk = file.read(at - start)
        if at == end and not chunk.endswith(b"\n"):
            newlines += 1  # a line without its end is one, too
        found = len(chunk)
        while (found := chunk.rfind(b"\n", 0, found)) >= 0:
            newlines += 1
            if newlines > lines:
                return start + found + 1
        at = start
    return 0


async def read(
    path: Path, *, tail: int | None, follow: bool, ended: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The text of a log, and with ``follow`` whatever comes until ``ended`` says so."""
    file = await _opened(path, follow=follow, ended=ended)
    if file is None:
        return
    rest = b""
    try:
        if tail is not None:
            file.seek(await asyncio.to_thread(tail_offset, file, tail))
        while True:
            is_last = ended()  # asked before reading, so that the last words are not missed
            chunk = await asyncio.to_thread(file.read, CHUNK_BYTES)
            if chunk:
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if text := plain_text(whole + newline):
                    yield text
            elif (fresh := _rotated(path, file)) is not None:
                file.close()
                file, rest = fresh, b""
            elif not follow or is_last:
                break
            else:
                await asyncio.sleep(POLL_SECONDS)
        if rest:
            yield plain_text(rest)
    finally:
        file.close()


async def _opened(path: Path, *, follow: bool, ended: Callable[[], bool]) -> BinaryIO | None:
    while True:
        try:
            return path.open("rb")
        except OSError:
            if not follow or ended():
                return None
        await asyncio.sleep(POLL_SECONDS)


def _rotated(path: Path, file: BinaryIO) -> BinaryIO | None:
    """The new file if there is one, or the same one from its start if it was cut."""
    try:
        now, ours = path.stat(), os.fstat(file.fileno())
        if (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino):
            return path.open("rb")
        if now.st_size < file.tell():
            return path.open("rb")
    except OSError:
        return None  # between the old file and the new one
    return None
