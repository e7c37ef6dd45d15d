"""ttrpc messages: unary calls with a length, a stream id and a type before each body.

The side that calls numbers its streams with odd, rising ids; an answer carries the id of its
request. Nothing here is particular to NRI.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from google.protobuf.message import EncodeError

from numalign.core.errors import WireError
from numalign.wire.grpc.protobuf import parsed
from numalign.wire.nri._generated import ttrpc_pb2 as pb

BODY_BYTES_MAX: Final = 4 << 20
ERROR_TEXT_MAX: Final = 4096  # characters; people read it in a pod's status
_HEAD: Final = struct.Struct(">IIBB")
_REQUEST: Final = 1
_RESPONSE: Final = 2


class Code(IntEnum):
    """The gRPC codes that we send."""

    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    UNIMPLEMENTED = 12


@dataclass(frozen=True, slots=True)
class Request:
    stream: int
    service: str
    method: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; ``code`` 0 is success."""

    stream: int
    payload: bytes = b""
    code: int = 0
    message: str = ""


Message = Request | Response


def encode_request(request: Request, *, timeout_nano: int = 0) -> bytes:
    body = pb.Request(
        service=request.service,
        method=request.method,
        payload=request.payload,
        timeout_nano=timeout_nano,
    ).SerializeToString()
    return _message(request.stream, _REQUEST, body)


def encode_response(response: Response) -> bytes:
    """The bytes of an answer; one that is too large becomes a refusal that says so."""
    body = _response_body(response)
    if len(body) > BODY_BYTES_MAX:
        text = f"the answer has {len(body)} bytes, {BODY_BYTES_MAX} at most can be sent"
        body = _response_body(Response(response.stream, code=Code.UNKNOWN, message=text))
    return _message(response.stream, _RESPONSE, body)


def _response_body(response: Response) -> bytes:
    found = pb.Response(payload=response.payload)
    if response.code:
        text = response.message.encode(errors="replace").decode()[:ERROR_TEXT_MAX]
        found.status.code = response.code
        found.status.message = text
    try:
        return found.SerializeToString()
    except EncodeError as error:
        raise WireError(f"an answer that cannot be written: {error}") from error


def _message(stream: int, kind: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body), stream, kind, 0) + body


class MessageReader:
    """Makes messages of the byte stream of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are whole now; WireError at the first that is none."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _HEAD.size:
                size, stream, kind, _ = _HEAD.unpack_from(buffer, at)
                if size > BODY_BYTES_MAX:
                    raise WireError(
                        f"found a message of {size} bytes, expected {BODY_BYTES_MAX} at most"
                    )
                end = at + _HEAD.size + size
                if len(buffer) < end:
                    break
                body = bytes(buffer[at + _HEAD.size : end])
                at = end
                yield _decoded(stream, kind, body)
        finally:
            del buffer[:at]


def _decoded(stream: int, kind: int, body: bytes) -> Message:
    if kind == _REQUEST:
        request = parsed(pb.Request, body)
        return Request(stream, request.service, request.method, request.payload)
    if kind == _RESPONSE:
        response = parsed(pb.Response, body)
        status = response.status
        return Response(stream, response.payload, status.code, status.message)
    raise WireError(f"found a message of type {kind}, expected 1 (request) or 2 (response)")
