"""The Kubernetes API server: single requests, and watches that never lose anything.

The connection is made in ``kube_connection``; requests are ours. ``watched`` is the one way to
follow objects: it lists, watches from there, and goes on after every trouble. There is no queue in
it: who reads slowly makes the server wait, and is told everything anew once the server has no
patience left.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import httpx2
import msgspec
import structlog

from numalign.adapters.kubernetes import connection as kube_connection
from numalign.adapters.kubernetes.fast_lane import FastLane, LaneError
from numalign.core.errors import ApiError, NumalignError, WireError, unexpected
from numalign.wire.kubernetes.api import (
    Head,
    Kind,
    WatchLine,
    head_of,
    page_of,
    refusal_of,
    watch_line_of,
)

ANSWER_BYTES_MAX: Final = 64 << 20
LINE_BYTES_MAX: Final = 8 << 20  # an object has at most 1.5 MiB in etcd
PAGE_ITEMS_MAX: Final = 500
CONNECT_SECONDS_MAX: Final = 5.0
ANSWER_SECONDS_MAX: Final = 30.0
WATCH_SECONDS: Final = (240, 480)  # the server ends a watch after so long, at random
# The server sends a bookmark every minute: a connection that is silent for longer is dead.
WATCH_SILENCE_SECONDS_MAX: Final = 150.0
THROTTLED_TRIES_MAX: Final = 5
THROTTLED_SECONDS_MAX: Final = 10.0
BACKOFF_SECONDS: Final = (0.5, 30.0)  # first and longest

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML too
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

T = TypeVar("T")

log = structlog.get_logger("numalign.kubernetes")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that is not in the agreed form; what was known of it still stands."""

    namespace: str
    name: str
    uid: str
    error: str


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """Everything there is. What was known before and is not here is gone."""

    items: tuple[T, ...]
    unreadable: tuple[Unreadable, ...] = ()  # each is told by itself as well


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object is new or other than before."""

    item: T


@dataclass(frozen=True, slots=True)
class Gone:
    """An object was deleted, or does not match the selector any more."""

    namespace: str
    name: str
    uid: str


Seen = Listed[T] | Changed[T] | Gone | Unreadable


class Backoff:
    """Ever longer waits, with chance in them so that many clients do not come back at once."""

    def __init__(
        self, first: float = BACKOFF_SECONDS[0], longest: float = BACKOFF_SECONDS[1]
    ) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0

    def reset(self) -> None:
        """The next wait is the first one again."""
        self.failures = 0

    def next_seconds(self, at_least: float = 0.0) -> float:
        """How long to wait now."""
        wait = min(self._longest, self._first * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return max(at_least, wait * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


class _Connecting:
    """Closes the connection of a request that is cancelled while TLS is being agreed on.

    The HTTP library closes it after an error, but not after a cancellation; nobody else knows it.
    It tells of every step of a request where the request has a "trace".
    """

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, step: str, facts: Mapping[str, Any]) -> None:
        if step.endswith(".connect_tcp.complete"):
            self._stream = facts["return_value"]
        elif step.endswith(".start_tls.failed") and self._stream is not None:
            await self._stream.aclose()


def _ignore(_: ApiError) -> None:
    """The trouble of a watch that nobody wants to hear of."""


class ApiServer:
    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        namespace: str = "default",
        backoff_seconds: tuple[float, float] = BACKOFF_SECONDS,
        lane: FastLane | None = None,
    ) -> None:
        self._http = http
        self._lane = lane
        # How the server knows us, as the general client found out; None: not yet, or not any more.
        self._log_in: dict[str, str] | None = None
        self._backoff_seconds = backoff_seconds
        self.namespace = namespace  # the one we run in, or that of the kubeconfig's context

    @classmethod
    def connect(cls, kubeconfig: Path | None = None, *, context: str | None = None) -> Self:
        """The server that the arguments, KUBECONFIG, the pod we run in or ~/.kube/config name."""
        timeout = httpx2.Timeout(ANSWER_SECONDS_MAX, connect=CONNECT_SECONDS_MAX)
        found = kube_connection.connected(kubeconfig, context, timeout)
        return cls(found.http, namespace=found.namespace, lane=found.lane)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()
        if self._lane is not None:
            await self._lane.close()

    # Single requests. All raise ApiError; its ``retry`` says whether the same may work later.

    async def get(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> bytes | None:
        """One object as JSON; None if there is none."""
        try:
            path = kind.path(namespace, name)
            return await self._request("GET", path, seconds_max=seconds_max)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def listed(
        self, kind: Kind, namespace: str | None = None, *, fields: str = "", labels: str = ""
    ) -> tuple[list[msgspec.Raw], str]:
        """All objects as JSON, and the version of the list, from which a watch can go on."""
        found: list[msgspec.Raw] = []
        params = {"limit": str(PAGE_ITEMS_MAX), **_selectors(fields, labels)}
        while True:
            page = page_of(await self._request("GET", kind.path(namespace), params=params))
            found += page.items or ()
            if not page.metadata.rest:
                return found, page.metadata.resource_version
            params["continue"] = page.metadata.rest

    async def create(
        self,
        kind: Kind,
        body: object,
        namespace: str | None = None,
        *,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> bytes:
        path = kind.path(namespace)
        return await self._request("POST", path, body=body, seconds_max=seconds_max)

    async def create_part(
        self, kind: Kind, name: str, part: str, body: object, namespace: str | None = None
    ) -> bytes:
        """What is made by posting to a part of an object: a binding, an eviction, a token."""
        return await self._request("POST", kind.path(namespace, name, part), body=body)

    async def replace(
        self,
        kind: Kind,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> bytes:
        """Puts an object in the place of the one that it says it was made from."""
        path = kind.path(namespace, name)
        return await self._request("PUT", path, body=body, seconds_max=seconds_max)

    async def apply(
        self,
        kind: Kind,
        name: str,
        body: object,
        *,
        manager: str,
        namespace: str | None = None,
        force: bool = False,
    ) -> bytes:
        """Server-side apply: these members are the manager's from now on."""
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        path = kind.path(namespace, name)
        return await self._request("PATCH", path, params=params, body=body, form=APPLY)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: object,
        *,
        namespace: str | None = None,
        form: str = MERGE,
        part: str = "",
    ) -> bytes:
        """Changes some members of an object, or of a part of it such as its status."""
        path = kind.path(namespace, name, part)
        return await self._request("PATCH", path, body=body, form=form)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> bool:
        """Deletes an object, if it still is the one with this uid; False if it is gone."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._request("DELETE", kind.path(namespace, name), body=body)
        except ApiError as error:
            if error.code in (404, 409):
                return False
            raise
        return True

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        form: str = JSON,
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": JSON} | ({"Content-Type": form} if content is not None else {})
        for attempt in range(THROTTLED_TRIES_MAX):
            asked = _Asked(method, path, params, content, headers, seconds_max)
            found = await self._by_lane(asked) or await self._by_client(asked)
            if found.status < 400:
                return found.data
            refusal = refusal_of(found.data, code=found.status, retry_after=found.retry_after)
            # The server asks to come back: as it says, but neither for ever nor all at once.
            if not refusal.retry_after_seconds or attempt + 1 == THROTTLED_TRIES_MAX:
                raise refusal
            wait = min(refusal.retry_after_seconds, THROTTLED_SECONDS_MAX)
            await asyncio.sleep(wait * random.uniform(1.0, 1.5))  # noqa: S311 - no secret
        raise AssertionError("the last attempt returns or raises")

    async def _by_client(self, asked: _Asked) -> _Answered:
        """By the general client, which knows every way to log in."""
        seconds = asked.seconds_max
        try:
            async with self._http.stream(
                asked.method,
                asked.path,
                params=asked.params,
                content=asked.content,
                headers=asked.headers,
                timeout=httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS_MAX)),
                extensions={"trace": _Connecting()},
            ) as answer:
                data = await _read(answer)
        except NumalignError:
            raise
        except Exception as exc:
            # Not only its own errors: what goes wrong while it closes a surplus connection comes as
            # it is, and a caller that is told nothing would wait for ever.
            raise _unreachable(exc) from exc
        self._learn_log_in(answer)
        return _Answered(answer.status_code, answer.headers.get("Retry-After", ""), data)

    def _learn_log_in(self, answer: httpx2.Response) -> None:
        if self._lane is not None and answer.status_code < 400:
            known = answer.request.headers.get("Authorization")
            self._log_in = {} if known is None else {"Authorization": known}

    async def _by_lane(self, asked: _Asked) -> _Answered | None:
        """By the short way; None if that is not open to us now."""
        if self._lane is None or self._log_in is None:
            return None
        try:
            head, data = await self._lane.request(
                asked.method,
                asked.path,
                headers={**asked.headers, **self._log_in},
                params=asked.params,
                body=asked.content,
                seconds_max=asked.seconds_max,
                connect_seconds_max=min(asked.seconds_max, CONNECT_SECONDS_MAX),
                bytes_max=ANSWER_BYTES_MAX,
            )
        except LaneError as exc:
            raise _unreachable(exc) from exc
        if head.status == 401:
            self._log_in = None  # a token that ran out: the general client gets another one
            return None
        return _Answered(head.status, head.header(b"retry-after"), data)

    # Following objects.

    async def watched(
        self,
        kind: Kind,
        decode: Callable[[bytes], T],
        namespace: str | None = None,
        *,
        fields: str = "",
        labels: str = "",
        on_trouble: Callable[[ApiError], None] = _ignore,
    ) -> AsyncGenerator[Seen[T], None]:
        """All objects, then every change to them, for ever.

        Starts with Listed, which comes again whenever changes may have been missed. Restarts of the
        server, refusals and broken connections are waited out; ``on_trouble`` hears of each.
        ``decode`` raises WireError for an object that it cannot read.
        """
        version: str | None = None
        backoff = Backoff(*self._backoff_seconds)
        while True:
            try:
                if version is None:
                    raw, version = await self.listed(kind, namespace, fields=fields, labels=labels)
                    good, bad = decoded(raw, decode)
                    yield Listed(good, bad)
                    for one in bad:
                        yield one
                async with contextlib.aclosing(
                    self._lines(kind, namespace, version, fields, labels)
                ) as lines:
                    async for line in lines:
                        backoff.reset()
                        if line.type == "ERROR":
                            raise refusal_of(line.object, code=0)
                        head = head_of(line.object)
                        version = head.resource_version or version
                        if line.type != "BOOKMARK":
                            yield _seen(line, head, decode)
            except ApiError as error:
                on_trouble(error)
                if error.code == 410:
                    version = None
                await asyncio.sleep(backoff.next_seconds(error.retry_after_seconds))
            except WireError as error:
                on_trouble(ApiError(str(error), code=0))
                version = None
                await asyncio.sleep(backoff.next_seconds())

    async def _lines(
        self, kind: Kind, namespace: str | None, version: str, fields: str, labels: str
    ) -> AsyncGenerator[WatchLine, None]:
        params = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311 - no secret
            **_selectors(fields, labels),
        }
        path = kind.path(namespace)
        ways = self._lane_parts if self._lane and self._log_in is not None else self._client_parts
        async with ways(path, params) as parts, contextlib.aclosing(_split(parts)) as lines:
            async for line in lines:
                yield watch_line_of(line)

    @contextlib.asynccontextmanager
    async def _client_parts(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = httpx2.Timeout(CONNECT_SECONDS_MAX, read=WATCH_SILENCE_SECONDS_MAX)
        trace = {"trace": _Connecting()}
        try:
            async with self._http.stream(
                "GET", path, params=params, timeout=timeout, extensions=trace
            ) as answer:
                if answer.status_code >= 400:
                    raise _refusal(answer, await _read(answer))  # noqa: TRY301 - goes past the clause
                self._learn_log_in(answer)
                yield answer.aiter_bytes()
        except NumalignError:
            raise
        except Exception as exc:
            raise _unreachable(exc) from exc

    @contextlib.asynccontextmanager
    async def _lane_parts(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert self._lane is not None, "asked for where there is one"
        try:
            async with self._lane.stream(
                path,
                headers={"Accept": JSON, **(self._log_in or {})},
                params=params,
                connect_seconds_max=CONNECT_SECONDS_MAX,
                silence_seconds_max=WATCH_SILENCE_SECONDS_MAX,
            ) as (head, parts):
                if head.status >= 400:
                    if head.status == 401:
                        self._log_in = None
                    data = b"".join([part async for part in parts])[:ANSWER_BYTES_MAX]
                    after = head.header(b"retry-after")
                    raise refusal_of(data, code=head.status, retry_after=after)
                yield parts
        except LaneError as exc:
            raise _unreachable(exc) from exc


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request."""

    method: str
    path: str
    params: Mapping[str, str] | None
    content: bytes | None
    headers: Mapping[str, str]
    seconds_max: float


