"""The agent over HTTP: the same values as the command line shows, and changes for those allowed.

Who comes over the unix socket may do everything: the socket is for its owner only. Over TCP
everybody on the host may look, but the values of environment variables, the logs and all changes
need the token. Every size, count and rate has a limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from numalign.adapters.local.descriptors import shortage
from numalign.apps.agent.events import Answer
from numalign.apps.agent.metrics import CONTENT_TYPE, AgentMetrics
from numalign.apps.agent.model import INTERNAL_ERROR, AgentPod, RunState
from numalign.apps.agent.notes import Note, values_of
from numalign.apps.agent.steps.admission import ALREADY_EXISTS
from numalign.apps.agent.views.answers import Health, Pod
from numalign.apps.agent.views.captured import captured
from numalign.apps.agent.views.manifests import manifest_counts, manifest_list
from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import (
    decisions_view,
    pod_list,
    pod_view,
    time_text,
)
from numalign.apps.agent.views.port import AgentPort
from numalign.core.errors import NumalignError
from numalign.core.values.token_bucket import TokenBucket
from numalign.web import applying, log_files
from numalign.web.answers import (
    JSON_TYPE,
    ProblemError,
    Stream,
    encoded,
    health_answer,
    json_answer,
)
from numalign.web.openapi import document
from numalign.web.page import CONTENT_POLICY, PAGE
from numalign.web.requests import (
    DECISIONS_MAX,
    TAIL_LINES_MAX,
    access_of,
    asker_of,
    body_of,
    budget_of,
    container_named,
    flag,
    identify,
    manifests_of,
    number,
    require,
)
from numalign.web.serving.budgets import LongAnswer
from numalign.wire.bundle import packed

_LONG: Final = frozenset({"trace", "explanation"})
UNAVAILABLE: Final = frozenset({"StateNotSaved"})  # not the pod's fault: try again


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes_max: int = 1024 * 1024
    body_seconds_max: float = 10.0
    header_bytes_max: int = 16 * 1024
    header_seconds_max: float = 10.0
    write_seconds_max: float = 30.0  # a client that reads nothing for so long is dropped
    connections_max: int = 128  # of each socket
    per_peer_max: int = 32  # of them from one address of another host; 0: no more than all
    streams_max: int = 32  # events and logs, of each socket
    costly_max: int = 16  # long answers being made or sent, of each socket
    changes_per_second: float = 200.0
    changes_burst: float = 400.0
    ping_seconds: float = 15.0  # a quiet stream says that it lives


@dataclass(slots=True)
class Api:
    """One agent's API, served on any number of sockets."""

    agent: AgentPort
    metrics: AgentMetrics
    limits: Limits = field(default_factory=Limits)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    server_problems: Callable[[], list[str]] = list
    _bucket: TokenBucket | None = None

    # Looking.

    async def list_pods(self, request: Request) -> Response:
        agent, query = self.agent, request.query_params
        setup, state, env = agent.setup, agent.state, access_of(request).allows(request)
        name, namespace = query.get("name"), query.get("namespace")

        def made() -> bytes:
            uids = [
                uid
                for uid, known in state.pods.items()
                if name in (None, known.pod.name) and namespace in (None, known.pod.namespace)
            ]
            return encoded(pod_list(setup, state, uids, env=env))

        shared = f"pods env={env}" if name is None and namespace is None else None
        return await _costly(request, shared, [state], made)

    async def show_pod(self, request: Request) -> Response:
        uid = self._known(request).pod.uid
        return json_answer(self._pod(uid, env=access_of(request).allows(request)))

    async def show_node(self, request: Request) -> Response:
        agent = self.agent
        setup, state, machine = agent.setup, agent.state, agent.machine
        return await _costly(
            request, "node", [state, machine], lambda: encoded(node_view(setup, state, machine))
        )

    async def capture(self, request: Request) -> Response:
        agent = self.agent
        found = captured(agent.setup, agent.state, agent.machine, time_text(time.time()) or "")
        headers = {"content-disposition": 'attachment; filename="numalign-capture.tar.gz"'}
        return await _costly(
            request, None, (), lambda: packed(found), "application/gzip", headers=headers
        )

    async def list_decisions(self, request: Request) -> Response:
        """The last decisions with their traces, newest first."""
        limit = number(request, "limit", 1, DECISIONS_MAX) or DECISIONS_MAX
        is_long = flag(request, "trace", default="true")
        uid = request.query_params.get("uid")
        recent, refusals = list(self.agent.recent), self.agent.state.refusals

        def made() -> bytes:
            found = decisions_view(recent, refusals, uid, limit)
            if not is_long:
                found = [{key: d[key] for key in d if key not in _LONG} for d in found]
            return encoded({"items": found})

        shared = f"decisions trace={is_long}" if uid is None and limit == DECISIONS_MAX else None
        return await _costly(request, shared, [refusals, *recent], made)

    async def show_metrics(self, request: Request) -> Response:
        # Not in a thread: the counts change while they are written down.
        state = self.agent.state
        text = self.metrics.text(state, manifest_counts(self.agent.manifests, state))
        return await _costly(request, None, (), lambda: text, CONTENT_TYPE)

    async def list_manifests(self, request: Request) -> Response:
        """The files of the directory of manifests, and what is wrong with them."""
        look, state = self.agent.manifests, self.agent.state
        return await _costly(
            request, "manifests", (look, state), lambda: encoded(manifest_list(look, state))
        )

    async def healthz(self, request: Request) -> Response:
        del request
        return json_answer(Health("ok", []))

    async def readyz(self, request: Request) -> Response:
        del request
        short = shortage()
        problems = [*self.agent.health(), *self.server_problems(), *([short] if short else [])]
        return health_answer(problems)

    async def openapi(self, request: Request) -> Response:
        del request
        return json_answer(document())

    async def page(self, request: Request) -> Response:
        del request
        headers = {"content-security-policy": CONTENT_POLICY}
        return Response(PAGE, headers=headers, media_type="text/html; charset=utf-8")

    # Streams.

    async def events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        budget = budget_of(request)
        budget.take_stream()
        return Stream(self._events(), "text/event-stream", budget.give_stream_back)

    async def log(self, request: Request) -> Response:
        require(request)
        known = self._known(request)
        name = container_named(request, known)
        follow = flag(request, "follow")
        tail = number(request, "tail", 0, TAIL_LINES_MAX)
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
        budget = budget_of(request)
        budget.take_stream()
        parts = log_files.read(
            self.agent.log_path(uid, name), tail=tail, follow=follow, ended=ended
        )
        return Stream(parts, "text/plain; charset=utf-8", budget.give_stream_back)

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
                    yield self._still()
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

    def _still(self) -> bytes:
        """That nothing happened: an event of its own, since browsers hide comments from pages."""
        problems = len(self.agent.health()) + len(self.server_problems())
        data = msgspec.json.encode({"time": time.time(), "problems": problems})
        return b"event: still\ndata: " + data + b"\n\n"

    # Changing.

    async def create_pod(self, request: Request) -> Response:
        """Admits a pod: 201 with the pod, or 422 with the kubelet's words and the pod.

        Anything else than one pod is applied: it is made to be as written, again and again.
        """
        self.may_change(request)
        most, seconds = self.limits.body_bytes_max, self.limits.body_seconds_max
        is_applied = flag(request, "apply")
        found = manifests_of(await body_of(request, most, seconds, self.too_large))
        if is_applied or len(found.workloads) > 1 or not found.workloads[0].is_pod:
            return await applying.applied(self.agent, found, asker_of(request))
        [record] = found.pods
        record.metadata.uid = identify(record)
        namespace, name = record.metadata.namespace or "default", record.metadata.name
        taken = self._named(namespace, name)
        if taken is not None or record.metadata.uid in self._uids:
            raise self._taken(f"pod {namespace}/{name} exists already; delete it first", taken)
        answer = await self.agent.submit(record, asker=asker_of(request))
        if answer.reason == ALREADY_EXISTS:  # by one that was on its way
            raise self._taken(answer.message, self._named(namespace, name))
        pod = self._pod(answer.uid) if answer.uid in self._uids else None
        if not answer.accepted:
            raise _refusal(answer, pod)
        where = {"location": f"/pods/{answer.uid}"}
        return json_answer(pod, 201, where)

    async def delete_pod(self, request: Request) -> Response:
        self.may_change(request)
        return await self._deleted(self._known(request).pod.uid)

    async def delete_named(self, request: Request) -> Response:
        self.may_change(request)
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

    def may_change(self, request: Request) -> None:
        require(request)
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

    def too_large(self, _found: str) -> ProblemError:
        error = f"the body is larger than {self.limits.body_bytes_max} bytes"
        return ProblemError(413, "RequestEntityTooLarge", error, headers={"connection": "close"})

    def _taken(self, error: str, uid: str | None) -> ProblemError:
        pod = None if uid is None else self._pod(uid)
        return ProblemError(409, ALREADY_EXISTS, error, pod=pod)

    # Finding.

    @property
    def _uids(self) -> Any:  # noqa: ANN401 - the keys of a mapping
        return self.agent.state.pods.keys()

    def _pod(self, uid: str, *, env: bool = True) -> Pod:
        return pod_view(self.agent.setup, self.agent.state, uid, env=env)

    def _named(self, namespace: str, name: str) -> str | None:
        """The pod of this name; one that is ending only if no other has it."""
        found = [p for p in self.agent.state.pods.values() if p.key == (namespace, name)]
        return min(found, key=lambda pod: pod.deleting).pod.uid if found else None

    def _known(self, request: Request) -> AgentPod:
        uid = request.path_params["uid"]
        known = self.agent.state.pods.get(uid)
        if known is None:
            raise _unknown(uid)
        return known


