"""The scheduler over HTTP: the extender's verbs for a kube-scheduler, health and metrics.

The protocol has no log-in but TLS client certificates, so the server listens on loopback (the
network of one pod) unless it can ask for such a certificate. What a web page could have a browser
send is refused: another name of the host, another type of content, an origin. A request is read
only up to its limit, and nothing changes before it is understood in full.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numalign.apps.scheduler.driver import Scheduler
from numalign.core.errors import ConfigError, WireError
from numalign.web import probes
from numalign.web.answers import JSON_TYPE, ProblemError, left_alone, problem_answer, told_problem
from numalign.web.requests import Access, body_of
from numalign.web.serving.http_server import serve_app
from numalign.web.serving.limits import Limits
from numalign.web.serving.listeners import host_names, is_loopback, tcp_listener
from numalign.web.serving.short_way import ShortAnswers
from numalign.web.serving.tls import Tls, tls_context
from numalign.wire.kubernetes import extender

# A kube-scheduler keeps idle connections for 90 s; who closes first loses a request at times.
KEEP_ALIVE_SECONDS: Final = 120
BODY_SECONDS_MAX: Final = 10.0
LIMITS: Final = Limits(body_bytes_max=extender.BODY_BYTES_MAX, connections_max=256)
PREFIX: Final = "/scheduler"


class ExtenderApi:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def filter(self, body: bytes) -> bytes:
        asked = extender.read_hosts_asked(body)
        problems = self.scheduler.problems()
        if problems:
            return extender.filter_error(f"numalign is not ready: {'; '.join(problems)}")
        found = self.scheduler.filter(asked)
        if found.error:
            return extender.filter_error(f"numalign: {found.error}")
        return extender.filter_answer(asked, found.kept, found.failed, found.hopeless)

    def prioritize(self, body: bytes) -> bytes:
        asked = extender.read_hosts_asked(body)
        return extender.prioritize_answer(self.scheduler.prioritize(asked))

    def preempt(self, body: bytes) -> bytes:
        asked = extender.read_preempt_asked(body)
        return extender.preempt_answer(self.scheduler.preempt(asked))

    async def bind(self, request: Request) -> Response:
        asked = extender.read_bind_asked(await _body(request))
        return _json(extender.bind_answer(await self.scheduler.bind(asked)))

    @property
    def at_once(self) -> dict[str, Callable[[bytes], bytes]]:
        """The verbs that wait for nothing, by path."""
        verbs = (self.filter, self.prioritize, self.preempt)
        return {f"{PREFIX}/{verb.__name__}": verb for verb in verbs}


def short_answers(api: ExtenderApi, access: Access) -> ShortAnswers:
    """The same verbs for plain requests that are in order."""

    def or_none(verb: Callable[[bytes], bytes]) -> Callable[[bytes], bytes | None]:
        def answer(body: bytes) -> bytes | None:
            try:
                return verb(body)
            except Exception:
                return None  # the general way meets it too, and tells of it

        return answer

    def is_welcome(headers: Mapping[bytes, bytes], server: str) -> bool:
        host, kind = headers.get(b"host", b""), headers.get(b"content-type")
        is_named = access.is_own_name(host.decode("latin-1"), server)
        return is_named and kind == JSON_TYPE.encode() and b"origin" not in headers

    return ShortAnswers({path: or_none(verb) for path, verb in api.at_once.items()}, is_welcome)


def _json(content: bytes) -> Response:
    return Response(content, media_type=JSON_TYPE)


async def _body(request: Request) -> bytes:
    return await body_of(request, extender.BODY_BYTES_MAX, BODY_SECONDS_MAX, _too_large)


def _too_large(found: str) -> ProblemError:
    return ProblemError(
        413,
        "RequestTooLarge",
        f"found a body of {found}, at most {extender.BODY_BYTES_MAX} are read; set "
        "nodeCacheCapable: true, so that hosts are sent as names",
        headers={"connection": "close"},
    )


Endpoint = Callable[[Request], Awaitable[Response]]


def application(api: ExtenderApi, access: Access) -> Starlette:
    def checked(endpoint: Endpoint) -> Endpoint:
        async def call(request: Request) -> Response:
            access.check_sender(request)
            return await endpoint(request)

        return call

    def read(verb: Callable[[bytes], bytes]) -> Endpoint:
        async def call(request: Request) -> Response:
            return _json(verb(await _body(request)))

        return call

    verbs: dict[str, Endpoint] = {path: read(verb) for path, verb in api.at_once.items()}
    verbs[f"{PREFIX}/bind"] = api.bind
    routes: list[BaseRoute] = [
        Route(path, checked(endpoint), methods=["POST"]) for path, endpoint in verbs.items()
    ]
    routes += probes.application(api.scheduler).routes
    app = Starlette(
        routes=routes,
        exception_handlers={
            ProblemError: told_problem,
            WireError: _answer_wire_error,
            HTTPException: _answer_http_error,
            ClientDisconnect: left_alone,
        },
    )
    app.router.redirect_slashes = False
    return app


async def _answer_wire_error(request: Request, exc: Exception) -> Response:
    del request
    return problem_answer(ProblemError(400, "BadRequest", str(exc)[:1_000]))


async def _answer_http_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException), "registered for this type only"
    error = f"{request.method} {request.url.path[:100]}: {exc.detail}"
    reason = "MethodNotAllowed" if exc.status_code == 405 else "NotFound"
    return problem_answer(ProblemError(exc.status_code, reason, error, headers=exc.headers))


# The server.


async def serve(
    scheduler: Scheduler,
    address: tuple[str, int],
    *,
    tls: Tls | None = None,
    allowed_hosts: Iterable[str] = (),
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves until cancelled. From other hosts one may come only with a certificate."""
    context = None if tls is None else tls_context(tls)
    is_safe = tls is not None and tls.client_authority is not None
    try:
        listener = tcp_listener(*address, allow_remote=is_safe)
    except ConfigError as error:
        if is_safe:
            raise
        raise ConfigError(
            f"{error} A kube-scheduler elsewhere needs --tls-cert, --tls-key and --tls-client-ca."
        ) from error
    access = Access(
        trusted=True,
        hosts=host_names(listener, allowed_hosts),
        is_remote=not is_loopback(listener.getsockname()[0]),
    )
    api = ExtenderApi(scheduler)
    await serve_app(
        application(api, access),
        listener,
        LIMITS,
        short=short_answers(api, access),
        tls=context,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        on_started=on_started,
    )
