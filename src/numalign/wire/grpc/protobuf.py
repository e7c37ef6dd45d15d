"""Protobuf messages from bytes."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from numalign.core.errors import WireError

M = TypeVar("M", bound=Message)


def parsed(kind: type[M], data: bytes) -> M:
    """The message of this kind; WireError if the bytes are none."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as exc:
        raise WireError(f"{len(data)} bytes that are not a {kind.DESCRIPTOR.name}") from exc
    return message
