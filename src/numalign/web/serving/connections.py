"""Who may connect: so many at once, so many from one address, and never by the last descriptors.

A connection costs a descriptor whether or not anything is asked on it, so it is counted when it is
accepted. Where there is no room, the one that has been idle longest makes place; only when all are
being answered is a newcomer turned away.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

import structlog

from numalign.adapters.local import descriptors

ACCEPTS_AT_ONCE: Final = 16  # then others have their turn
PAUSE_SECONDS: Final = 1.0
HANDSHAKE_SECONDS_MAX: Final = 10.0
LOOPBACK: Final = "loopback"  # its addresses are free for all users of the host, so they are one
_BODY: Final = b'{"error":"too many connections; try again","reason":"TooManyConnections"}'
_TURNED_AWAY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)

log = structlog.get_logger("numalign.web")


class Talk(Protocol):
    """One connection as its HTTP protocol sees it."""

    on_lost: Callable[[], None]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered on it."""

    def abort(self) -> None:
        """Ends it at once."""


@dataclass(frozen=True, slots=True)
class DoorLimits:
    connections_max: int
    per_peer_max: int
    is_spared: bool = False  # whether it may use half of the descriptors that others must leave

    def leaves_descriptors(self) -> bool:
        kept = descriptors.spare()
        return descriptors.free() > (kept // 2 if self.is_spared else kept)


@dataclass(slots=True, eq=False)
class _Visit:
    peer: str
    connection: socket.socket
    talk: Talk
    opening: asyncio.Task[object] | None = None
    is_handed_over: bool = False  # to the event loop, which closes it from then on

    @property
    def is_idle(self) -> bool:
        return not self._is_open or self.talk.is_idle

    @property
    def _is_open(self) -> bool:
        return self.opening is not None and self.opening.done()

    def end(self) -> None:
        if self._is_open:
            self.talk.abort()
        elif self.opening is not None:
            self.opening.cancel()  # a handshake that does not come to its end
            if not self.is_handed_over:
                self.connection.close()


class Door:
    """Accepts on one listening socket for as long as it is open."""

    def __init__(
        self,
        listener: socket.socket,
        new_talk: Callable[[], Talk],
        limits: DoorLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._new_talk = new_talk
        self._limits = limits
        self._tls = tls
        self._visits: dict[_Visit, None] = {}  # the oldest first
        self._pause: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begins to accept."""
        self._pause = None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accepts nobody any more. Connections go on."""
        asyncio.get_running_loop().remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()

    @property
    def problem(self) -> str:
        """Why nobody is let in just now; empty if all is well."""
        return "connections cannot be accepted: the host is out of something" if self._pause else ""

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait_for_better_times(error)
                return
            connection.setblocking(False)  # noqa: FBT003 - the standard library's own signature
            before = len(self._visits)
            self._receive(connection, peer_of(address))
            if len(self._visits) <= before:
                return  # what makes place lets go of its descriptor in the next turn only

    def _wait_for_better_times(self, error: OSError) -> None:
        """The socket stays readable, so asking again at once would only turn in circles."""
        log.warning("accept_failed", error=str(error))
        if (idle := self._longest_idle()) is not None:
            self._end(idle)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._pause = loop.call_later(PAUSE_SECONDS, self.open)

    def _receive(self, connection: socket.socket, peer: str) -> None:
        if not self._make_room(peer):
            _turn_away(connection, self._tls)
            return
        visit = _Visit(peer, connection, self._new_talk())
        visit.talk.on_lost = lambda: self._forget(visit)
        self._visits[visit] = None
        visit.opening = asyncio.get_running_loop().create_task(self._start(visit))

    async def _start(self, visit: _Visit) -> None:
        visit.is_handed_over = True
        loop = asyncio.get_running_loop()
        seconds = None if self._tls is None else HANDSHAKE_SECONDS_MAX
        try:
            await loop.connect_accepted_socket(
                lambda: cast("asyncio.BaseProtocol", visit.talk),
                visit.connection,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
            )
        except (OSError, ssl.SSLError, asyncio.CancelledError):
            self._forget(visit)

    # Making room.

    def _make_room(self, peer: str) -> bool:
        """Whether one more from there can be let in, if need be instead of an idle one."""
        from_there = sum(visit.peer == peer for visit in self._visits)
        if peer != LOOPBACK and from_there >= self._limits.per_peer_max:
            return self._replace(peer)
        if len(self._visits) >= self._limits.connections_max:
            return self._replace()
        return self._limits.leaves_descriptors() or self._replace()

    def _replace(self, peer: str | None = None) -> bool:
        idle = self._longest_idle(peer)
        if idle is not None:
            self._end(idle)
        return idle is not None

    def _longest_idle(self, peer: str | None = None) -> _Visit | None:
        return next((v for v in self._visits if v.is_idle and peer in (None, v.peer)), None)

    def _end(self, visit: _Visit) -> None:
        self._forget(visit)
        visit.end()

    def _forget(self, visit: _Visit) -> None:
        self._visits.pop(visit, None)


def peer_of(address: object) -> str:
    """Who connects, as far as that can be told from an address."""
    if not isinstance(address, tuple):
        return LOOPBACK  # a unix socket, whose file says who may
    host = str(address[0]).partition("%")[0]
    return LOOPBACK if ipaddress.ip_address(host).is_loopback else host


def _turn_away(connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    with connection, contextlib.suppress(OSError):
        if tls is None:
            connection.send(_TURNED_AWAY)
