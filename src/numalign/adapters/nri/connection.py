"""One connection to a container runtime as an NRI plugin: frames in, answers out, calls of our own.

Requests are handled one after the other, in the order in which they came. What cannot be read ends
the connection; what one message alone gets wrong is answered with a refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from numalign.core.errors import PeerError, WireError
from numalign.wire.nri import messages, mux, ttrpc
from numalign.wire.nri.ttrpc import Code, Request, Response

CONNECT_SECONDS_MAX: Final = 5.0
CALL_SECONDS_MAX: Final = 5.0
READ_BYTES: Final = 256 << 10
REQUESTS_WAITING_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    payload: bytes = b""
    code: int = 0
    message: str = ""


Handler = Callable[[str, bytes], Awaitable[Reply]]
UNKNOWN_METHOD: Final = Reply(code=Code.UNIMPLEMENTED, message="unknown method")


class NriConnection:
    """A connected socket. ``run`` serves it until the runtime goes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._stream = -1
        self._calls: dict[int, asyncio.Future[Response]] = {}
        self._requests: asyncio.Queue[Request] = asyncio.Queue(REQUESTS_WAITING_MAX)

    async def run(self, handle: Handler) -> None:
        """Takes requests until the end; PeerError or WireError says how it came."""
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._serve(handle))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Ends the connection and every call that still waits."""
        for call in self._calls.values():
            if not call.done():
                call.set_exception(PeerError("the runtime has closed the connection", retry=True))
                call.exception()  # nobody may be waiting any more
        self._calls.clear()
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()

    async def call(self, method: str, payload: bytes) -> bytes:
        """What the runtime answers to one of our calls; PeerError if it refuses."""
        self._stream += 2
        stream = self._stream
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._calls[stream] = future
        request = Request(stream, messages.RUNTIME_SERVICE, method, payload)
        nanos = int(CALL_SECONDS_MAX * 1e9)
        try:
            await self._send(mux.RUNTIME, ttrpc.encode_request(request, timeout_nano=nanos))
            async with asyncio.timeout(CALL_SECONDS_MAX):
                answer = await future
        except TimeoutError as error:
            text = f"{method}: the runtime has not answered for {CALL_SECONDS_MAX:g} s"
            raise PeerError(text, retry=True) from error
        finally:
            self._calls.pop(stream, None)
        if answer.code:
            raise PeerError(f"{method}: {answer.message} (code {answer.code})", retry=True)
        return answer.payload

    async def _send(self, connection: int, message: bytes) -> None:
        try:
            self._writer.write(mux.frames(connection, message))
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise PeerError(f"the runtime takes no answer: {error}", retry=True) from error

    async def _read(self) -> None:
        demultiplexer = mux.Demultiplexer()
        readers = {mux.PLUGIN: ttrpc.MessageReader(), mux.RUNTIME: ttrpc.MessageReader()}
        while True:
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError as error:
                raise PeerError(f"the runtime is gone: {error}", retry=True) from error
            if not data:
                raise PeerError("the runtime has closed the connection", retry=True)
            for connection, payload in demultiplexer.feed(data):
                reader = readers.get(connection)
                for message in reader.feed(payload) if reader is not None else ():
                    self._take(connection, message)

    def _take(self, connection: int, message: ttrpc.Message) -> None:
        if isinstance(message, Request):
            if connection != mux.PLUGIN:
                raise WireError("found a request on the connection on which the runtime answers")
            try:
                self._requests.put_nowait(message)
            except asyncio.QueueFull as error:
                raise WireError(
                    f"found more than {REQUESTS_WAITING_MAX} requests at once"
                ) from error
            return
        call = self._calls.get(message.stream) if connection == mux.RUNTIME else None
        if call is not None and not call.done():
            call.set_result(message)

    async def _serve(self, handle: Handler) -> None:
        while True:
            request = await self._requests.get()
            reply = UNKNOWN_METHOD
            if request.service == messages.PLUGIN_SERVICE:
                try:
                    reply = await handle(request.method, request.payload)
                except WireError as error:
                    text = f"numalign: {request.method}: {error}"
                    reply = Reply(code=Code.INVALID_ARGUMENT, message=text)
            answer = Response(request.stream, reply.payload, reply.code, reply.message)
            await self._send(mux.PLUGIN, ttrpc.encode_response(answer))


async def connected(path: Path) -> NriConnection:
    """A connection to the socket of a runtime; PeerError if there is none."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            reader, writer = await asyncio.open_unix_connection(path)
    except (OSError, TimeoutError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else "no answer"
        raise PeerError(
            f"{path}: cannot connect to the runtime's NRI: {what}", retry=True
        ) from error
    return NriConnection(reader, writer)


async def inherited(descriptor: int) -> NriConnection:
    """The connection that a runtime has opened for the plugin that it started."""
    try:
        found = socket.socket(fileno=descriptor)
        found.settimeout(0)
        reader, writer = await asyncio.open_unix_connection(sock=found)
    except (OSError, ValueError) as error:
        raise PeerError(f"descriptor {descriptor} is no socket of a runtime: {error}") from error
    return NriConnection(reader, writer)
