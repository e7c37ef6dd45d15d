"""The agent over HTTP: the same values as the command line shows, and changes for those allowed.

Who comes over the unix socket may do everything: the socket is for its owner only. Over TCP
everybody on the host may look, but the values of environment variables, the logs and all changes
need the token. Every size, count and rate has a limit.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from numalign.apps.agent.captured import captured
from numalign.apps.agent.events import Answer, Note
from numalign.apps.agent.metrics import CONTENT_TYPE, AgentMetrics
from numalign.apps.agent.model import AgentPod, RunState
from numalign.apps.agent.node_view import node_view
from numalign.apps.agent.port import AgentPort
from numalign.apps.agent.views import pod_list, pod_view, time_text
from numalign.core.decisions import Trace
from numalign.core.errors import NumalignError, WireError
from numalign.core.rate import TokenBucket
from numalign.web import log_files
from numalign.web.answers import ProblemError, Stream, json_answer, problem_answer
from numalign.web.openapi import document
from numalign.web.page import CONTENT_POLICY, PAGE
from numalign.wire.bundle import packed
from numalign.wire.pod_records import PodRecord
from numalign.wire.pods import load_all

TAIL_LINES_MAX: Final = 1_000_000
DECISIONS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 253
# A uid becomes part of paths, so less is allowed than Kubernetes does.
_UID: Final = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,62}", re.ASCII)
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # those of Kubernetes' generated names
_TRUE: Final = frozenset({"", "1", "true"})
_FALSE: Final = frozenset({"0", "false"})
_UNAVAILABLE: Final = frozenset({"StateNotSaved"})  # not the pod's fault: try again

_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much clients may ask for."""

    body_bytes_max: int = 1024 * 1024
    body_seconds_max: float = 10.0
    header_bytes_max: int = 16 * 1024
    header_seconds_max: float = 10.0
    write_seconds_max: float = 30.0  # a client that reads nothing for so long is dropped
    connections_max: int = 128  # of each socket
    streams_max: int = 32  # events and logs, of both sockets together
    changes_per_second: float = 200.0
    changes_burst: float = 400.0
    ping_seconds: float = 15.0  # a quiet stream says that it lives


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what on one socket."""

    trusted: bool  # whoever can connect may change things
    token: str = ""
    hosts: frozenset[str] | None = None  # names in the Host header; None: any

    def allows(self, request: Request) -> bool:
        """Whether the request may change things."""
        if self.trusted:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self.token:
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def check_host(self, request: Request) -> None:
        """Refuses a page of another site that had its name resolved to this host."""
        if self.hosts is None:
            return
        host = request.headers.get("host", "")
        name = host[: host.index("]") + 1] if "]" in host else host.partition(":")[0]
        if name.lower() not in self.hosts:
            raise ProblemError(
                421, "MisdirectedRequest", f"found the host name {host[:100]!r}, expected localhost"
            )


@dataclass(slots=True)
class Api:
    """One agent's API, served on any number of sockets."""

    agent: AgentPort
    metrics: AgentMetrics
    limits: Limits = field(default_factory=Limits)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    _bucket: TokenBucket | None = None
    _under_way: set[tuple[str, str]] = field(default_factory=set)  # names being submitted

    # Looking.

    async def list_pods(self, request: Request) -> Response:
        """A v1.PodList, all or by name."""
        agent, query = self.agent, request.query_params
        uids = [
            uid
            for uid, known in agent.state.pods.items()
            if query.get("name", known.pod.name) == known.pod.name
            and query.get("namespace", known.pod.namespace) == known.pod.namespace
        ]
        env = _access(request).allows(request)
        return json_answer(pod_list(agent.setup, agent.state, uids, env=env))

    async def show_pod(self, request: Request) -> Response:
        """One v1.Pod."""
        uid = self._known(request).pod.uid
        return json_answer(self._pod(uid, env=_access(request).allows(request)))

    async def show_node(self, request: Request) -> Response:
        """The host."""
        del request
        return json_answer(node_view(self.agent.setup, self.agent.state, self.agent.machine))

    async def capture(self, request: Request) -> Response:
        """A bundle, as 'numalign capture' makes it."""
        del request
        agent = self.agent
        found = captured(agent.setup, agent.state, agent.machine, time_text(time.time()) or "")
        headers = {"content-disposition": 'attachment; filename="numalign-capture.tar.gz"'}
        # Packing a large machine takes a moment in which others are to be answered too.
        data = await asyncio.to_thread(packed, found)
        return Response(data, headers=headers, media_type="application/gzip")

    async def list_decisions(self, request: Request) -> Response:
        """The last decisions with their traces, newest first."""
        limit = _number(request, "limit", 1, DECISIONS_MAX) or DECISIONS_MAX
        uid = request.query_params.get("uid")
        found = [d for d in reversed(self.agent.recent) if uid is None or d.get("uid") == uid]
        if not _flag(request, "trace", default="true"):
            found = [{key: d[key] for key in d if key != "trace"} for d in found]
        return json_answer({"items": found[:limit]})

    async def show_metrics(self, request: Request) -> Response:
        """Prometheus' text format."""
        del request
        return Response(self.metrics.text(self.agent.state), media_type=CONTENT_TYPE)

    async def healthz(self, request: Request) -> Response:
        """Whether the agent lives."""
        del request
        return json_answer({"status": "ok", "problems": []})

    async def readyz(self, request: Request) -> Response:
        """Whether all is well."""
        del request
        problems = self.agent.health()
        status = "failing" if problems else "ok"
        return json_answer({"status": status, "problems": problems}, 503 if problems else 200)

    async def openapi(self, request: Request) -> Response:
        """This API as OpenAPI."""
        del request
        return json_answer(document())

    async def page(self, request: Request) -> Response:
        """The page for people."""
        del request
        headers = {"content-security-policy": CONTENT_POLICY}
        return Response(PAGE, headers=headers, media_type="text/html; charset=utf-8")

    # Streams.

    async def events(self, request: Request) -> Response:
        """Server-sent events."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        self._take_stream()
        return Stream(self._events(), "text/event-stream", self._give_stream_back)

    async def log(self, request: Request) -> Response:
        """The output of a container."""
        _require(request)
        known = self._known(request)
        name = _container(request, known)
        follow = _flag(request, "follow")
        tail = _number(request, "tail", 0, TAIL_LINES_MAX)
        uid = known.pod.uid

        def ended() -> bool:
            now = self.agent.state.pods.get(uid)
            return (
                self.closing.is_set()
                or now is None
                or now.is_terminal
                or now.containers[name].state is RunState.EXITED
            )

        if request.method == "HEAD":
            return Response(media_type="text/plain; charset=utf-8")
        self._take_stream()
        parts = log_files.read(
            self.agent.log_path(uid, name), tail=tail, follow=follow, ended=ended
        )
        return Stream(parts, "text/plain; charset=utf-8", self._give_stream_back)

    def _take_stream(self) -> None:
        if self.streams >= self.limits.streams_max:
            error = f"{self.streams} streams are open, which is the limit; close some"
            raise ProblemError(503, "TooManyStreams", error, headers={"retry-after": "5"})
        self.streams += 1

    def _give_stream_back(self) -> None:
        self.streams -= 1

    async def _events(self) -> AsyncIterator[bytes]:
        notes = self.agent.subscribe()
        closing = asyncio.ensure_future(self.closing.wait())
        following: asyncio.Task[Note] | None = None
        try:
            yield b": numalign events\n\n"
            while not self.closing.is_set():
                if following is None:
                    following = asyncio.create_task(_next(notes))
                await asyncio.wait(
                    {following, closing},
                    timeout=self.limits.ping_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not following.done():
                    yield b": still here\n\n"
                    continue
                try:
                    note = following.result()
                except (StopAsyncIteration, NumalignError):
                    return
                following = None
                yield event_text(note, time.time())
        finally:
            closing.cancel()
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            close = getattr(notes, "aclose", None)
            if close is not None:
                await close()

    # Changing.

    async def create_pod(self, request: Request) -> Response:
        """Admits a pod: 201 with the pod, or 422 with the kubelet's words and the pod."""
        self._may_change(request)
        record = _record(await self._body(request))
        key = record.metadata.namespace or "default", record.metadata.name
        taken = self._named(*key)
        if taken is not None or key in self._under_way or record.metadata.uid in self._uids:
            error = f"pod {key[0]}/{key[1]} exists already; delete it first"
            extra = {} if taken is None else {"pod": self._pod(taken)}
            raise ProblemError(409, "AlreadyExists", error, **extra)
        self._under_way.add(key)
        try:
            answer = await self.agent.submit(record)
        finally:
            self._under_way.discard(key)
        pod = self._pod(answer.uid) if answer.uid in self._uids else None
        if not answer.accepted:
            raise _refusal(answer, pod)
        where = {"location": f"/pods/{answer.uid}"}
        return json_answer(pod, 201, where)

    async def delete_pod(self, request: Request) -> Response:
        """Ends a pod by its uid."""
        self._may_change(request)
        return await self._deleted(self._known(request).pod.uid)

    async def delete_named(self, request: Request) -> Response:
        """Ends a pod by its name."""
        self._may_change(request)
        name = request.query_params.get("name", "")
        namespace = request.query_params.get("namespace", "default")
        if not name:
            raise ProblemError(400, "BadRequest", "found no name in the query, expected ?name=NAME")
        uid = self._named(namespace, name)
        if uid is None:
            raise _unknown(f"{namespace}/{name}")
        return await self._deleted(uid)

    async def _deleted(self, uid: str) -> Response:
        before = self._pod(uid)
        answer = await self.agent.delete(uid)
        if not answer.accepted:
            if answer.reason == "NotFound":
                raise _unknown(uid)
            raise _refusal(answer, None)
        if uid in self._uids:
            return json_answer(self._pod(uid), 202)  # it still has to end
        return json_answer(before)

    def _may_change(self, request: Request) -> None:
        _require(request)
        now = time.monotonic()
        bucket = self._bucket or TokenBucket.full(
            per_second=self.limits.changes_per_second, burst=self.limits.changes_burst, now=now
        )
        taken = bucket.taken(now)
        if taken is None:
            seconds = max(1, round(bucket.seconds_until_next(now)))
            error = f"more than {self.limits.changes_per_second:g} changes in a second"
            headers = {"retry-after": str(seconds)}
            raise ProblemError(429, "TooManyRequests", error, headers=headers)
        self._bucket = taken

    async def _body(self, request: Request) -> bytes:
        limit = self.limits.body_bytes_max
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds_max):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise _too_large(limit)
                    parts.append(part)
        except TimeoutError as exc:
            seconds = self.limits.body_seconds_max
            error = f"the body did not come within {seconds:g} seconds"
            raise ProblemError(408, "RequestTimeout", error) from exc
        return b"".join(parts)

    # Finding.

    @property
    def _uids(self) -> Any:  # noqa: ANN401 - the keys of a mapping
        return self.agent.state.pods.keys()

    def _pod(self, uid: str, *, env: bool = True) -> dict[str, Any]:
        return pod_view(self.agent.setup, self.agent.state, uid, env=env)

    def _named(self, namespace: str, name: str) -> str | None:
        for uid, known in self.agent.state.pods.items():
            if known.pod.name == name and known.pod.namespace == namespace:
                return uid
        return None

    def _known(self, request: Request) -> AgentPod:
        uid = request.path_params["uid"]
        known = self.agent.state.pods.get(uid)
        if known is None:
            raise _unknown(uid)
        return known


