"""A host over HTTP for those who only look: a running agent, or a host at some moment.

Everything here is read; what is asked changes nothing.
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
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.notes import Note, values_of
from numalign.apps.agent.views import asked
from numalign.apps.agent.views.answers import Explained, Health, Pod, Source
from numalign.apps.agent.views.node import node_view
from numalign.apps.agent.views.pods import decisions_view, pod_list, pod_view
from numalign.apps.agent.views.port import HostPort
from numalign.core.errors import NumalignError
from numalign.core.fleet.measures import Mix
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.web.answers import (
    JSON_TYPE,
    ProblemError,
    Stream,
    encoded,
    health_answer,
    json_answer,
)
from numalign.web.host.asking import Asking, question_of
from numalign.web.page import CONTENT_POLICY, PAGE
from numalign.web.requests import DECISIONS_MAX, access_of, budget_of, flag, number
from numalign.web.serving.budgets import LongAnswer
from numalign.web.serving.limits import Limits

_LONG: Final = frozenset({"trace", "explanation"})


@dataclass(slots=True)
class Looking:
    """What can be looked at and asked, served on any number of sockets."""

    agent: HostPort
    limits: Limits = field(default_factory=Limits)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    server_problems: Callable[[], list[str]] = list
    source: Source | None = None  # None: a running agent
    mix: Mix = ()  # the reference shapes
    asking: Asking = field(default_factory=Asking)

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
        return await costly(request, shared, [state], made)

    async def show_pod(self, request: Request) -> Response:
        uid = self._known(request).pod.uid
        return json_answer(self._pod(uid, env=access_of(request).allows(request)))

    async def show_node(self, request: Request) -> Response:
        agent, source = self.agent, self.source
        setup, state, machine = agent.setup, agent.state, agent.machine
        return await costly(
            request,
            "node",
            [state, machine],
            lambda: encoded(node_view(setup, state, machine, source)),
        )

    async def show_capacity(self, request: Request) -> Response:
        """How many more of each reference shape fit, and what is idle to no use."""
        setup, state, mix = self.agent.setup, self.agent.state, self.mix
        return await costly(
            request,
            "capacity",
            [state.host],
            lambda: encoded(asked.capacity_view(setup, state, mix)),
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
        return await costly(request, shared, [refusals, *recent], made)

    async def healthz(self, request: Request) -> Response:
        del request
        return json_answer(Health("ok", []))

    async def readyz(self, request: Request) -> Response:
        del request
        return health_answer(self.problems())

    def problems(self) -> list[str]:
        """What /readyz tells."""
        short = shortage()
        return [*self.agent.health(), *self.server_problems(), *([short] if short else [])]

    async def page(self, request: Request) -> Response:
        del request
        headers = {"content-security-policy": CONTENT_POLICY}
        return Response(PAGE, headers=headers, media_type="text/html; charset=utf-8")

    def close(self) -> None:
        """Nobody looks any more."""
        self.closing.set()
        self.asking.close()

    # Asking.

    async def ask(self, request: Request) -> Response:
        """Whether pods would be admitted now, and where, or what would help; nothing changes."""
        question = await question_of(request)
        snapshot = self._snapshot()

        def work(going: Callable[[], bool]) -> bytes:
            items, left = asked.explained(
                snapshot, question.pods, going=going, search=question.search
            )
            return encoded(Explained(time.time(), items, question.notes, left))

        return Response(await self.asking.answer(work), media_type=JSON_TYPE)

    async def explain_pod(self, request: Request) -> Response:
        """What a pod costs where it sits; of one that was refused, what would help it now."""
        known = self._known(request)
        state, snapshot = self.agent.state, self._snapshot()

        def work(going: Callable[[], bool]) -> bytes:
            found = asked.explained_pod(snapshot, known.record, known.pod.uid, going=going)
            return encoded({"time": time.time(), **found})

        content = await self.asking.kept(f"explain {known.pod.uid}", state.host, work)
        return Response(content, media_type=JSON_TYPE)

    def _snapshot(self) -> HostSnapshot:
        agent = self.agent
        return asked.snapshot_of(agent.setup, agent.state, agent.machine)

    # Streams.

    async def events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        budget = budget_of(request)
        budget.take_stream()
        return Stream(self._events(), "text/event-stream", budget.give_stream_back)

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
                    # An event, since a browser does not show comments to the page.
                    yield b'event: still\ndata: {"problems":%d}\n\n' % len(self.agent.health())
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
            raise unknown(uid)
        return known


async def costly(
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


def unknown(what: str) -> ProblemError:
    return ProblemError(404, "NotFound", f"found no pod {what[:300]}")