async def _costly(
    request: Request,
    shared: str | None,
    made_of: Sequence[object],
    make: Callable[[], bytes],
    media_type: str = JSON_TYPE,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A long answer, in its turn; one that is ``shared`` is made once while nothing changes."""
    budget = budget_of(request)
    end_turn = await budget.take_turn()
    try:
        if shared is None:
            content = await asyncio.to_thread(make)
        else:
            content = await budget.views.get(shared, made_of, make)
    except BaseException:
        end_turn()
        raise
    return LongAnswer(content, media_type, end_turn, headers)


async def _next(notes: AsyncIterator[Note]) -> Note:
    return await anext(notes)


def event_text(note: Note, now: float) -> bytes:
    """A note as a server-sent event. Traces stay in /decisions: they are long."""
    data = msgspec.json.encode({"time": now, **values_of(note)}, enc_hook=str)
    return b"event: " + note.NAME.encode() + b"\ndata: " + data + b"\n\n"


def _refusal(answer: Answer, pod: Pod | None) -> ProblemError:
    if answer.reason in UNAVAILABLE:
        return ProblemError(503, answer.reason, answer.message, headers={"retry-after": "1"})
    status = 500 if answer.reason == INTERNAL_ERROR else 422
    return ProblemError(status, answer.reason, answer.message, pod=pod)


def _unknown(what: str) -> ProblemError:
    return ProblemError(404, "NotFound", f"found no pod {what[:300]}")