async def _next(notes: AsyncIterator[Note]) -> Note:
    return await anext(notes)


def event_text(note: Note, now: float) -> bytes:
    """A note as a server-sent event. Traces stay in /decisions: they are long."""
    values = {k: v for k, v in note.values.items() if not isinstance(v, Trace)}
    data = msgspec.json.encode({"time": now, **values}, enc_hook=str)
    return b"event: " + note.event.encode() + b"\ndata: " + data + b"\n\n"


def _record(body: bytes) -> PodRecord:
    try:
        found = load_all(body, source="request")
    except WireError as error:
        raise ProblemError(400, "BadRequest", str(error)) from error
    if len(found) != 1:
        error_text = f"request: found {len(found)} pods, expected one"
        raise ProblemError(400, "BadRequest", error_text)
    record = found[0]
    metadata = record.metadata
    if not metadata.name:
        suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(5))
        metadata.name = metadata.generateName[: NAME_CHARS_MAX - 5] + suffix
    if not metadata.uid:
        metadata.uid = str(uuid.uuid4())
    elif not _UID.fullmatch(metadata.uid):
        error_text = (
            f"request: metadata.uid: found {metadata.uid[:100]!r}, "
            "expected letters, digits, '-', '_' and '.'"
        )
        raise ProblemError(400, "BadRequest", error_text)
    return record


