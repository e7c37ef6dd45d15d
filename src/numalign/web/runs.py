"""``numalign run`` over the API: the process that asks becomes the command of a pod of its own.

Only over the unix socket: the process must be one of this host.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from numalign.adapters.processes.callers import handle_exists
from numalign.apps.agent.events import Answer
from numalign.apps.agent.model import AgentPod, Caller, RunState, placed_mempolicy, placed_nodes
from numalign.apps.agent.model import Run as AgentRun
from numalign.apps.agent.steps.admission import ALREADY_EXISTS
from numalign.apps.agent.views.answers import Run
from numalign.core.errors import WireError
from numalign.core.kubelet.devices.plugin_answer import merged
from numalign.core.kubelet.topology.policy import POLICIES
from numalign.core.values.sets import format_list
from numalign.web.answers import ProblemError, json_answer
from numalign.web.api import UNAVAILABLE, Api
from numalign.web.requests import access_of, body_of, identify
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.annotations import TOPOLOGY_POLICY
from numalign.wire.pods.manifests import record_of
from numalign.wire.pods.records import PodRecord

POLICY_NAMES = frozenset({"none", *POLICIES})


class _Process(msgspec.Struct):
    pid: int
    start: int
    boot: str


class _Asked(msgspec.Struct):
    pod: dict[str, Any]
    process: _Process
    wait: bool = False


class Runs:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def start(self, request: Request) -> Response:
        """201 when the process is in its place, 202 while it waits, 422 with the cause if not."""
        _require_socket(request)
        api = self._api
        api.may_change(request)
        limits = api.limits
        body = await body_of(request, limits.body_bytes_max, limits.body_seconds_max, api.too_large)
        record, run = _asked(body)
        answer = await api.agent.start_run(record, run)
        if not answer.accepted:
            raise self._refusal(answer)
        known = api.agent.state.pods.get(answer.uid)
        if known is None:  # it has ended meanwhile
            raise ProblemError(422, "Ended", "it has ended before its command began")
        return json_answer(self._view(known), 202 if answer.reason else 201)

    async def show(self, request: Request) -> Response:
        """What the process that waits has to do; what device plugins say is for it alone."""
        _require_socket(request)
        known = self._api.agent.state.pods.get(request.path_params["uid"])
        if known is None or known.run is None:
            uid = request.path_params["uid"]
            raise ProblemError(404, "NotFound", f"found no run {uid[:300]}")
        return json_answer(self._view(known))

    def _refusal(self, answer: Answer) -> ProblemError:
        if answer.reason in UNAVAILABLE:
            headers = {"retry-after": "1"}
            return ProblemError(503, answer.reason, answer.message, headers=headers)
        status = 409 if answer.reason == ALREADY_EXISTS else 422
        refusal = self._api.agent.state.refusals.get(answer.uid)
        if refusal is None:
            return ProblemError(status, answer.reason, answer.message)
        fits = (refusal.explanation or {}).get("fitsWhenEmpty")
        hint = ". It would fit if nothing else were there: --wait queues it" if fits else ""
        return ProblemError(status, answer.reason, _cause(refusal.why) + hint)

    def _view(self, known: AgentPod) -> Run:
        setup, state = self._api.agent.setup, self._api.agent.state
        uid, [container] = known.pod.uid, known.pod.containers
        found = Run(uid, known.pod.namespace, known.pod.name, "waiting", known.reason)
        refusal = state.refusals.get(uid)
        found.message = f"it does not fit yet: {_cause(refusal.why)}" if refusal else known.message
        if known.is_undecided:
            return found
        is_running = known.containers[container.name].state is RunState.RUNNING
        found.state = "started" if is_running else "starting"
        nodes = placed_nodes(state, uid, container.name)
        found.nodes = format_list(nodes or 0)
        policy = placed_mempolicy(setup, state, uid, container.name)
        if policy is not None:
            found.memory_policy, found.policy_nodes = str(policy.mode), str(policy.nodes or "")
        found.env = dict(merged(list(known.allocations.values())).envs)
        return found


def _require_socket(request: Request) -> None:
    if not access_of(request).trusted:
        error = "a run needs the unix socket: its process must be one of this host"
        raise ProblemError(403, "Forbidden", error)


def _cause(why: str) -> str:
    """The cause in an explanation's sentence, without saying again which pod it is about."""
    _, sign, cause = why.rstrip(".").partition(" is refused: ")
    return cause if sign else why.rstrip(".")


def _asked(body: bytes) -> tuple[PodRecord, AgentRun]:
    try:
        asked = msgspec.json.decode(body, type=_Asked)
        record = record_of(asked.pod, "request")
    except (WireError, *DECODE_FAULTS) as error:
        raise ProblemError(400, "BadRequest", str(error)) from error
    record.metadata.uid = identify(record)
    if len(record.spec.containers or ()) != 1 or record.spec.initContainers:
        raise ProblemError(400, "BadRequest", "found several containers, expected one")
    policy = (record.metadata.annotations or {}).get(TOPOLOGY_POLICY, "none")
    if policy not in POLICY_NAMES:
        known = ", ".join(sorted(POLICY_NAMES))
        text = f"topology policy: found {policy[:100]!r}, expected one of {known}"
        raise ProblemError(400, "BadRequest", text)
    caller = Caller(asked.process.pid, asked.process.start, asked.process.boot)
    if not handle_exists(caller.pid, caller.start, caller.boot):
        text = (
            f"found no process {caller.pid} that began when it says; numalign run must be on the "
            "agent's host and in its PID namespace"
        )
        raise ProblemError(400, "BadRequest", text)
    return record, AgentRun(caller, waits=asked.wait)
