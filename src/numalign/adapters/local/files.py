"""Files read whole within a limit, and files replaced whole or not at all.

Files that somebody else may replace by anything at any moment are for ``read_regular``: nothing but
a regular file is ever opened, since opening alone waits for ever at a FIFO and starts some devices.
What is looked at first is therefore a handle that cannot be read (O_PATH), and what is then opened
is that very handle's file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from numalign.core.errors import ConfigError

PRIVATE: Final = 0o600

Stamp = tuple[int, int, int, int]  # inode, size, times of the last change of content and of all

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_READ_BYTES: Final = 64 * 1024


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """The bytes of a file; OSError where it cannot be read or is larger than it may be."""
    with path.open("rb") as stream:
        data = stream.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise _too_large(path, bytes_max)
    return data


def _too_large(path: Path, bytes_max: int) -> OSError:
    return OSError(errno.EFBIG, f"found more than {bytes_max} bytes", str(path))


def read_current(path: Path, bytes_max: int) -> bytes:
    """The same of a file that others replace by renaming; OSError if this is not the last one.

    A file mounted into a container stays the old one when another is renamed over it.
    """
    with path.open("rb") as stream:
        data, found = stream.read(bytes_max + 1), os.fstat(stream.fileno())
    if len(data) > bytes_max:
        raise _too_large(path, bytes_max)
    if found.st_nlink == 0 and os.path.samestat(found, path.stat()):
        error = "it was replaced after it was mounted here; start the container again"
        raise OSError(errno.ESTALE, error, str(path))
    return data


def read_small(path: Path, bytes_max: int) -> bytes | None:
    """The bytes of a file, None where there is none; ConfigError if unreadable or too large."""
    try:
        return read_bounded(path, bytes_max)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {reason_of(error)}.") from error


def reason_of(error: OSError) -> str:
    """Why the system refused, in its words."""
    return error.strerror or type(error).__name__


def replace_file(path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """Puts a file in place, for its owner alone, or with the mode and owner of another one.

    It is written beside, flushed and renamed, so that a crash leaves the old file or the new one.
    When this returns, the content is on the disk.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)  # what a crash has left, or a link that somebody has laid
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(descriptor, "wb") as stream:
            if like is not None:
                os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def flush_directory(directory: Path) -> None:
    """Brings the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class UnfitFileError(OSError):
    """A file that is not read, with the reason in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EINVAL, reason)


def stamp_of(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_regular(path: str, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file, the same from the first to the last, and what it is.

    FileNotFoundError if nothing has this name; UnfitFileError for all that is not to be read.
    """
    handle = _handle(path)
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            kind = _KINDS.get(stat.S_IFMT(before.st_mode), "something else")
            raise UnfitFileError(f"found {kind}, expected a file")
        if before.st_size > bytes_max:
            raise UnfitFileError(f"found more than {bytes_max} bytes")
        # Some files of the kernel's call themselves regular and let their reader wait.
        descriptor = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(handle)
    try:
        return _unchanged(descriptor, before, bytes_max), before
    except BlockingIOError:
        raise UnfitFileError("found a file that gives nothing, expected a manifest") from None
    finally:
        os.close(descriptor)


def _handle(path: str) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        if os.path.islink(path):  # noqa: PTH114 a name may be no text that Path can show
            raise UnfitFileError("found a link to nothing, expected a file") from None
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnfitFileError("found a loop of links, expected a file") from None
        raise


def _unchanged(descriptor: int, before: os.stat_result, bytes_max: int) -> bytes:
    data = bytearray()
    while part := os.read(descriptor, _READ_BYTES):
        data += part
        if len(data) > bytes_max:
            raise UnfitFileError(f"found more than {bytes_max} bytes")
    after = os.fstat(descriptor)
    if stamp_of(before) != stamp_of(after) or len(data) != after.st_size:
        raise UnfitFileError("it changed while it was read; it is read again")
    return bytes(data)
