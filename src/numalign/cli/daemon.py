"""What all commands that go on running share: where they listen, and their log."""

from __future__ import annotations

import sys

import structlog

from numalign.core.errors import ConfigError


def address(listen: str, *, option: str = "--listen") -> tuple[str, int] | None:
    """The host and port of an address; None for an empty one."""
    if not listen:
        return None
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(f"{option}: found {listen!r}, expected an address such as 127.0.0.1:8421")
    return host.strip("[]"), int(port)


def configure_logs() -> None:
    """One line per event on stderr."""
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event")),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