@dataclass(frozen=True, slots=True)
class _Answered:
    status: int
    retry_after: str
    data: bytes


def _selectors(fields: str, labels: str) -> dict[str, str]:
    found = {"fieldSelector": fields, "labelSelector": labels}
    return {key: value for key, value in found.items() if value}


async def _read(answer: httpx2.Response) -> bytes:
    found = bytearray()
    async for part in answer.aiter_bytes():
        found += part
        if len(found) > ANSWER_BYTES_MAX:
            raise WireError(f"found an answer of more than {ANSWER_BYTES_MAX} bytes")
    return bytes(found)


async def _split(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, without the last one if it is not whole."""
    rest = bytearray()
    async for part in parts:
        rest += part
        if b"\n" not in part:
            if len(rest) > LINE_BYTES_MAX:
                raise WireError(f"found a line of more than {LINE_BYTES_MAX} bytes in a watch")
            continue
        *whole, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in whole:
            if line:
                yield line


def _refusal(answer: httpx2.Response, data: bytes) -> ApiError:
    retry_after = answer.headers.get("Retry-After", "")
    return refusal_of(data, code=answer.status_code, retry_after=retry_after)


def _unreachable(exc: Exception) -> ApiError:
    return ApiError(f"the API server does not answer: {exc or type(exc).__name__}", code=0)


def decoded(
    raw: list[msgspec.Raw], decode: Callable[[bytes], T]
) -> tuple[tuple[T, ...], tuple[Unreadable, ...]]:
    """The objects of a list, and those that ``decode`` cannot read."""
    good: list[T] = []
    bad: list[Unreadable] = []
    for one in raw:
        found = _decoded(one, decode)
        if isinstance(found, Unreadable):
            bad.append(found)
        else:
            good.append(found.item)
    return tuple(good), tuple(bad)


def _seen(line: WatchLine, head: Head, decode: Callable[[bytes], T]) -> Seen[T]:
    if line.type == "DELETED":
        return Gone(head.namespace, head.name, head.uid)
    return _decoded(line.object, decode)


def _decoded(raw: msgspec.Raw, decode: Callable[[bytes], T]) -> Changed[T] | Unreadable:
    """One object. Whatever it does to its reader, it must not end the watch over all others."""
    try:
        return Changed(decode(bytes(raw)))
    except WireError as error:
        head = head_of(raw)
        return Unreadable(head.namespace, head.name, head.uid, str(error))
    except Exception as error:
        head = head_of(raw)
        log.exception("object_not_foreseen", namespace=head.namespace, name=head.name)
        return Unreadable(head.namespace, head.name, head.uid, unexpected(error))
