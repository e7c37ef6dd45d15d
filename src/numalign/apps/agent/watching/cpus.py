"""Follows which CPUs of this host are online."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.local.files import read_bounded
from numalign.apps.agent import events
from numalign.core.errors import NumalignError
from numalign.core.values.sets import parse_list

LOOK_SECONDS: Final = 1.0
ONLINE: Final = "devices/system/cpu/online"
_BYTES_MAX: Final = 64 * 1024

log = structlog.get_logger("numalign.agent")


async def follow_online(sysfs: Path, tell: Callable[[events.Event], None]) -> None:
    """Tells the agent whenever CPUs go or come; a kernel without such a file has all of them."""
    known: int | None = None
    while True:
        try:
            online = parse_list(read_bounded(sysfs / ONLINE, _BYTES_MAX).decode().strip())
        except (OSError, UnicodeDecodeError, NumalignError) as error:
            if known is None:
                log.info("online_cpus_unknown", error=str(error))
                known = 0
        else:
            if online and online != known:
                tell(events.CpusOnline(online))
                known = online
        await asyncio.sleep(LOOK_SECONDS)