def _refusal(answer: Answer, pod: object) -> ProblemError:
    if answer.reason in _UNAVAILABLE:
        return ProblemError(503, answer.reason, answer.message, headers={"retry-after": "1"})
    return ProblemError(422, answer.reason, answer.message, pod=pod)


def _unknown(what: str) -> ProblemError:
    return ProblemError(404, "NotFound", f"found no pod {what[:300]}")


def _too_large(limit: int) -> ProblemError:
    error = f"the body is larger than {limit} bytes"
    return ProblemError(413, "RequestEntityTooLarge", error, headers={"connection": "close"})


def _access(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access), "application() sets it"
    return access


def _require(request: Request) -> None:
    if not _access(request).allows(request):
        raise ProblemError(
            401,
            "Unauthorized",
            "this needs the unix socket, or the header 'Authorization: Bearer TOKEN' with the "
            "token from the agent's state directory",
            headers={"www-authenticate": "Bearer"},
        )


def _container(request: Request, known: AgentPod) -> str:
    names = [container.name for container in known.pod.in_order]
    asked = request.query_params.get("container")
    if asked is None and len(known.pod.containers) == 1:
        return known.pod.containers[0].name
    if asked not in names:
        found = "no container" if asked is None else f"container {asked[:100]!r}"
        raise ProblemError(400, "BadRequest", f"found {found}, expected one of {', '.join(names)}")
    return asked


