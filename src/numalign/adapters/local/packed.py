"""Reading files whole, and unpacking them, within limits that have a name.

A description of a machine is small. Whatever is larger than these limits is a mistake or was
made to exhaust us, and is refused before it is in memory.
"""

from __future__ import annotations

import bz2
import errno
import lzma
import zlib
from pathlib import Path
from typing import Final

from numalign.adapters.local.files import read_bounded
from numalign.core.errors import DiscoveryError

PACKED_BYTES_MAX: Final = 64 * 1024 * 1024
UNPACKED_BYTES_MAX: Final = 256 * 1024 * 1024
_XZ_MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024  # xz -9 needs 65 MiB
_STEP_BYTES: Final = 1024 * 1024

_XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BZIP2_MAGIC: Final = b"BZh"
_GZIP_WBITS: Final = 31  # zlib's word for: with the header of gzip


def read_file(path: Path, source: str) -> bytes:
    """The bytes of a file; DiscoveryError where it is unreadable or too large."""
    try:
        return read_bounded(path, PACKED_BYTES_MAX)
    except OSError as exc:
        if exc.errno == errno.EFBIG:
            raise _too_large(source, PACKED_BYTES_MAX) from exc
        raise DiscoveryError(
            source, f"an unreadable file ({exc.strerror})", "a readable one"
        ) from exc


def unpacked(data: bytes, source: str) -> bytes:
    """The content of xz, gzip or bzip2 data; anything else comes back as it is."""
    if not data.startswith((_XZ_MAGIC, _GZIP_MAGIC, _BZIP2_MAGIC)):
        return data
    try:
        return _streams(data, source)
    except (lzma.LZMAError, zlib.error, OSError, EOFError, ValueError) as exc:
        raise DiscoveryError(
            source,
            f"damaged compressed data ({exc})",
            "a whole xz, gzip or bzip2 file",
            "Fetch or make the file again.",
        ) from exc


def _streams(data: bytes, source: str) -> bytes:
    """All streams of the data, one after the other, as the packers' own tools read them."""
    parts: list[bytes] = []
    total = 0
    while data.startswith((_XZ_MAGIC, _GZIP_MAGIC, _BZIP2_MAGIC)):
        unpacker = _unpacker(data)
        chunk = unpacker.decompress(data, _STEP_BYTES)
        while chunk or not unpacker.eof:
            if not chunk:
                raise EOFError("it ends early")
            total += len(chunk)
            if total > UNPACKED_BYTES_MAX:
                raise _too_large(source, UNPACKED_BYTES_MAX)
            parts.append(chunk)
            # xz and bzip2 keep what they were given; zlib hands back the rest and wants it again.
            rest: bytes = getattr(unpacker, "unconsumed_tail", b"")
            chunk = b"" if unpacker.eof else unpacker.decompress(rest, _STEP_BYTES)
        data = unpacker.unused_data
    return b"".join(parts)


def _unpacker(data: bytes) -> lzma.LZMADecompressor | bz2.BZ2Decompressor | zlib._Decompress:
    if data.startswith(_XZ_MAGIC):
        return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES_MAX)
    if data.startswith(_BZIP2_MAGIC):
        return bz2.BZ2Decompressor()
    return zlib.decompressobj(_GZIP_WBITS)


def _too_large(source: str, limit: int) -> DiscoveryError:
    return DiscoveryError(
        source, f"more than {limit} bytes", "the description of one machine", "Is it another file?"
    )
