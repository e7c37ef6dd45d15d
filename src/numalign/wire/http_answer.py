"""Answers of an HTTP/1.1 server, from bytes that come in pieces of any size.

Small on purpose: the peer is an API server behind TLS that we chose, and a general library costs
ten times as much for each of the many small answers that a scheduler waits for. What is not plain
HTTP/1.1 is a ``WireError``; the connection is of no use then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numalign.core.errors import WireError

HEAD_BYTES_MAX: Final = 64 * 1024
_CHUNK_LINE_MAX: Final = 1024
_SIZE_DIGITS_MAX: Final = 15
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class AnswerHead:
    status: int
    headers: dict[bytes, bytes]  # names in small letters
    keeps_open: bool

    def header(self, name: bytes) -> str:
        """One header; empty if it is not there."""
        return self.headers.get(name, b"").decode("latin-1")


class AnswerReader:
    """Reads one answer: ``feed`` gives the part of the body that has come."""

    def __init__(self) -> None:
        self.head: AnswerHead | None = None
        self.is_complete = False
        self._rest = b""
        self._left: int | None = None  # bytes of the body, or of this chunk; None: until the end
        self._is_chunked = False
        self._in_trailer = False

    def feed(self, data: bytes) -> bytes:
        """The next part of the body."""
        if self.is_complete:
            raise WireError("found more than one answer to a request")
        self._rest = self._rest + data if self._rest else data
        while self.head is None:
            if not self._read_head():
                return b""
        if self._is_chunked:
            return self._chunks()
        return self._plain()

    def end(self) -> None:
        """The server has closed the connection."""
        if self.head is not None and self._left is None and not self._is_chunked:
            self.is_complete = True
        if not self.is_complete:
            raise WireError("the server closed the connection in the middle of an answer")

    # The head.

    def _read_head(self) -> bool:
        """Whether a head was there; that of a preliminary answer is passed over."""
        end = self._rest.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_BYTES_MAX:
            if len(self._rest) > HEAD_BYTES_MAX:
                raise WireError(f"found an answer with a head of more than {HEAD_BYTES_MAX} bytes")
            return False
        line, *lines = self._rest[:end].split(b"\r\n")
        self._rest = self._rest[end + 4 :]
        status = _status(line)
        if 100 <= status < 200:
            return True
        headers = dict(map(_header, lines))
        self._is_chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
        closes = headers.get(b"connection", b"").lower() == b"close"
        length = headers.get(b"content-length")
        if not self._is_chunked and length is not None:
            self._left = _size(length, 10)
        elif status in (204, 304):
            self._left = 0
        is_bounded = self._is_chunked or self._left is not None
        keeps_open = line.startswith(b"HTTP/1.1") and is_bounded and not closes
        self.head = AnswerHead(status, headers, keeps_open)
        if self._is_chunked:
            self._left = 0
        return True

    # The body.

    def _plain(self) -> bytes:
        found, self._rest = self._rest, b""
        if self._left is None:
            return found
        if len(found) > self._left:
            raise WireError("found a longer body than the head of the answer says")
        self._left -= len(found)
        self.is_complete = self._left == 0
        return found

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        data, at = self._rest, 0
        while not self.is_complete:
            if self._left:
                # The line end of a chunk counts as part of it here.
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                if self._left >= 2:
                    parts.append(part)
                    break
                parts.append(part[: len(part) - 2 + self._left])
                if self._left:
                    break
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _CHUNK_LINE_MAX:
                    raise WireError("found a chunk whose size does not end")
                break
            line, at = data[at:end], end + 2
            if self._in_trailer:
                self.is_complete = not line
                continue
            size = _size(line.partition(b";")[0].strip(), 16)
            self._in_trailer = size == 0
            self._left = size + 2 if size else 0
        self._rest = data[at:]
        if self.is_complete and self._rest:
            raise WireError("found more than one answer to a request")
        return b"".join(parts)


def _status(line: bytes) -> int:
    version, _, rest = line.partition(b" ")
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit() or len(rest) < 3:
        raise WireError(f"found {line[:100]!r}, expected the first line of an HTTP answer")
    return int(rest[:3])


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():
        raise WireError(f"found {line[:100]!r}, expected a header")
    return name.lower(), value.strip()


def _size(text: bytes, base: int) -> int:
    digits = _HEX if base == 16 else frozenset(b"0123456789")
    if not text or len(text) > _SIZE_DIGITS_MAX or not digits.issuperset(text):
        raise WireError(f"found {text[:100]!r}, expected the size of a body")
    return int(text, base)
