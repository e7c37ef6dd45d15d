"""What leaves the API: JSON, problems as JSON, and streams that end when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from numalign.apps.agent.views.answers import Change, Error, Health, Pod

JSON_TYPE: Final = "application/json"


class ProblemError(Exception):
    """A request that gets no for an answer: a status code, a reason in one word, and a sentence."""

    def __init__(
        self,
        status: int,
        reason: str,
        error: str,
        *,
        headers: Mapping[str, str] | None = None,
        pod: Pod | None = None,
        changes: list[Change] | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.reason = reason
        self.error = error
        self.headers = headers
        self.pod = pod
        self.changes = changes


def encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        # A name of a file that is no UTF-8, in some text: it is shown, not refused.
        return msgspec.json.encode(_printable(msgspec.to_builtins(value, enc_hook=str)))


def json_answer(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(encoded(value), status, headers, media_type=JSON_TYPE)


def _printable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_printable(key): _printable(item) for key, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
        case _:
            return value


def problem_answer(problem: ProblemError) -> Response:
    value = Error(problem.error, problem.reason, problem.pod, problem.changes)
    return json_answer(value, problem.status, problem.headers)


def health_answer(problems: list[str]) -> Response:
    status = "failing" if problems else "ok"
    return json_answer(Health(status, problems), 503 if problems else 200)


class Stream(Response):
    """An answer whose parts come over time.

    It ends with its parts, or as soon as the client has gone; ``release`` is called either way.
    """

    def __init__(
        self, parts: AsyncIterator[bytes], media_type: str, release: Callable[[], None]
    ) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self._parts = parts
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(head)
            tasks = {
                asyncio.create_task(self._pump(send)),
                asyncio.create_task(_gone(receive)),
            }
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in done:
                task.result()
        finally:
            self._release()

    async def _pump(self, send: Send) -> None:
        try:
            async for part in self._parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(self._parts, "aclose", None)
            if close is not None:
                with suppress(RuntimeError):
                    await close()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# What an application does about exceptions.


async def told_problem(request: Request, exc: Exception) -> Response:
    del request
    assert isinstance(exc, ProblemError), "registered for this type only"
    return problem_answer(exc)


async def left_alone(request: Request, exc: Exception) -> Response:
    """The client went away while it was sending; nobody reads the answer."""
    del request, exc
    return Response(status_code=400)
