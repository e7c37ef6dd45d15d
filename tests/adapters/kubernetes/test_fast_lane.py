"""Many small requests over a few connections, to a real server on loopback."""

import asyncio
import contextlib

import pytest

from numalign.adapters.kubernetes import fast_lane
from numalign.adapters.kubernetes.fast_lane import Address, FastLane, LaneError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LIMITS = {"headers": {}, "seconds_max": 5.0, "connect_seconds_max": 5.0, "bytes_max": 1000}


class Server:
    """Says what ``answer(request, number)`` gives, and closes where it gives None."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.connections = 0
        self._talks = {}

    async def _serve(self, reader, writer):
        self.connections += 1
        self._talks[asyncio.current_task()] = writer
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lower = head.lower()
                size = 0
                if b"content-length:" in lower:
                    size = int(lower.partition(b"content-length:")[2].split(b"\r\n")[0])
                body = await reader.readexactly(size)
                self.requests.append((head, body))
                for part in self.answer(head, len(self.requests)):
                    if part is None:
                        writer.close()
                        return
                    if isinstance(part, asyncio.Event):
                        await part.wait()
                        continue
                    writer.write(part)
                    await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def lane(self, prefix=""):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        lane = FastLane(Address("127.0.0.1", server.sockets[0].getsockname()[1], prefix))
        try:
            yield lane
        finally:
            await lane.close()
            server.close()
            for writer in self._talks.values():
                writer.close()
            await asyncio.gather(*self._talks)
            await asyncio.gather(
                *(writer.wait_closed() for writer in self._talks.values()), return_exceptions=True
            )


def test_one_connection_serves_one_request_after_the_other():
    async def story():
        server = Server(lambda *_: [OK])
        async with server.lane("/prefix") as lane:
            for _ in range(3):
                head, body = await lane.request(
                    "PATCH", "/a", **{**LIMITS, "headers": {"Accept": "x"}}, body=b"{}"
                )
                assert (head.status, body) == (200, b"ok")
        assert server.connections == 1
        head, body = server.requests[0]
        assert head.startswith(b"PATCH /prefix/a HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b"\r\nAccept: x\r\ncontent-length: 2\r\n" in head
        assert body == b"{}"

    asyncio.run(story())


def test_requests_at_the_same_time_have_connections_of_their_own():
    async def story():
        server = Server(lambda *_: [OK])
        async with server.lane() as lane:
            await asyncio.gather(*(lane.request("GET", "/", **LIMITS) for _ in range(10)))
            assert 1 < server.connections <= 10

    asyncio.run(story())


def test_a_server_that_closes_in_the_middle_is_an_error_and_the_next_request_works():
    async def story():
        server = Server(lambda _, number: [OK[:-1], None] if number == 1 else [OK])
        async with server.lane() as lane:
            with pytest.raises(LaneError, match="in the middle of an answer"):
                await lane.request("GET", "/", **LIMITS)
            assert (await lane.request("GET", "/", **LIMITS))[1] == b"ok"
        assert server.connections == 2

    asyncio.run(story())


def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async def story():
        server = Server(lambda *_: [OK, None])
        async with server.lane() as lane:
            for _ in range(3):
                await lane.request("GET", "/", **LIMITS)
                await asyncio.sleep(0.05)
        assert server.connections == 3

    asyncio.run(story())


def test_silence_is_an_error_and_the_connection_is_not_used_again():
    async def story():
        never = asyncio.Event()
        server = Server(lambda _, number: [never] if number == 1 else [OK])
        async with server.lane() as lane:
            with pytest.raises(LaneError, match=r"no answer within 0\.1 s"):
                await lane.request("GET", "/", **{**LIMITS, "seconds_max": 0.1})
            assert (await lane.request("GET", "/", **LIMITS))[1] == b"ok"
            never.set()
        assert server.connections == 2

    asyncio.run(story())


def test_a_cancelled_request_takes_its_connection_with_it():
    async def story():
        never = asyncio.Event()
        server = Server(lambda _, number: [never, OK] if number == 1 else [OK])
        async with server.lane() as lane:
            task = asyncio.create_task(lane.request("GET", "/", **LIMITS))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            never.set()
            assert (await lane.request("GET", "/", **LIMITS))[1] == b"ok"
        assert server.connections == 2

    asyncio.run(story())


def test_a_too_long_answer_and_one_that_is_none_are_errors():
    async def story():
        long = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000
        server = Server(lambda _, number: [long] if number == 1 else [b"nonsense\r\n\r\n"])
        async with server.lane() as lane:
            with pytest.raises(LaneError, match="more than 1000 bytes"):
                await lane.request("GET", "/", **LIMITS)
            with pytest.raises(LaneError, match="first line of an HTTP answer"):
                await lane.request("GET", "/", **LIMITS)

    asyncio.run(story())


def test_nobody_there_is_an_error():
    async def story():
        lane = FastLane(Address("127.0.0.1", 1))
        with pytest.raises(LaneError):
            await lane.request("GET", "/", **LIMITS)

    asyncio.run(story())


def test_a_stream_is_read_as_it_comes_and_a_slow_reader_makes_the_server_wait():
    async def story():
        more = asyncio.Event()
        start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        piece = b"x" * 60_000
        chunk = b"%x\r\n%s\r\n" % (len(piece), piece)
        server = Server(lambda *_: [start, b"3\r\none\r\n", more, *[chunk] * 100, b"0\r\n\r\n"])
        limits = {"connect_seconds_max": 5.0, "silence_seconds_max": 5.0}
        async with (
            server.lane() as lane,
            lane.stream("/watch", headers={}, params={"a": "b c"}, **limits) as (head, parts),
        ):
            assert head.status == 200
            assert await anext(parts) == b"one"
            more.set()
            rest = b"".join([part async for part in parts])
            assert rest == piece * 100
        assert b"GET /watch?a=b+c HTTP/1.1" in server.requests[0][0]

    asyncio.run(story())


def test_a_stream_that_falls_silent_is_an_error():
    async def story():
        never = asyncio.Event()
        start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
        server = Server(lambda *_: [start, never])
        limits = {"connect_seconds_max": 5.0, "silence_seconds_max": 0.2}
        async with server.lane() as lane:
            with pytest.raises(LaneError, match=r"nothing came for 0\.2 s"):
                async with lane.stream("/", headers={}, params={}, **limits) as (_, parts):
                    async for _ in parts:
                        pass
            never.set()

    asyncio.run(story())


def test_idle_connections_are_given_up_before_the_server_does():
    assert fast_lane.IDLE_SECONDS_MAX < 90
