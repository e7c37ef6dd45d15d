"""Plain requests that are answered at once, past the general server.

A kube-scheduler waits for the answer to each pod, and a general parser, an application with routes
and a task cost more than finding the host. What is not plain, not whole soon, or not in order goes
the general way, which also finds the words for it: here nothing is ever refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.wire.http_request import PlainHead, plain_head

HELD_BYTES_MAX: Final = 1 << 20
HELD_SECONDS_MAX: Final = 1.0
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"


@dataclass(frozen=True, slots=True)
class ShortAnswers:
    """What can be answered so: JSON to a body of JSON, by path; None if it has to be refused."""

    by_path: Mapping[str, Callable[[bytes], bytes | None]]
    # By the headers, and the address that the request came to.
    is_welcome: Callable[[Mapping[bytes, bytes], str], bool]


class ShortWay:
    """The requests of one connection, as long as it has no other business."""

    def __init__(self, answers: ShortAnswers, server: str) -> None:
        self._answers = answers
        self._server = server
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._head: PlainHead | None = None  # of the request that is held, which is not whole yet

    @property
    def is_holding(self) -> bool:
        return self._head is not None

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What is to be written, and what is to be read the general way. Both may be empty."""
        head = self._head
        if head is None:
            head = plain_head(data)
            if head is None or not self._is_for_us(head):
                return b"", data
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < head.end:
            self._head = head
            return b"", b""
        whole = self.let_go()
        if len(whole) > head.end:
            return b"", whole  # there is another one behind it
        answer = self._answers.by_path[head.path](whole[head.begin :])
        return (b"", whole) if answer is None else (_HEAD % (len(answer), answer), b"")

    def let_go(self) -> bytes:
        """What is held, which is somebody else's from now on."""
        found = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._held_bytes, self._head = 0, None
        return found

    def _is_for_us(self, head: PlainHead) -> bool:
        return (
            head.path in self._answers.by_path
            and head.end <= HELD_BYTES_MAX
            and self._answers.is_welcome(head.headers, self._server)
        )
