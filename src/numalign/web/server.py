"""Serving the API on a unix socket and on TCP, with uvicorn on sockets that are made here."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import ssl
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from numalign.adapters.local.askers import peer_of
from numalign.apps.agent.metrics import AgentMetrics
from numalign.apps.agent.views.port import AgentPort
from numalign.core.errors import ConfigError
from numalign.web.api import Api, Limits
from numalign.web.application import application
from numalign.web.requests import Access

SHUTDOWN_SECONDS: Final = 3
UNIX_PATH_BYTES_MAX: Final = 107  # sun_path of Linux, less the zero at its end
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


async def serve(
    agent: AgentPort,
    *,
    unix_socket: Path,
    tcp: tuple[str, int] | None,
    token: str,
    metrics: AgentMetrics | None = None,
    limits: Limits | None = None,
    allow_remote: bool = False,
    on_started: Callable[[Sequence[str]], None] | None = None,
) -> None:
    """Serves until cancelled.

    Without ``metrics`` the notes are counted from here on; an agent that feeds its own counts
    loses none. ``on_started`` is told the addresses once both sockets answer.
    """
    counted = metrics or AgentMetrics(agent.setup)
    api = Api(agent, counted, limits or Limits())
    with contextlib.ExitStack() as stack:
        tcp_socket = None
        if tcp is not None:
            tcp_socket = tcp_listener(*tcp, allow_remote=allow_remote)
            stack.callback(tcp_socket.close)
        unix = stack.enter_context(unix_listener(unix_socket))
        servers = [(_server(api, Access(trusted=True)), unix)]
        addresses = [f"unix:{unix_socket}"]
        if tcp_socket is not None:
            host, port = tcp_socket.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            addresses.append(f"http://{shown}:{port}")
            hosts = frozenset({*_LOOPBACK_NAMES, shown.lower()})
            access = Access(trusted=False, token=token, hosts=hosts if _is_loopback(host) else None)
            servers.append((_server(api, access), tcp_socket))
        counting = asyncio.create_task(_count(agent, counted)) if metrics is None else None
        try:
            await _run(api, servers, lambda: on_started(addresses) if on_started else None)
        finally:
            if counting is not None:
                counting.cancel()
                await asyncio.gather(counting, return_exceptions=True)


async def _count(agent: AgentPort, metrics: AgentMetrics) -> None:
    async for note in agent.subscribe():
        metrics.note(note, agent.state)


async def _run(
    api: Api, servers: list[tuple[QuietServer, socket.socket]], started: Callable[[], None]
) -> None:
    tasks = [asyncio.create_task(server.serve(sockets=[sock])) for server, sock in servers]
    try:
        ups = [asyncio.create_task(server.up.wait()) for server, _ in servers]
        await asyncio.wait([*tasks, *ups], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*ups)
        started()
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        api.closing.set()
        for server, _ in servers:
            server.end.set()
        await asyncio.wait(tasks, timeout=SHUTDOWN_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _server(api: Api, access: Access) -> QuietServer:
    return QuietServer(application(api, access), api.limits)


class QuietServer(uvicorn.Server):
    """A uvicorn that leaves signals to its owner and sleeps while nobody asks."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        tls: ssl.SSLContext | None = None,
        keep_alive_seconds: int = 5,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=_protocol(limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            limit_concurrency=limits.connections_max,
            h11_max_incomplete_event_size=limits.header_bytes_max,
            timeout_keep_alive=keep_alive_seconds,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = tls
        super().__init__(config)
        self.up = asyncio.Event()
        self.end = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As usual, and says so."""
        await super().startup(sockets=sockets)
        self.up.set()

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
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves one application on one socket until cancelled; the socket is closed at the end."""
    server = QuietServer(app, limits, tls=tls, keep_alive_seconds=keep_alive_seconds)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    up = asyncio.create_task(server.up.wait())
    try:
        await asyncio.wait([task, up], return_when=asyncio.FIRST_COMPLETED)
        if on_started is not None and up.done():
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            on_started(f"{'http' if tls is None else 'https'}://{shown}:{port}")
        await task
    finally:
        up.cancel()
        server.end.set()
        await asyncio.wait([task], timeout=SHUTDOWN_SECONDS)
        task.cancel()
        await asyncio.gather(task, up, return_exceptions=True)
        listener.close()


def _protocol(limits: Limits) -> type[asyncio.Protocol]:
    """HTTP with limits on the time that headers may take and that a client may read nothing."""

    class Bounded(H11Protocol):
        _heads: asyncio.TimerHandle | None = None
        _writes: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
            super().connection_made(transport)
            connection = transport.get_extra_info("socket")
            if connection is not None and connection.family == socket.AF_UNIX:
                # Who asks, by the kernel's word; every request of this connection has it.
                self.app_state = {**self.app_state, "asker": peer_of(connection)}
            self._wait_for_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait_for_head()

        def _wait_for_head(self) -> None:
            """A client may take its time between requests, but not within the head of one."""
            answering = self.cycle is not None and not self.cycle.response_complete
            if answering and self._heads is not None:
                self._heads.cancel()
                self._heads = None
            elif not answering and self._heads is None:
                seconds = limits.header_seconds_max
                self._heads = asyncio.get_running_loop().call_later(seconds, self._drop)

        def _drop(self) -> None:
            self._heads = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

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
            for timer in (self._heads, self._writes):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

    return Bounded


# Sockets.


@contextlib.contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """A listening unix socket for its owner only, gone again at the end."""
    if len(os.fsencode(path)) > UNIX_PATH_BYTES_MAX:
        raise ConfigError(
            f"{path}: the path of the socket is longer than {UNIX_PATH_BYTES_MAX} bytes, which "
            "Linux does not allow. Choose a shorter one."
        )
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux makes the file with the mode that the socket has when it is bound, so there is
        # no moment in which others could connect.
        os.fchmod(listener.fileno(), 0o600)
        try:
            listener.bind(str(path))
        except OSError as exc:
            raise ConfigError(f"{path}: cannot listen: {exc.strerror}.") from exc
        made = path.lstat()
        assert stat.S_IMODE(made.st_mode) == 0o600, "the socket is open to others"
        listener.listen(128)
        listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                now = path.lstat()
                if (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino):
                    path.unlink()
    finally:
        listener.close()


def _remove_stale(path: Path) -> None:
    """Removes the socket of an agent that is gone; refuses if one still listens."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as exc:
        raise ConfigError(f"{path}: cannot look at it: {exc.strerror}.") from exc
    if not stat.S_ISSOCK(found.st_mode):
        raise ConfigError(f"{path}: found a file that is no socket. Move it away.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as exc:
            if exc.errno != errno.ECONNREFUSED:
                raise ConfigError(f"{path}: cannot take over the socket: {exc}.") from exc
        else:
            raise ConfigError(f"{path}: another agent listens there. Stop it first.")
    path.unlink()


def tcp_listener(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    """A listening TCP socket; on loopback unless told otherwise."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise ConfigError(f"{host}:{port}: cannot find the address: {exc.strerror}.") from exc
    family, _, _, _, address = found[0]
    if not allow_remote and not _is_loopback(str(address[0])):
        raise ConfigError(
            f"{host}:{port}: found an address that other hosts can reach, expected a loopback one "
            "such as 127.0.0.1."
        )
    try:
        listener = socket.create_server(address, family=family, backlog=128)
    except OSError as exc:
        raise ConfigError(f"{host}:{port}: cannot listen: {exc.strerror}.") from exc
    # Inherited by every connection: an answer in two parts must not wait 40 ms for a receipt.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
    return listener


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
