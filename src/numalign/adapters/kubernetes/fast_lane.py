"""Many small requests to one server over a few connections that stay open.

A scheduler sends one request for each pod, and with the general HTTP client that costs more than
finding the host. This one knows HTTP/1.1 to one address, without proxies, redirects or cookies.
Any trouble is a ``LaneError``: the connection is closed, and whether the server has acted is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from numalign.core.errors import WireError
from numalign.wire.http_answer import AnswerHead, AnswerReader

# The API server closes idle connections after 90 s: who closes first does not lose a request.
IDLE_SECONDS_MAX: Final = 45.0
CONNECTIONS_MAX: Final = 64
STREAM_BYTES_MAX: Final = 1 << 20  # that wait for a slow reader, before the server has to wait


class LaneError(Exception):
    """A request did not come to its end."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    prefix: str = ""  # of every path
    tls: ssl.SSLContext | None = None


class _Connection(asyncio.Protocol):
    """One connection, on which one request is under way at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reader = AnswerReader()
        self.error: str | None = None
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._waiting: asyncio.Future[None] | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a stream, with or without TLS"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            part = self.reader.feed(data)
        except WireError as error:
            self._end(str(error))
            return
        if part:
            self._parts.append(part)
            self._held_bytes += len(part)
            if not self._is_paused and self._held_bytes > STREAM_BYTES_MAX:
                self._is_paused = True
                self._open.pause_reading()
        # Who waits for a whole answer is woken once.
        if part or self.reader.is_complete or self.reader.head is not None:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        try:
            self.reader.end()
            self.error = "the server closed the connection"
        except WireError as error:
            self.error = self.error or str(exc or error)
        self._transport = None
        self._wake()

    @property
    def _open(self) -> asyncio.Transport:
        assert self._transport is not None, "the connection is open"
        return self._transport

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _end(self, error: str) -> None:
        self.error = error
        self.abort()
        self._wake()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # One request after the other.

    def send(self, data: bytes) -> None:
        self.reader = AnswerReader()
        self._take()
        if self.is_open:
            self._open.write(data)

    async def head(self) -> AnswerHead:
        while self.reader.head is None:
            await self._more()
        return self.reader.head

    async def body(self, bytes_max: int) -> bytes:
        while self._held_bytes <= bytes_max:
            if self.reader.is_complete:
                return self._take()
            await self._more()
            self._resume()
        raise LaneError(f"found an answer of more than {bytes_max} bytes")

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes."""
        while True:
            if self._parts:
                found = self._take()
                self._resume()
                yield found
            elif self.reader.is_complete:
                return
            else:
                await self._more()

    def _take(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        self._held_bytes = 0
        return found

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None:
                self._transport.resume_reading()

    async def _more(self) -> None:
        if self.error is not None or not self.is_open:
            raise LaneError(self.error or "the connection is closed")
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None
        if self.error is not None and not self.reader.is_complete:
            raise LaneError(self.error)


class FastLane:
    """Connections to one server, made when they are needed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[_Connection] = []  # the one used last at the end
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)

    async def close(self) -> None:
        for one in self._idle:
            one.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # in which they are closed

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        seconds_max: float,
        connect_seconds_max: float,
        bytes_max: int,
    ) -> tuple[AnswerHead, bytes]:
        """One whole answer."""
        data = self._request(method, path, headers, params, body)
        async with self._slots:
            connection = await self._connection(connect_seconds_max)
            is_done = False
            try:
                async with asyncio.timeout(seconds_max):
                    connection.send(data)
                    head = await connection.head()
                    found = await connection.body(bytes_max)
                is_done = head.keeps_open
            except TimeoutError as exc:
                raise LaneError(f"no answer within {seconds_max:g} s") from exc
            finally:
                self._give_back(connection, is_reusable=is_done)
            return head, found

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str],
        connect_seconds_max: float,
        silence_seconds_max: float,
    ) -> AsyncIterator[tuple[AnswerHead, AsyncGenerator[bytes, None]]]:
        """An answer whose body is read as it comes, on a connection of its own."""
        connection = await self._connect(connect_seconds_max)
        try:
            async with asyncio.timeout(silence_seconds_max):
                connection.send(self._request("GET", path, headers, params, None))
                head = await connection.head()
            async with contextlib.aclosing(
                _audible(connection.parts(), silence_seconds_max)
            ) as parts:
                yield head, parts
        except TimeoutError as exc:
            raise LaneError(f"nothing came for {silence_seconds_max:g} s") from exc
        finally:
            connection.abort()

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None,
        body: bytes | None,
    ) -> bytes:
        query = f"?{urlencode(params)}" if params else ""
        lines = [f"{method} {self.address.prefix}{path}{query} HTTP/1.1"]
        lines.append(f"host: {self.address.host}:{self.address.port}")
        lines += (f"{name}: {value}" for name, value in headers.items())
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        assert not any("\r" in line or "\n" in line for line in lines), "one header on each line"
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")

    async def _connection(self, seconds_max: float) -> _Connection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            found = self._idle.pop()
            if found.is_open and now - found.idle_since < IDLE_SECONDS_MAX:
                return found
            found.abort()
        return await self._connect(seconds_max)

    async def _connect(self, seconds_max: float) -> _Connection:
        address = self.address
        try:
            async with asyncio.timeout(seconds_max):
                _, made = await asyncio.get_running_loop().create_connection(
                    _Connection,
                    address.host,
                    address.port,
                    ssl=address.tls,
                    server_hostname=address.host if address.tls is not None else None,
                )
        except TimeoutError as exc:
            raise LaneError(f"no connection within {seconds_max:g} s") from exc
        except (OSError, ssl.SSLError) as exc:
            raise LaneError(str(exc) or type(exc).__name__) from exc
        return made

    def _give_back(self, connection: _Connection, *, is_reusable: bool) -> None:
        if is_reusable and connection.is_open:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()


async def _audible(
    parts: AsyncGenerator[bytes, None], seconds_max: float
) -> AsyncGenerator[bytes, None]:
    """The same parts, as long as they do not stop for too long."""
    while True:
        try:
            async with asyncio.timeout(seconds_max):
                part = await anext(parts)
        except StopAsyncIteration:
            return
        yield part
