"""The sockets that servers listen on: a unix socket for its owner only, and TCP."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from numalign.adapters.local.private import check_private
from numalign.core.errors import ConfigError

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
UNIX_PATH_BYTES_MAX: Final = 107  # sun_path of Linux, less the zero at its end


@contextlib.contextmanager
def unix_listener(path: Path) -> Iterator[socket.socket]:
    """A listening unix socket for its owner only, gone again at the end."""
    if len(os.fsencode(path)) > UNIX_PATH_BYTES_MAX:
        raise ConfigError(
            f"{path}: the path of the socket is longer than {UNIX_PATH_BYTES_MAX} bytes, which "
            "Linux does not allow. Choose a shorter one."
        )
    check_private(path.parent)
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
    try:
        path.unlink()
    except OSError as exc:
        raise ConfigError(f"{path}: cannot take over the socket: {exc.strerror}.") from exc


def tcp_listener(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    """A listening TCP socket; on loopback unless told otherwise."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise ConfigError(f"{host}:{port}: cannot find the address: {exc.strerror}.") from exc
    family, _, _, _, address = found[0]
    if not allow_remote and not is_loopback(str(address[0])):
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


def is_loopback(address: str) -> bool:
    """Whether only this host can reach an address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def host_names(listener: socket.socket, more: Iterable[str]) -> frozenset[str]:
    """The names in the Host header for which a TCP socket is meant, in small letters."""
    names = {*LOOPBACK_NAMES, shown_address(listener).rpartition(":")[0], *more}
    if not is_loopback(listener.getsockname()[0]):
        names.add(os.uname().nodename)
    return frozenset(name.lower() for name in names)


def shown_address(listener: socket.socket) -> str:
    """HOST:PORT of a listening TCP socket, as URLs have it."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
