"""The scheduler over HTTP: the extender's verbs for a kube-scheduler, health and metrics.

The protocol has no log-in but TLS client certificates, so the server listens on loopback (the
network of one pod) unless it can ask for such a certificate. A request is read only up to its
limit, and nothing changes before it is understood in full.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from numalign.apps.scheduler.port import SchedulerPort
from numalign.core.errors import ConfigError, WireError
from numalign.web.answers import JSON_TYPE, ProblemError, json_answer, problem_answer
from numalign.web.api import Limits
from numalign.web.server import QuietServer, tcp_listener
from numalign.wire import extender

# A kube-scheduler keeps idle connections for 90 s; who closes first loses a request at times.
KEEP_ALIVE_SECONDS: Final = 120
BODY_SECONDS_MAX: Final = 10.0
SHUTDOWN_SECONDS: Final = 3.0
LIMITS: Final = Limits(body_bytes_max=extender.BODY_BYTES_MAX, connections_max=256)
PREFIX: Final = "/scheduler"


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of the server, and who may come; None: everybody."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


class ExtenderApi:
    """The verbs over one scheduler."""

    def __init__(self, scheduler: SchedulerPort, *, with_verbs: bool) -> None:
        self._scheduler = scheduler
        self.with_verbs = with_verbs

    async def filter(self, request: Request) -> Response:
        """Which hosts are left."""
        asked = extender.read_hosts_asked(await _body(request))
        problems = self._scheduler.problems()
        if problems:
            return _json(extender.filter_error(f"numalign is not ready: {'; '.join(problems)}"))
        found = self._scheduler.filter(asked)
        return _json(extender.filter_answer(asked, found.kept, found.failed, found.hopeless))

    async def prioritize(self, request: Request) -> Response:
        """How good each host is."""
        asked = extender.read_hosts_asked(await _body(request))
        return _json(extender.prioritize_answer(self._scheduler.prioritize(asked)))

    async def bind(self, request: Request) -> Response:
        """Binds a pod."""
        asked = extender.read_bind_asked(await _body(request))
        return _json(extender.bind_answer(await self._scheduler.bind(asked)))

    async def preempt(self, request: Request) -> Response:
        """Which preemptions would help."""
        asked = extender.read_preempt_asked(await _body(request))
        return _json(extender.preempt_answer(self._scheduler.preempt(asked)))

    async def healthz(self, request: Request) -> Response:
        """Whether it lives."""
        del request
        return json_answer({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Whether it knows the cluster."""
        del request
        problems = self._scheduler.problems()
        status = "failing" if problems else "ok"
        return json_answer({"status": status, "problems": problems}, 503 if problems else 200)

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text format."""
        del request
        return Response(self._scheduler.metrics_text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _json(content: bytes) -> Response:
    return Response(content, media_type=JSON_TYPE)


async def _body(request: Request) -> bytes:
    most = extender.BODY_BYTES_MAX
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise _too_large(f"{announced} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(f"more than {most} bytes")
                parts.append(part)
    except TimeoutError as error:
        text = f"found no end of the body in {BODY_SECONDS_MAX:.0f} s; send it faster"
        raise ProblemError(408, "RequestTimeout", text) from error
    return b"".join(parts)


def _too_large(found: str) -> ProblemError:
    return ProblemError(
        413,
        "RequestTooLarge",
        f"found a body of {found}, at most {extender.BODY_BYTES_MAX} are read; set "
        "nodeCacheCapable: true, so that hosts are sent as names",
        headers={"connection": "close"},
    )


Endpoint = Callable[[Request], Awaitable[Response]]


def application(api: ExtenderApi) -> Starlette:
    """The ASGI application."""
    routes: list[tuple[str, Endpoint, str]] = [
        ("/healthz", api.healthz, "GET"),
        ("/readyz", api.readyz, "GET"),
        ("/metrics", api.metrics, "GET"),
    ]
    if api.with_verbs:
        routes += [
            (f"{PREFIX}/filter", api.filter, "POST"),
            (f"{PREFIX}/prioritize", api.prioritize, "POST"),
            (f"{PREFIX}/bind", api.bind, "POST"),
            (f"{PREFIX}/preempt", api.preempt, "POST"),
        ]
    app = Starlette(
        routes=[Route(path, endpoint, methods=[method]) for path, endpoint, method in routes],
        exception_handlers={
            ProblemError: _told,
            WireError: _told_wire,
            HTTPException: _told_http,
            ClientDisconnect: _left,
        },
    )
    app.router.redirect_slashes = False
    return app


async def _told(request: Request, exc: Exception) -> Response:
    del request
    assert isinstance(exc, ProblemError), "registered for this type only"
    return problem_answer(exc)


async def _told_wire(request: Request, exc: Exception) -> Response:
    del request
    return problem_answer(ProblemError(400, "BadRequest", str(exc)[:1_000]))


async def _told_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException), "registered for this type only"
    error = f"{request.method} {request.url.path[:100]}: {exc.detail}"
    return problem_answer(ProblemError(exc.status_code, "NotFound", error, headers=exc.headers))


async def _left(request: Request, exc: Exception) -> Response:
    """The client went away while it was sending; nobody reads the answer."""
    del request, exc
    return Response(status_code=400)


# The server.


async def serve(
    scheduler: SchedulerPort,
    address: tuple[str, int],
    *,
    tls: Tls | None = None,
    with_verbs: bool = True,
    allow_remote: bool = False,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves until cancelled. ``on_started`` is told the address once it answers.

    Where there are verbs, another host may come only with a certificate.
    """
    is_open = not with_verbs or (tls is not None and tls.client_authority is not None)
    listener = tcp_listener(*address, allow_remote=allow_remote and is_open)
    server = QuietServer(
        application(ExtenderApi(scheduler, with_verbs=with_verbs)),
        LIMITS,
        tls=None if tls is None else tls_context(tls),
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    up = asyncio.create_task(server.up.wait())
    try:
        await asyncio.wait([task, up], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            raise ConfigError(f"{address[0]}:{address[1]}: the server ended at once")
        if on_started is not None:
            host, port = listener.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            on_started(f"{'https' if tls else 'http'}://{shown}:{port}")
        await task
    finally:
        up.cancel()
        server.end.set()
        await asyncio.wait([task], timeout=SHUTDOWN_SECONDS)
        task.cancel()
        await asyncio.gather(task, up, return_exceptions=True)
        listener.close()


def tls_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or newer, with a client certificate where an authority for them is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_authority is not None:
            context.load_verify_locations(tls.client_authority)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"{tls.certificate}, {tls.key}: cannot use this certificate: {exc.strerror or exc}."
        ) from exc
    return context
