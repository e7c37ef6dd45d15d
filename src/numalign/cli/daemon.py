"""What all commands that go on running share: where they listen, their log, and their end."""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Final

import structlog

from numalign.adapters.daemon.log_stream import LogStream, is_real, open_missing
from numalign.core.errors import ConfigError
from numalign.web import probes

DRAIN_SECONDS_MAX: Final = 1.0  # of each stream at the end; nobody may be reading


def address(listen: str, *, option: str = "--listen") -> tuple[str, int] | None:
    """The host and port of an address; None for an empty one."""
    if not listen:
        return None
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(f"{option}: found {listen!r}, expected an address such as 127.0.0.1:8421")
    return host.strip("[]"), int(port)


def configure_logs() -> Callable[[], int]:
    """One line per event on stderr, which holds nothing up; gives how many lines were lost."""
    open_missing()
    streams = _unblocked()
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event")),
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    return lambda: sum(stream.dropped for stream in streams)


def _unblocked() -> list[LogStream]:
    """Puts streams that never wait in place of stdout and stderr, as far as these are ours."""
    streams = []
    for number, name in ((1, "stdout"), (2, "stderr")):
        if is_real(getattr(sys, name), number):
            stream = LogStream(number, _lost_text)
            setattr(sys, name, stream)
            atexit.register(stream.drain, DRAIN_SECONDS_MAX)
            streams.append(stream)
    return streams


def _lost_text(count: int) -> str:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return f"timestamp={now} level=warning event=log_lines_dropped count={count}\n"


async def until_stopped(
    work: Coroutine[None, None, None],
    component: probes.Probed,
    address: tuple[str, int] | None,
) -> None:
    """Runs a component and serves its probes until SIGTERM or SIGINT, or until it fails."""
    works = [work]
    if address is not None:
        works.append(probes.serve(component, address))
    await all_until_stopped(works)


async def all_until_stopped(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Runs all of it until SIGTERM or SIGINT, or until one of them ends or fails."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = [loop.create_task(work) for work in works]
    waiter = loop.create_task(stop.wait())
    done, _ = await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, waiter):
        task.cancel()
    await asyncio.gather(*tasks, waiter, return_exceptions=True)
    for task in done:
        if task is not waiter:
            task.result()
