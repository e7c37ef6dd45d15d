"""Reading files whole, and unpacking them, within limits that have a name.

A description of a machine is small. Whatever is larger than these limits is a mistake or was
made to exhaust us, and is refused before it is in memory.
"""

from __future__ import annotations

import bz2
import errno
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from numalign.adapters.local.files import read_bounded
from numalign.core.errors import DiscoveryError

PACKED_BYTES_MAX: Final = 64 * 1024 * 1024
UNPACKED_BYTES_MAX: Final = 64 * 1024 * 1024  # hwloc's capture of 256 CPUs has 15 MiB
_XZ_MEMORY_BYTES_MAX: Final = 80 * 1024 * 1024  # xz -9 needs 65 MiB
_STEP_BYTES: Final = 1024 * 1024
_PIECE_BYTES: Final = 64 * 1024
STREAMS_MAX: Final = 10_000

_XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BZIP2_MAGIC: Final = b"BZh"
_Unpacker: TypeAlias = "lzma.LZMADecompressor | bz2.BZ2Decompressor | zlib._Decompress"
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
    whole = io.BytesIO()  # which gives its content away without a copy
    at = count = 0
    while data.startswith((_XZ_MAGIC, _GZIP_MAGIC, _BZIP2_MAGIC), at):
        count += 1
        if count > STREAMS_MAX:
            raise ValueError(f"it has more than {STREAMS_MAX} parts")
        unpacker = _unpacker(data[at : at + len(_XZ_MAGIC)])
        while not unpacker.eof:
            # Piece by piece: what is left behind the end of a stream is copied each time.
            piece = data[at : at + _PIECE_BYTES]
            if not piece:
                raise EOFError("it ends early")
            at += len(piece)
            for chunk in _chunks(unpacker, piece):
                whole.write(chunk)
                if whole.tell() > UNPACKED_BYTES_MAX:
                    raise _too_large(source, UNPACKED_BYTES_MAX)
        at -= len(unpacker.unused_data)
    return whole.getvalue()


def _chunks(unpacker: _Unpacker, piece: bytes) -> Iterator[bytes]:
    """What a piece unpacks to, never more than a step at once."""
    while True:
        yield unpacker.decompress(piece, _STEP_BYTES)
        if unpacker.eof:
            return
        # xz and bzip2 keep what they were given; zlib hands back the rest and wants it again.
        if isinstance(unpacker, lzma.LZMADecompressor | bz2.BZ2Decompressor):
            piece, is_done = b"", unpacker.needs_input
        else:
            piece = unpacker.unconsumed_tail
            is_done = not piece
        if is_done:
            return


def _unpacker(data: bytes) -> _Unpacker:
    if data.startswith(_XZ_MAGIC):
        return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES_MAX)
    if data.startswith(_BZIP2_MAGIC):
        return bz2.BZ2Decompressor()
    return zlib.decompressobj(_GZIP_WBITS)


def _too_large(source: str, limit: int) -> DiscoveryError:
    return DiscoveryError(
        source, f"more than {limit} bytes", "the description of one machine", "Is it another file?"
    )
