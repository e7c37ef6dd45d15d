"""Manifests applied over the API: every pod as written, one result for each."""

from __future__ import annotations

from starlette.responses import Response

from numalign.apps.agent.events import Answer
from numalign.apps.agent.model import INTERNAL_ERROR, AgentPod
from numalign.apps.agent.steps.admission import ALREADY_EXISTS
from numalign.apps.agent.views.answers import Change, Changes
from numalign.apps.agent.views.port import AgentPort
from numalign.core.asker import Asker
from numalign.web.answers import ProblemError, json_answer
from numalign.web.requests import identify
from numalign.wire.pods.records import PodRecord
from numalign.wire.pods.workloads import Expansion, Workload, split_by_name

UNAVAILABLE = frozenset({"StateNotSaved", "AgentHalted"})  # not the pod's fault


async def applied(agent: AgentPort, found: Expansion, asker: Asker | None = None) -> Response:
    """200 with what was done, or 422 with the same if a pod was refused."""
    workloads, twice = split_by_name(found.workloads)
    changes: list[Change] = []
    for workload in workloads:
        changes += await _apply(agent, workload, asker)
    changes += [
        Change(one.namespace, one.name, "", "refused", ALREADY_EXISTS, one.text) for one in twice
    ]
    refused = [change for change in changes if change.result == "refused"]
    if refused:
        more = f"; {len(refused) - 1} more were refused" if len(refused) > 1 else ""
        error = f"{refused[0].name}: {refused[0].message}{more}"
        raise ProblemError(422, refused[0].reason, error, changes=changes)
    return json_answer(Changes(changes, found.notes))


async def _apply(agent: AgentPort, workload: Workload, asker: Asker | None) -> list[Change]:
    pods = [(identify(pod), pod) for pod in workload.pods]
    owner = None if workload.is_pod else (workload.kind, workload.name)
    answers, whole = await agent.apply(pods, namespace=workload.namespace, owner=owner, asker=asker)
    for answer in (whole, *answers):
        if answer.reason == INTERNAL_ERROR:
            raise ProblemError(500, answer.reason, answer.message)
        if answer.reason in UNAVAILABLE and not answer.accepted:
            headers = {"retry-after": "1"}
            raise ProblemError(503, answer.reason, answer.message, headers=headers)
    gone = [_gone(pod) for pod in whole.removed]
    done = [_done(workload, *pair) for pair in zip(workload.pods, answers, strict=True)]
    return [*gone, *done]


def _gone(pod: AgentPod) -> Change:
    return Change(
        pod.pod.namespace, pod.pod.name, pod.pod.uid, "deleted", owner=pod.record.metadata.owner
    )


def _done(workload: Workload, record: PodRecord, answer: Answer) -> Change:
    return Change(
        workload.namespace,
        record.metadata.name,
        answer.uid,
        (answer.result or "created") if answer.accepted else "refused",
        answer.reason,
        answer.message,
        record.metadata.owner,
    )
