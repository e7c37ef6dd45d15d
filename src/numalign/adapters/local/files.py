"""Files read whole within a limit, and files replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from numalign.core.errors import ConfigError

PRIVATE: Final = 0o600


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """The bytes of a file; OSError where it cannot be read or is larger than it may be."""
    return read_with_stat(path, bytes_max)[0]


def read_with_stat(path: Path, bytes_max: int) -> tuple[bytes, os.stat_result]:
    """The same with whose file it is, of the very file that was read."""
    with path.open("rb") as stream:
        data, found = stream.read(bytes_max + 1), os.fstat(stream.fileno())
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"found more than {bytes_max} bytes", str(path))
    return data, found


def read_current(path: Path, bytes_max: int) -> bytes:
    """The same of a file that others replace by renaming; OSError if this is not the last one.

    A file mounted into a container stays the old one when another is renamed over it.
    """
    data, found = read_with_stat(path, bytes_max)
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
