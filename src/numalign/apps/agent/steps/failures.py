"""What nobody foresaw, while one pod or one peer is handled: it fails, and the rest goes on.

A state is never changed in place, so whatever an exception cuts short has not happened. Who asked
is told no, a pod that cannot be handled is Failed with the reason, and the operator sees both in
``/readyz``. Without this one odd object would end the agent, at every start anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Concatenate, ParamSpec

import msgspec

from numalign.apps.agent import events, notes
from numalign.apps.agent.model import (
    INTERNAL_ERROR,
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    Phase,
    RunState,
)
from numalign.core.errors import unexpected
from numalign.core.kubelet import host
from numalign.core.pod import Pod
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import Metadata, PodRecord

Next = tuple[AgentState, list[events.Effect]]
P = ParamSpec("P")

_OF_A_CONTAINER = (
    events.ContainerStarted
    | events.ContainerExited
    | events.ContainerPostponed
    | events.ProbeAnswered
    | events.PostStartEnded
    | events.DevicesPrestarted
    | events.DevicesAllocated
    | events.DevicesRefused
)


def for_pod(
    decide: Callable[Concatenate[AgentSetup, AgentState, str, P], Next],
    setup: AgentSetup,
    state: AgentState,
    uid: str,
    *more: P.args,
    **named: P.kwargs,
) -> Next:
    """What is decided about one of several pods; one that cannot be handled fails by itself."""
    try:
        return decide(setup, state, uid, *more, **named)
    except Exception as error:
        return fail_pod(setup, state, uid, unexpected(error))


def fail_event(
    setup: AgentSetup, state: AgentState, event: events.Event, error: BaseException
) -> Next:
    """What becomes of an event that could not be decided about."""
    text = unexpected(error)
    state, effects = refuse_event(state, event, text)
    match event:
        case events.PodSubmitted() if event.uid not in state.pods:
            failed = _failed_new(event, text)
            state = replace(state, pods={**state.pods, event.uid: failed})
            effects = [events.Save(state), *effects]
        case events.ContainerExited():
            state, more = fail_pod(setup, _without_process(state, event), event.uid, text)
            effects += more
        case _ if isinstance(event, _OF_A_CONTAINER):
            state, more = fail_pod(setup, state, event.uid, text)
            effects += more
        case _:
            pass
    return state, effects


def refuse_event(state: AgentState, event: events.Event, text: str) -> Next:
    """As if the event had not happened, but that it is told: nothing else is done or saved."""
    what = type(event).__name__
    state = with_fault(state, what, text)
    answers = answer_all(event, INTERNAL_ERROR, text)
    return state, [*answers, events.Publish(notes.EventFailed(what, text))]


def with_fault(state: AgentState, what: str, text: str) -> AgentState:
    return replace(state, faults={**state.faults, what: f"{what}: {text}"})


def without_fault(state: AgentState, what: str) -> AgentState:
    """The same state once what failed before has been handled."""
    if what not in state.faults:
        return state
    return replace(state, faults={k: text for k, text in state.faults.items() if k != what})


def answer_all(event: events.Event, reason: str, message: str) -> list[events.Effect]:
    """A no for everybody who waits for what becomes of an event."""
    match event:
        case events.PodSubmitted(uid=uid, request=request) | events.PodDeleted(uid, _, request):
            asked = [(request, uid)]
        case events.PodsApplied(pods=pods, request=request):
            asked = [*((wanted.request, wanted.uid) for wanted in pods), (request, "")]
        case _:
            asked = []
    return [
        events.Answer(request, uid, accepted=False, reason=reason, message=message)
        for request, uid in asked
        if request is not None
    ]


def fail_pod(setup: AgentSetup, state: AgentState, uid: str, text: str) -> Next:
    """Ends a pod that cannot be handled. What it holds is freed when its containers have ended."""
    known = state.pods.get(uid)
    if known is None:
        return state, []
    failed = replace(
        known, phase=Phase.FAILED, reason=INTERNAL_ERROR, message=text, awaited=frozenset()
    )
    state = replace(state, pods={**state.pods, uid: failed})
    if not any(known.alive()):
        with suppress(Exception):  # else it holds what it has until it is deleted
            state = replace(state, host=host.cleaned(setup.host, host.ended(state.host, uid)))
    stops = [events.StopContainer(uid, name, 0.0) for name in known.alive()]
    note = events.Publish(notes.PodRejected(known.pod, INTERNAL_ERROR, text))
    return state, [events.Save(state), note, *stops]


def _without_process(state: AgentState, event: events.ContainerExited) -> AgentState:
    known = state.pods.get(event.uid)
    status = known.containers.get(event.container) if known is not None else None
    if known is None or status is None or not status.is_alive:
        return state
    ended = replace(
        status, state=RunState.EXITED, pid=None, finished_at=event.now, exit_code=event.code
    )
    known = replace(known, containers={**known.containers, event.container: ended})
    return replace(state, pods={**state.pods, event.uid: known})


def _failed_new(event: events.PodSubmitted, text: str) -> AgentPod:
    record = event.record
    try:
        pod = core_pod(record, uid=event.uid)
        msgspec.json.encode(record)
    except Exception:
        record, pod = nameplate(event.uid, record.metadata.namespace, record.metadata.name)
    return AgentPod(
        record,
        pod,
        event.source,
        event.now,
        phase=Phase.FAILED,
        reason=INTERNAL_ERROR,
        message=text,
        containers={c.name: ContainerStatus() for c in pod.in_order},
    )


def nameplate(uid: str, namespace: object, name: object) -> tuple[PodRecord, Pod]:
    """A pod of which nothing but the name can be used."""
    given, name = (_text(text) for text in (namespace, name))
    metadata = Metadata(name=name or uid, namespace=given, uid=uid)
    return PodRecord(metadata=metadata), Pod(uid, metadata.name, given or "default", (), ())


def _text(found: object) -> str:
    return str(found).encode("utf-8", "replace").decode() if found else ""
