"""HTTP on sockets made elsewhere: uvicorn, within limits of connections, size and time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from numalign.adapters.local.askers import peer_of
from numalign.web.answers import ProblemError, problem_answer
from numalign.web.serving.connections import Door, DoorLimits
from numalign.web.serving.gathered_writes import GatheredWrites
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import shown_address
from numalign.web.serving.short_way import HELD_SECONDS_MAX, ShortAnswers, ShortWay

SHUTDOWN_SECONDS: Final = 3


class QuietServer(uvicorn.Server):
    """A uvicorn that leaves signals to its owner and sleeps while nobody asks."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        tls: ssl.SSLContext | None = None,
        keep_alive_seconds: int = 5,
        is_spared: bool = False,
        short: ShortAnswers | None = None,
    ) -> None:
        config = uvicorn.Config(
            _bounded_heads(app, limits.header_bytes_max),
            http=_protocol(limits, short),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=limits.header_bytes_max,
            timeout_keep_alive=keep_alive_seconds,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = tls
        super().__init__(config)
        self.up = asyncio.Event()
        self.end = asyncio.Event()
        most = limits.connections_max
        self._limits = DoorLimits(most, limits.per_peer_max or most, is_spared=is_spared)
        self._doors: list[Door] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept, within the limits, and says so."""
        self.servers = []
        self._doors = [
            Door(one, self._new_talk, self._limits, self.config.ssl) for one in sockets or ()
        ]
        for door in self._doors:
            door.open()
        self.started = True
        self.up.set()

    def _new_talk(self) -> Any:  # noqa: ANN401 - a class that is made at run time
        return self.config.http_protocol_class(  # type: ignore[call-arg] # uvicorn's own
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def problems(self) -> list[str]:
        """What keeps clients out just now."""
        return [door.problem for door in self._doors if door.problem]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts nobody any more, then ends as usual."""
        for door in self._doors:
            door.close()
        await super().shutdown(sockets=sockets)

    async def main_loop(self) -> None:
        """Waits for the end instead of looking ten times a second."""
        await self.end.wait()


async def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    limits: Limits,
    *,
    tls: ssl.SSLContext | None = None,
    keep_alive_seconds: int = 5,
    short: ShortAnswers | None = None,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves one application on one socket until cancelled; the socket is closed at the end."""
    server = QuietServer(app, limits, tls=tls, keep_alive_seconds=keep_alive_seconds, short=short)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    up = asyncio.create_task(server.up.wait())
    try:
        await asyncio.wait([task, up], return_when=asyncio.FIRST_COMPLETED)
        if on_started is not None and up.done():
            on_started(f"{'http' if tls is None else 'https'}://{shown_address(listener)}")
        await task
    finally:
        up.cancel()
        server.end.set()
        await asyncio.wait([task], timeout=SHUTDOWN_SECONDS)
        task.cancel()
        await asyncio.gather(task, up, return_exceptions=True)
        listener.close()


def _bounded_heads(app: ASGIApp, bytes_max: int) -> ASGIApp:
    """The same application for requests whose head is no longer than it may be.

    The parser bounds only what comes in pieces: a head that arrives at once is read whole.
    """

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and head_bytes(scope) > bytes_max:
            error = f"the head of the request is longer than {bytes_max} bytes"
            headers = {"connection": "close"}
            problem = ProblemError(431, "RequestHeaderFieldsTooLarge", error, headers=headers)
            await problem_answer(problem)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return bounded


def head_bytes(scope: Scope) -> int:
    """How long the head of a request was, without the white space that nobody counts."""
    line = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"]) + 12
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _protocol(limits: Limits, short: ShortAnswers | None = None) -> type[asyncio.Protocol]:
    """HTTP with limits on the time that headers may take and that a client may read nothing."""

    class Bounded(H11Protocol):
        on_lost: Callable[[], None] = staticmethod(lambda: None)
        _heads: asyncio.TimerHandle | None = None
        _writes: asyncio.TimerHandle | None = None
        _short: ShortWay | None = None
        _holds: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
            super().connection_made(GatheredWrites(transport))  # type: ignore[arg-type] # as one
            connection = transport.get_extra_info("socket")
            if connection is not None and connection.family == socket.AF_UNIX:
                # Who asks, by the kernel's word; every request of this connection has it.
                self.app_state = {**self.app_state, "asker": peer_of(connection)}
            if short is not None and self.server is not None:
                self._short = ShortWay(short, self.server[0])
            self._wait_for_head()

        def data_received(self, data: bytes) -> None:
            if self._short is not None and (self._short.is_holding or self._is_between_requests):
                data = self._answer_at_once(self._short, data)
            if data:
                super().data_received(data)
                self._wait_for_head()

        @property
        def _is_between_requests(self) -> bool:
            states = self.conn.our_state, self.conn.their_state
            return states == (h11.IDLE, h11.IDLE) and not self.conn.trailing_data[0]

        def _answer_at_once(self, way: ShortWay, data: bytes) -> bytes:
            """What is left to be read the general way."""
            answer, rest = way.feed(data)
            if self._holds is not None and not way.is_holding:
                self._holds.cancel()
                self._holds = None
            if answer:
                self._end_wait_for_head()
                self._unset_keepalive_if_required()
                self.transport.write(answer)
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
            elif way.is_holding and self._holds is None:
                self._holds = self.loop.call_later(HELD_SECONDS_MAX, self._hold_no_longer)
            return rest

        def _hold_no_longer(self) -> None:
            """The rest does not come: whoever reads the general way knows what to do about it."""
            self._holds = None
            if self._short is not None and self._short.is_holding:
                super().data_received(self._short.let_go())
                self._wait_for_head()

        def _end_wait_for_head(self) -> None:
            if self._heads is not None:
                self._heads.cancel()
                self._heads = None

        def _wait_for_head(self) -> None:
            """A client may take its time between requests, but not within the head of one."""
            if not self.is_idle:
                self._end_wait_for_head()
            elif self._heads is None:
                seconds = limits.header_seconds_max
                self._heads = asyncio.get_running_loop().call_later(seconds, self._drop)

        def _drop(self) -> None:
            self._heads = None
            if self.is_idle:
                self.abort()

        def pause_writing(self) -> None:
            super().pause_writing()
            seconds = limits.write_seconds_max
            loop = asyncio.get_running_loop()
            self._writes = loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._writes is not None:
                self._writes.cancel()
                self._writes = None

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._heads, self._writes, self._holds):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)
            self.on_lost()

        @property
        def is_idle(self) -> bool:
            is_holding = self._short is not None and self._short.is_holding
            return not is_holding and (self.cycle is None or self.cycle.response_complete)

        def abort(self) -> None:
            self.transport.abort()

    return Bounded
