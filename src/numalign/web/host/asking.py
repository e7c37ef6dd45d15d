"""Questions that change nothing but cost time: would this pod fit, and what would help it?

They are answered one after the other in a thread, each within seconds, and only so many in a
while, so that no reader holds up the host's own decisions for long.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request

from numalign.adapters.daemon.beside import Beside
from numalign.core.errors import WireError
from numalign.core.values.token_bucket import TokenBucket
from numalign.web.answers import JSON_TYPE, ProblemError
from numalign.web.requests import TEXT_CHARS_MAX, body_of
from numalign.wire.pods.asked import Question, manifest_question, question_in

BODY_BYTES_MAX: Final = 256 * 1024
BODY_SECONDS_MAX: Final = 10.0
ANSWER_SECONDS_MAX: Final = 2.0  # then what was found so far is the answer
WAITING_MAX: Final = 8
PER_SECOND: Final = 4.0
BURST: Final = 12.0
KEPT_MAX: Final = 64
YAML_TYPES: Final = frozenset({"application/yaml", "text/yaml", "application/x-yaml"})

T = TypeVar("T")


@dataclass(slots=True)
class Asking:
    """The turn of questions, shared by all sockets of one process."""

    per_second: float = PER_SECOND
    burst: float = BURST
    _bucket: TokenBucket | None = None
    _waiting: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _beside: Beside = field(default_factory=lambda: Beside("numalign-ask", 1))
    # By what was asked: what the answer was made of, and the answer.
    _kept: OrderedDict[str, tuple[object, bytes]] = field(default_factory=OrderedDict)

    async def answer(self, work: Callable[[Callable[[], bool]], T]) -> T:
        """What the work gives, which is told whether it may go on; ProblemError if too many ask."""
        self._take()
        if self._waiting >= WAITING_MAX:
            error = f"{WAITING_MAX} questions are waiting to be answered; try again"
            raise ProblemError(503, "TooManyQuestions", error, headers={"retry-after": "2"})
        self._waiting += 1
        try:
            async with self._turn:
                until = time.monotonic() + ANSWER_SECONDS_MAX
                return await self._beside.run(work, lambda: time.monotonic() < until)
        finally:
            self._waiting -= 1

    async def kept(
        self, name: str, made_of: object, work: Callable[[Callable[[], bool]], bytes]
    ) -> bytes:
        """The same for an answer that holds as long as what it is made of is the same."""
        known = self._kept.get(name)
        if known is None or known[0] is not made_of:
            known = made_of, await self.answer(work)
            self._kept[name] = known
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return known[1]

    def close(self) -> None:
        """Nobody asks any more."""
        self._beside.close()

    def _take(self) -> None:
        now = time.monotonic()
        bucket = self._bucket or TokenBucket.full(
            per_second=self.per_second, burst=self.burst, now=now
        )
        taken = bucket.taken(now)
        if taken is None:
            seconds = max(1, round(bucket.seconds_until_next(now)))
            error = f"more than {self.per_second:g} questions in a second"
            headers = {"retry-after": str(seconds)}
            raise ProblemError(429, "TooManyRequests", error, headers=headers)
        self._bucket = taken


def check_asker(request: Request) -> None:
    """Refuses what a page of another site can have a browser send.

    Our own page says where it comes from, and that must be the host name under which we were
    asked, which was checked before. A browser sends these types of content to another site only
    after asking it, and nobody here answers such a question.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    host = request.headers.get("host", "")
    if (origin is not None and urlsplit(origin).netloc != host) or site not in {
        "same-origin",
        "none",
    }:
        error = (
            f"found a request from the web page {(origin or site)[:100]!r}, "
            "expected none but of this one"
        )
        raise ProblemError(403, "Forbidden", error)
    _kind(request)


def _kind(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON_TYPE and kind not in YAML_TYPES:
        error = f"content-type: found {kind[:100]!r}, expected {JSON_TYPE} or application/yaml"
        raise ProblemError(415, "UnsupportedMediaType", error)
    return kind


async def question_of(request: Request) -> Question:
    """What a request asks; ProblemError if it asks nothing that can be understood."""
    check_asker(request)

    def too_large(_found: str) -> ProblemError:
        error = f"the body is larger than {BODY_BYTES_MAX} bytes"
        return ProblemError(413, "RequestEntityTooLarge", error, headers={"connection": "close"})

    body = await body_of(request, BODY_BYTES_MAX, BODY_SECONDS_MAX, too_large)
    try:
        return question_in(body) if _kind(request) == JSON_TYPE else manifest_question(body)
    except WireError as error:
        text = str(error)
        shown = text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]} ..."
        raise ProblemError(400, "BadRequest", shown) from error
