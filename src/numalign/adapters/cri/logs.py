"""Keeps the log files that a container runtime writes within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import structlog

from numalign.adapters.cri.client import CriClient
from numalign.adapters.processes.records import LOG_BYTES_MAX, LOG_FILES_MAX
from numalign.core.errors import PeerError

log = structlog.get_logger("numalign.cri")


async def rotate(
    client: CriClient,
    logs: Iterable[tuple[str, Path]],
    *,
    bytes_max: int = LOG_BYTES_MAX,
    files_max: int = LOG_FILES_MAX,
) -> None:
    """Renames every log that is too long, and has the runtime open it anew for its container."""
    for container_id, path in logs:
        if await asyncio.to_thread(_rename, path, bytes_max, files_max):
            try:
                await client.reopen_log(container_id)
            except PeerError:
                _newest(path).rename(path)  # else nobody would see that it is still written to
                raise


def _rename(path: Path, bytes_max: int, files_max: int) -> bool:
    try:
        if path.stat().st_size <= bytes_max:
            return False
        for number in range(files_max - 2, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            if older.exists():
                older.rename(path.with_name(f"{path.name}.{number + 1}"))
        path.rename(_newest(path))
    except FileNotFoundError:
        return False  # the container has said nothing yet, or its pod is gone
    except OSError as error:
        log.warning("log_not_rotated", path=str(path), error=str(error))
        return False
    return True


def _newest(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")
