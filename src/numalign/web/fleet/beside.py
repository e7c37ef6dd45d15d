"""The page of a fleet beside a component that has other work, on an address of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from numalign.core.errors import ConfigError
from numalign.web.fleet.application import fleet_application
from numalign.web.fleet.hub import FleetHub
from numalign.web.host.still import serve_page

log = structlog.get_logger("numalign.page")


async def serve_fleet(
    hub: FleetHub,
    address: tuple[str, int],
    *,
    allowed_hosts: Iterable[str] = (),
    is_asked_for: bool = True,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves on loopback until cancelled.

    A page that nobody has asked for is left out where its address is taken.
    """
    try:
        await serve_page(
            lambda access: fleet_application(hub, access),
            address,
            hub.limits,
            hub.close,
            allowed_hosts=allowed_hosts,
            on_started=on_started,
        )
    except ConfigError as error:
        if is_asked_for:
            raise
        log.warning("page_not_served", error=str(error))
        await hub.closing.wait()
