"""The API as an ASGI application: its routes, and what becomes of everything that goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from numalign.core.errors import NumalignError
from numalign.web.answers import ProblemError, left_alone, problem_answer, told_problem
from numalign.web.api import Api
from numalign.web.host.history import Past
from numalign.web.requests import Access
from numalign.web.runs import Runs
from numalign.web.serving.budgets import Budget
from numalign.web.serving.limits import Limits

_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)

Endpoint = Callable[[Request], Awaitable[Response]]


def application(api: Api, access: Access) -> Starlette:
    """All that an agent answers."""

    async def by_method(request: Request) -> Response:
        match request.method:
            case "POST":
                return await api.create_pod(request)
            case "DELETE":
                return await api.delete_named(request)
            case _:
                return await api.list_pods(request)

    async def one_pod(request: Request) -> Response:
        if request.method == "DELETE":
            return await api.delete_pod(request)
        return await api.show_pod(request)

    runs, past = Runs(api), Past(api.agent, api.recorder)
    routes: list[tuple[str, Endpoint, list[str]]] = [
        ("/", api.page, ["GET"]),
        ("/pods", by_method, ["GET", "POST", "DELETE"]),
        ("/pods/{uid}", one_pod, ["GET", "DELETE"]),
        ("/pods/{uid}/explanation", api.explain_pod, ["GET"]),
        ("/pods/{uid}/log", api.log, ["GET"]),
        ("/runs", runs.start, ["POST"]),
        ("/runs/{uid}", runs.show, ["GET"]),
        ("/node", api.show_node, ["GET"]),
        ("/capacity", api.show_capacity, ["GET"]),
        ("/admission", api.ask, ["POST"]),
        ("/history", past.list, ["GET"]),
        ("/history/{moment}", past.show, ["GET"]),
        ("/manifests", api.list_manifests, ["GET"]),
        ("/capture", api.capture, ["GET"]),
        ("/decisions", api.list_decisions, ["GET"]),
        ("/events", api.events, ["GET"]),
        ("/metrics", api.show_metrics, ["GET"]),
        ("/healthz", api.healthz, ["GET"]),
        ("/readyz", api.readyz, ["GET"]),
        ("/openapi.json", api.openapi, ["GET"]),
    ]
    return assembled(routes, access, api.limits)


def assembled(
    routes: Iterable[tuple[str, Endpoint, list[str]]], access: Access, limits: Limits
) -> Starlette:
    """An application with these routes, each for those who may look only."""

    def checked(endpoint: Endpoint) -> Endpoint:
        async def call(request: Request) -> Response:
            access.check_host(request)
            access.check_reader(request)
            return await endpoint(request)

        return call

    app = Starlette(
        routes=[Route(path, checked(endpoint), methods=m) for path, endpoint, m in routes],
        middleware=[Middleware(_SecurityHeaders)],
        exception_handlers={
            ProblemError: told_problem,
            HTTPException: _answer_http_error,
            NumalignError: _answer_error,
            ClientDisconnect: left_alone,
            Exception: _answer_bug,
        },
    )
    app.router.redirect_slashes = False
    app.state.access = access
    app.state.budget = Budget(limits.streams_max, limits.costly_max)
    return app


async def _answer_http_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException), "registered for this type only"
    reasons = {404: "NotFound", 405: "MethodNotAllowed"}
    reason = reasons.get(exc.status_code, "BadRequest")
    error = f"{request.method} {request.url.path[:100]}: {exc.detail}"
    return problem_answer(ProblemError(exc.status_code, reason, error, headers=exc.headers))


async def _answer_error(request: Request, exc: Exception) -> Response:
    del request
    return problem_answer(ProblemError(503, "Unavailable", str(exc), headers={"retry-after": "1"}))


async def _answer_bug(request: Request, exc: Exception) -> Response:
    """The server logs it; the client learns no more than that it was not its fault."""
    del request
    error = f"unexpected {type(exc).__name__}; the agent's log has the details"
    return problem_answer(ProblemError(500, "InternalError", error))


class _SecurityHeaders:
    """Adds what every answer has, unless the answer says otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                names = {name for name, _ in given}
                added = [pair for pair in _HEADERS if pair[0] not in names]
                message = {**message, "headers": [*given, *added]}
            await send(message)

        await self._app(scope, receive, with_headers)
