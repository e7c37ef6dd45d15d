"""The agent over HTTP: the same values as the command line shows, and changes for those allowed.

Who comes over the unix socket may do everything: the socket is for its owner only. Over TCP
everybody on the host may look, but the values of environment variables, the logs and all changes
need the token. Every size, count and rate has a limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from numalign.apps.agent.events import Answer
from numalign.apps.agent.metrics import CONTENT_TYPE, AgentMetrics
from numalign.apps.agent.model import INTERNAL_ERROR, RunState
from numalign.apps.agent.steps.admission import ALREADY_EXISTS
from numalign.apps.agent.views.answers import Pod
from numalign.apps.agent.views.captured import captured
from numalign.apps.agent.views.manifests import manifest_counts, manifest_list
from numalign.apps.agent.views.pods import time_text
from numalign.apps.agent.views.port import AgentPort
from numalign.apps.past.recorder import Recorder
from numalign.core.values.token_bucket import TokenBucket
from numalign.web import applying, log_files
from numalign.web.answers import (
    ProblemError,
    Stream,
    encoded,
    json_answer,
)
from numalign.web.host.looking import Looking, costly, unknown
from numalign.web.openapi import document
from numalign.web.requests import (
    TAIL_LINES_MAX,
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
from numalign.wire.bundle import packed

UNAVAILABLE: Final = frozenset({"StateNotSaved"})  # not the pod's fault: try again


@dataclass(slots=True)
class Api(Looking):
    """One agent's API, served on any number of sockets."""

    agent: AgentPort
    metrics: AgentMetrics = field(kw_only=True)
    recorder: Recorder | None = None
    _bucket: TokenBucket | None = None

    async def capture(self, request: Request) -> Response:
        agent = self.agent
        found = captured(agent.setup, agent.state, agent.machine, time_text(time.time()) or "")
        headers = {"content-disposition": 'attachment; filename="numalign-capture.tar.gz"'}
        return await costly(
            request, None, (), lambda: packed(found), "application/gzip", headers=headers
        )

    async def show_metrics(self, request: Request) -> Response:
        # Not in a thread: the counts change while they are written down.
        state = self.agent.state
        manifests = manifest_counts(self.agent.manifests, state)
        text = self.metrics.text(state, manifests, problems=len(self.problems()))
        return await costly(request, None, (), lambda: text, CONTENT_TYPE)

    async def list_manifests(self, request: Request) -> Response:
        """The files of the directory of manifests, and what is wrong with them."""
        look, state = self.agent.manifests, self.agent.state
        return await costly(
            request, "manifests", (look, state), lambda: encoded(manifest_list(look, state))
        )

    async def openapi(self, request: Request) -> Response:
        del request
        return json_answer(document())

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
            raise unknown(f"{namespace}/{name}")
        return await self._deleted(uid)

    async def _deleted(self, uid: str) -> Response:
        before = self._pod(uid)
        answer = await self.agent.delete(uid)
        if not answer.accepted:
            if answer.reason == "NotFound":
                raise unknown(uid)
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


def _refusal(answer: Answer, pod: Pod | None) -> ProblemError:
    if answer.reason in UNAVAILABLE:
        return ProblemError(503, answer.reason, answer.message, headers={"retry-after": "1"})
    status = 500 if answer.reason == INTERNAL_ERROR else 422
    return ProblemError(status, answer.reason, answer.message, pod=pod)
