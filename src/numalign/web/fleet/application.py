"""A fleet over HTTP, for those who look: the page, its tiles, and each host's own page."""

from __future__ import annotations

from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from numalign.web.answers import Stream, encoded
from numalign.web.application import Endpoint, assembled
from numalign.web.fleet.hub import FleetHub
from numalign.web.fleet.page import FLEET
from numalign.web.host.looking import Looking, costly
from numalign.web.host.still import looking_routes
from numalign.web.requests import Access, budget_of

HOST: Final = "/hosts/{host}"
Route_ = tuple[str, Endpoint, list[str]]


def fleet_routes(hub: FleetHub) -> list[Route_]:
    """All that pages of a fleet ask."""

    async def page(request: Request) -> Response:
        del request
        headers = {"content-security-policy": FLEET.policy}
        return Response(FLEET.text, headers=headers, media_type="text/html; charset=utf-8")

    async def fleet(request: Request) -> Response:
        await hub.refresh()
        since = request.query_params.get("since", "")
        return await costly(request, None, (), lambda: encoded(hub.answer(since)))

    async def events(request: Request) -> Response:
        return _stream(request, hub, None)

    async def host_events(request: Request) -> Response:
        await hub.host(request.path_params["host"])
        return _stream(request, hub, request.path_params["host"])

    async def to_page(request: Request) -> Response:
        return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/", 308)

    async def find(request: Request) -> Looking:
        return await hub.host(request.path_params["host"])

    return [
        ("/", page, ["GET"]),
        ("/fleet", fleet, ["GET"]),
        ("/fleet/events", events, ["GET"]),
        (HOST, to_page, ["GET"]),
        (f"{HOST}/events", host_events, ["GET"]),
        *looking_routes(find, HOST),
    ]


def _stream(request: Request, hub: FleetHub, host: str | None) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    budget = budget_of(request)
    budget.take_stream()
    return Stream(hub.changes(host), "text/event-stream", budget.give_stream_back)


def fleet_application(hub: FleetHub, access: Access) -> Starlette:
    return assembled(fleet_routes(hub), access, hub.limits)