def _flag(request: Request, name: str, default: str = "false") -> bool:
    text = request.query_params.get(name, default).lower()
    if text not in _TRUE | _FALSE:
        raise ProblemError(
            400, "BadRequest", f"{name}: found {text[:100]!r}, expected true or false"
        )
    return text in _TRUE


def _number(request: Request, name: str, least: int, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        error = f"{name}: found {text[:100]!r}, expected a number from {least} to {most}"
        raise ProblemError(400, "BadRequest", error)
    return int(text)


# The application.

Endpoint = Callable[[Request], Awaitable[Response]]


def application(api: Api, access: Access) -> Starlette:
    """The ASGI application for one socket."""

    def checked(endpoint: Endpoint) -> Endpoint:
        async def call(request: Request) -> Response:
            access.check_host(request)
            return await endpoint(request)

        return call

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

    routes: list[tuple[str, Endpoint, list[str]]] = [
        ("/", api.page, ["GET"]),
        ("/pods", by_method, ["GET", "POST", "DELETE"]),
        ("/pods/{uid}", one_pod, ["GET", "DELETE"]),
        ("/pods/{uid}/log", api.log, ["GET"]),
        ("/node", api.show_node, ["GET"]),
        ("/capture", api.capture, ["GET"]),
        ("/decisions", api.list_decisions, ["GET"]),
        ("/events", api.events, ["GET"]),
        ("/metrics", api.show_metrics, ["GET"]),
        ("/healthz", api.healthz, ["GET"]),
        ("/readyz", api.readyz, ["GET"]),
        ("/openapi.json", api.openapi, ["GET"]),
    ]
    app = Starlette(
        routes=[Route(path, checked(endpoint), methods=m) for path, endpoint, m in routes],
        middleware=[Middleware(_SecurityHeaders)],
        exception_handlers={
            ProblemError: _told,
            HTTPException: _told_http,
            NumalignError: _told_ours,
            ClientDisconnect: _left,
            Exception: _told_bug,
        },
    )
    app.router.redirect_slashes = False
    app.state.access = access
    return app


async def _told(request: Request, exc: Exception) -> Response:
    del request
    assert isinstance(exc, ProblemError), "registered for this type only"
    return problem_answer(exc)


async def _told_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException), "registered for this type only"
    reasons = {404: "NotFound", 405: "MethodNotAllowed"}
    reason = reasons.get(exc.status_code, "BadRequest")
    error = f"{request.method} {request.url.path[:100]}: {exc.detail}"
    return problem_answer(ProblemError(exc.status_code, reason, error, headers=exc.headers))


async def _told_ours(request: Request, exc: Exception) -> Response:
    del request
    return problem_answer(ProblemError(503, "Unavailable", str(exc), headers={"retry-after": "1"}))


async def _left(request: Request, exc: Exception) -> Response:
    """The client went away while it was sending; nobody reads the answer."""
    del request, exc
    return Response(status_code=400)


async def _told_bug(request: Request, exc: Exception) -> Response:
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
