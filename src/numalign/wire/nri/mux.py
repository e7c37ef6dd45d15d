"""The lowest layer of NRI: frames that carry two logical connections over one socket.

A frame is a connection id and a length, big endian, and so many bytes. The payloads of one
connection are a byte stream when they come in. What goes out must be cut more carefully than the
format asks for: the runtime's reader takes a frame of at most 4096 bytes, and none that belongs to
two messages; otherwise it closes the connection and creates containers without us.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from numalign.core.errors import WireError

PLUGIN: Final = 1  # the runtime calls, we answer
RUNTIME: Final = 2  # we call, the runtime answers
PAYLOAD_BYTES_MAX: Final = (4 << 20) + 10  # of a frame that comes in
FRAME_BYTES_MAX: Final = 4096  # of the payload of one that goes out
_HEAD: Final = struct.Struct(">II")


def frames(connection: int, message: bytes) -> bytes:
    """The frames of one message."""
    parts = []
    for start in range(0, len(message), FRAME_BYTES_MAX):
        part = message[start : start + FRAME_BYTES_MAX]
        parts += [_HEAD.pack(connection, len(part)), part]
    return b"".join(parts)


class Demultiplexer:
    """Takes what the socket gives and hands out payloads with their connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The payloads that are whole now; WireError if a length is beyond all reason."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _HEAD.size:
                connection, size = _HEAD.unpack_from(buffer, at)
                if size > PAYLOAD_BYTES_MAX:
                    raise WireError(
                        f"found a frame of {size} bytes, expected {PAYLOAD_BYTES_MAX} at most"
                    )
                end = at + _HEAD.size + size
                if len(buffer) < end:
                    break
                payload = bytes(buffer[at + _HEAD.size : end])
                at = end
                yield connection, payload
        finally:
            del buffer[:at]
