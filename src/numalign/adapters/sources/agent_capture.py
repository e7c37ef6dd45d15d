"""A running agent's bundle over its API: on a unix socket or on loopback."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from numalign.core.errors import ConfigError, PeerError

PATH: Final = "/capture"
SECONDS_MAX: Final = 10.0
BYTES_MAX: Final = 64 * 1024 * 1024


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS_MAX)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket's path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS_MAX)
        self.sock.connect(self._path)


def fetched(url: str) -> bytes:
    """The bytes of the agent's bundle; PeerError if it does not answer."""
    connection = _connection(url)
    try:
        connection.request("GET", PATH)
        answer = connection.getresponse()
        data = answer.read(BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as exc:
        reason = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
        raise PeerError(
            f"{url}: no agent answers there ({reason}). Start one with 'numalign agent'.",
            retry=True,
        ) from exc
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise PeerError(f"{url}: found status {answer.status}, expected a capture; is this ours?")
    if len(data) > BYTES_MAX:
        raise PeerError(f"{url}: found more than {BYTES_MAX} bytes, expected a capture.")
    return data


def _connection(url: str) -> http.client.HTTPConnection:
    if url.startswith("unix://"):
        return _UnixConnection(str(Path(url.removeprefix("unix://"))))
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise ConfigError(f"found the URL {url!r}: {exc}.") from exc
    if not host:
        raise ConfigError(f"found the URL {url!r}, expected one such as http://127.0.0.1:8421.")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, port, timeout=SECONDS_MAX)
