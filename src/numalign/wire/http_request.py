"""Whole HTTP/1.1 requests in their plainest form, such as programs send many of.

Everything else (pieces of unknown size, upgrades, pages of browsers, what is wrong) is not looked
at here: it is for a general library, which knows what to say to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HEAD_BYTES_MAX: Final = 4 * 1024
_SIZE_DIGITS_MAX: Final = 9
# A request that has one of these asks for more than one answer to one body.
_SPECIAL: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_KEEP: Final = b"keep-alive"


@dataclass(frozen=True, slots=True)
class PlainHead:
    path: str
    headers: Mapping[bytes, bytes]  # names in small letters
    begin: int  # of the body
    end: int  # of the request


def plain_head(data: bytes) -> PlainHead | None:
    """The head of a POST with a body of known size; None if it is another one, or not whole."""
    begin = data.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX) + 4
    if begin < 4 or not data.startswith(b"POST /"):
        return None
    line, *lines = data[: begin - 4].split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or words[2] != b"HTTP/1.1" or not line.isascii():
        return None
    headers: dict[bytes, bytes] = {}
    for one in lines:
        name, colon, value = one.partition(b":")
        if not colon or not name or name != name.strip():
            return None
        headers[name.lower()] = value.strip()
    if headers.get(b"connection", _KEEP).lower() != _KEEP:
        return None
    size = headers.get(b"content-length", b"")
    if len(headers) != len(lines) or not _SPECIAL.isdisjoint(headers):
        return None
    if not size.isdigit() or len(size) > _SIZE_DIGITS_MAX:
        return None
    return PlainHead(words[1].decode(), headers, begin, begin + int(size))
