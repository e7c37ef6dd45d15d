"""Plain requests that are answered past the general server, on real connections."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from numalign.web.serving.http_server import serve_app
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import tcp_listener
from numalign.web.serving.short_way import HELD_BYTES_MAX, ShortAnswers

LIMITS = Limits(header_seconds_max=0.5, connections_max=8)


def post(body: bytes = b"body", path: str = "/verb", *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def by_short(body: bytes) -> bytes | None:
    return None if body == b"wrong" else b"short " + body


@contextlib.asynccontextmanager
async def connected(limits: Limits = LIMITS, keep_alive_seconds: int = 5):
    """A connection to a server whose general way says so in its answers."""

    async def general(request: Request) -> Response:
        return Response(b"general " + await request.body())

    app = Starlette(routes=[Route("/verb", general, methods=["GET", "POST"])])
    welcome = lambda headers, server: b"origin" not in headers and server == "127.0.0.1"  # noqa: E731
    listener = tcp_listener("127.0.0.1", 0, allow_remote=False)
    port = listener.getsockname()[1]
    short = ShortAnswers({"/verb": by_short}, welcome)
    up = asyncio.Event()
    server = asyncio.create_task(
        serve_app(
            app,
            listener,
            limits,
            keep_alive_seconds=keep_alive_seconds,
            short=short,
            on_started=lambda _: up.set(),
        )
    )
    await up.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


async def answer(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(5):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        (size,) = [n for n in head.split(b"\r\n") if n.startswith(b"content-length: ")]
        return await reader.readexactly(int(size.partition(b": ")[2]))


async def asked(found, *parts: bytes, pause: float = 0.01) -> bytes:
    reader, writer = found
    for part in parts:
        writer.write(part)
        await writer.drain()
        if len(parts) > 1:
            await asyncio.sleep(pause)
    return await answer(reader)


def run(story) -> None:
    asyncio.run(story())


def test_plain_requests_are_answered_one_after_the_other():
    async def story():
        async with connected() as found:
            for number in range(3):
                assert await asked(found, post(b"%d" % number)) == b"short %d" % number

    run(story)


def test_a_request_may_come_in_pieces():
    async def story():
        async with connected() as found:
            whole = post(b"a longer body")
            head = whole.index(b"\r\n\r\n") + 4
            assert await asked(found, whole[:head], whole[head:]) == b"short a longer body"
            assert await asked(found, whole[:-5], whole[-5:]) == b"short a longer body"
            assert await asked(found, whole) == b"short a longer body"

    run(story)


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(b"body", "/verb", "Origin: http://evil.example"),
        post(b"wrong"),
        post(b"body", "/verb?query"),
        post(b"b" * (HELD_BYTES_MAX + 1)),
        b"GET /verb HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["not-welcome", "cannot-be-answered", "with-a-query", "large", "get"],
)
def test_others_go_the_general_way_and_the_connection_stays(request_bytes: bytes):
    async def story():
        async with connected() as found:
            assert (await asked(found, request_bytes)).startswith(b"general")
            assert await asked(found, post()) == b"short body"
            assert (await asked(found, request_bytes)).startswith(b"general")

    run(story)


def test_a_head_in_pieces_goes_the_general_way():
    async def story():
        async with connected() as found:
            whole = post()
            assert await asked(found, whole[:20], whole[20:]) == b"general body"
            assert await asked(found, post()) == b"short body"

    run(story)


def test_requests_that_come_together_are_answered_in_their_order():
    async def story():
        async with connected() as (reader, writer):
            writer.write(post(b"1") + post(b"2"))
            assert await answer(reader) == b"general 1"
            assert await answer(reader) == b"general 2"

    run(story)


def test_a_body_that_is_slow_is_waited_for_the_general_way():
    async def story():
        async with connected() as found:
            assert await asked(found, post()[:-1], post()[-1:], pause=1.2) == b"general body"

    run(story)


def test_a_client_may_take_its_time_between_requests_but_not_for_ever():
    async def story():
        async with connected(keep_alive_seconds=1) as found:
            assert await asked(found, post()) == b"short body"
            await asyncio.sleep(0.7)  # longer than a head may take
            assert await asked(found, post()) == b"short body"
            reader, _ = found
            async with asyncio.timeout(5):
                assert await reader.read() == b""

    run(story)


def test_who_only_begins_is_cut_off():
    async def story():
        async with connected() as (reader, writer):
            writer.write(b"POST /verb HT")
            async with asyncio.timeout(5):
                assert await reader.read() == b""

    run(story)
