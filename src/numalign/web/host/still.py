"""A host that stands still over HTTP: the page and what it reads, for this host only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from numalign.web.application import Endpoint, assembled
from numalign.web.host.looking import Looking
from numalign.web.requests import Access
from numalign.web.serving.http_server import serve_app
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import host_names, is_loopback, tcp_listener

Find = Callable[[Request], Awaitable[Looking]]


def looking_routes(find: Find, prefix: str = "") -> list[tuple[str, Endpoint, list[str]]]:
    """The page of a host, and what it reads; ``find`` gives the host that a request means."""

    def way(path: str, name: str, method: str = "GET") -> tuple[str, Endpoint, list[str]]:
        async def call(request: Request) -> Response:
            endpoint: Endpoint = getattr(await find(request), name)
            return await endpoint(request)

        return f"{prefix}{path}", call, [method]

    return [
        way("/", "page"),
        way("/pods", "list_pods"),
        way("/pods/{uid}", "show_pod"),
        way("/pods/{uid}/explanation", "explain_pod"),
        way("/node", "show_node"),
        way("/capacity", "show_capacity"),
        way("/admission", "ask", "POST"),
        way("/decisions", "list_decisions"),
        way("/events", "events"),
        way("/healthz", "healthz"),
        way("/readyz", "readyz"),
    ]


def still_application(looking: Looking, access: Access) -> Starlette:
    async def find(request: Request) -> Looking:
        del request
        return looking

    return assembled(looking_routes(find), access, looking.limits)


async def serve_page(
    application: Callable[[Access], Starlette],
    address: tuple[str, int],
    limits: Limits,
    close: Callable[[], None],
    *,
    allowed_hosts: Iterable[str] = (),
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves on loopback until cancelled; nobody may change anything."""
    listener = tcp_listener(*address, allow_remote=False)
    access = Access(
        trusted=False,
        hosts=host_names(listener, allowed_hosts),
        is_remote=not is_loopback(listener.getsockname()[0]),
    )
    try:
        await serve_app(application(access), listener, limits, on_started=on_started)
    finally:
        close()
