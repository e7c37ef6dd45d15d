"""Health and metrics of a component that has no other API, for probes and Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from numalign.web.answers import health_answer, json_answer
from numalign.web.serving.http_server import serve_app
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import tcp_listener

LIMITS: Final = Limits(connections_max=32)


class Probed(Protocol):
    def problems(self) -> list[str]:
        """Why it is not ready; empty if it is."""

    def metrics_text(self) -> bytes:
        """Prometheus' text format."""


def application(component: Probed) -> Starlette:
    """The ASGI application: /healthz, /readyz and /metrics, all read-only."""

    async def healthz(request: Request) -> Response:
        del request
        return json_answer({"status": "ok"})

    async def readyz(request: Request) -> Response:
        del request
        return health_answer(component.problems())

    async def metrics(request: Request) -> Response:
        del request
        return Response(component.metrics_text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
    return Starlette(routes=[Route(path, endpoint) for path, endpoint in routes.items()])


async def serve(
    component: Probed,
    address: tuple[str, int],
    *,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves until cancelled. Nothing can be changed here, so any address may be listened on."""
    listener = tcp_listener(*address, allow_remote=True)
    await serve_app(application(component), listener, LIMITS, on_started=on_started)
