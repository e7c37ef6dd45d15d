"""The agent's API on its unix socket and on TCP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from numalign.apps.agent.metrics import AgentMetrics
from numalign.apps.agent.views.node import agent_source
from numalign.apps.agent.views.port import AgentPort
from numalign.apps.past.recorder import Recorder
from numalign.core.errors import ConfigError
from numalign.core.fleet.measures import Mix
from numalign.web.api import Api
from numalign.web.application import application
from numalign.web.requests import Access
from numalign.web.serving.http_server import SHUTDOWN_SECONDS, QuietServer
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import (
    host_names,
    is_loopback,
    shown_address,
    tcp_listener,
    unix_listener,
)
from numalign.web.serving.tls import Tls, tls_context


@dataclass(frozen=True, slots=True)
class Tcp:
    """Where the API listens besides its unix socket, and to whom it answers there."""

    address: tuple[str, int]
    token: str  # for everything
    read_token: str = ""  # for looking from other hosts
    tls: Tls | None = None
    allowed_hosts: frozenset[str] = frozenset()  # more names for the Host header

    def listener(self) -> socket.socket:
        """ConfigError for an address that others can reach, where they could read along."""
        try:
            return tcp_listener(*self.address, allow_remote=self.tls is not None)
        except ConfigError as error:
            if self.tls is not None:
                raise
            raise ConfigError(f"{error} Other hosts need --tls-cert and --tls-key.") from error

    def access(self, listener: socket.socket) -> Access:
        return Access(
            trusted=False,
            token=self.token,
            read_token=self.read_token,
            hosts=host_names(listener, self.allowed_hosts),
            is_remote=not is_loopback(listener.getsockname()[0]),
        )


async def serve(
    agent: AgentPort,
    *,
    unix_socket: Path,
    tcp: Tcp | None,
    metrics: AgentMetrics | None = None,
    limits: Limits | None = None,
    mix: Mix = (),
    recorder: Recorder | None = None,
    on_started: Callable[[Sequence[str]], None] | None = None,
) -> None:
    """Serves until cancelled.

    Without ``metrics`` the notes are counted from here on; an agent that feeds its own counts
    loses none. ``on_started`` is told the addresses once both sockets answer.
    """
    counted = metrics or AgentMetrics(agent.setup)
    api = Api(agent, limits or Limits(), mix=mix, metrics=counted, recorder=recorder)
    if recorder is not None:
        api.source = agent_source(agent.machine, "history")
    with contextlib.ExitStack() as stack:
        tls = None if tcp is None or tcp.tls is None else tls_context(tcp.tls)
        tcp_socket = None
        if tcp is not None:
            tcp_socket = tcp.listener()
            stack.callback(tcp_socket.close)
        unix = stack.enter_context(unix_listener(unix_socket))
        app = application(api, Access(trusted=True))
        servers = [(QuietServer(app, api.limits, is_spared=True), unix)]
        addresses = [f"unix:{unix_socket}"]
        if tcp is not None and tcp_socket is not None:
            scheme = "http" if tls is None else "https"
            addresses.append(f"{scheme}://{shown_address(tcp_socket)}")
            app = application(api, tcp.access(tcp_socket))
            servers.append((QuietServer(app, api.limits, tls=tls), tcp_socket))
        api.server_problems = lambda: [p for server, _ in servers for p in server.problems()]
        counting = asyncio.create_task(_count(agent, counted)) if metrics is None else None
        try:
            await _run(api, servers, lambda: on_started(addresses) if on_started else None)
        finally:
            api.asking.close()
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
