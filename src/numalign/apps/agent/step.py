"""The agent's decisions: what it becomes after an event, and what must then be done, in order.

State is saved before anything that follows from it: a crash in between must not leave a running
container on CPUs that the files call free.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from numalign.apps.agent import lifecycle
from numalign.apps.agent.events import (
    AllocateDevices,
    Answer,
    AskPreference,
    ContainerExited,
    ContainerPostponed,
    ContainerStarted,
    DevicesAllocated,
    DevicesGone,
    DevicesRefused,
    DevicesReported,
    Effect,
    Event,
    Note,
    PodDeleted,
    PodSubmitted,
    Preference,
    Save,
    SourcesReady,
    StopContainer,
    Tick,
)
from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    DeviceSource,
    Phase,
    waiting,
)
from numalign.core.explain.explain import Case
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.decisions import Trace
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.plugin_answer import parts_for_containers
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod
from numalign.wire.pods.manifests import core_pod

Next = tuple[AgentState, list[Effect]]


def step(setup: AgentSetup, state: AgentState, event: Event) -> Next:
    """What the agent becomes, and what must now be done, in that order."""
    match event:
        case PodSubmitted():
            return _submitted(setup, state, event)
        case PodDeleted(uid, now, request):
            return lifecycle.deleted(setup, state, uid, now, request)
        case DevicesReported():
            return _reported(setup, state, event)
        case DevicesGone(resource, _):
            return _gone(state, resource)
        case DevicesAllocated():
            return _allocated(setup, state, event)
        case DevicesRefused(uid, container, _, error, now):
            return _refused_devices(setup, state, uid, f"{container}: {error}", error, now)
        case ContainerStarted():
            return lifecycle.started(setup, state, event)
        case ContainerExited():
            return lifecycle.exited(setup, state, event)
        case ContainerPostponed():
            return lifecycle.postponed(setup, state, event)
        case SourcesReady():
            before = state.host
            ready = host.cleaned(setup.host, host.sources_ready(before))
            state = replace(state, host=ready)
            return state, [Save(), *lifecycle.moved(setup, before, state)]
        case Tick(now):
            state, effects = _retried(setup, state, now)
            state, more = lifecycle.ticked(setup, state, now)
            return state, effects + more
        case _:
            assert_never(event)


# Admission.


class _NeedsPreferenceError(Exception):
    def __init__(self, preference: Preference) -> None:
        super().__init__(preference.resource)
        self.preference = preference


def _submitted(setup: AgentSetup, state: AgentState, event: PodSubmitted) -> Next:
    known = state.pods.get(event.uid)
    if known is not None:
        return state, _answers(event.request, known, event.uid)
    if len(state.pods) >= setup.pods_known_max:
        text = f"found {len(state.pods)} pods, expected fewer than {setup.pods_known_max}"
        return state, _answered(event, "OutOfpods", f"{text}; delete some that have ended")
    pod = core_pod(event.record, uid=event.uid)
    missing = _plugins_awaited(setup, state, pod, event.now)
    if missing:
        return _deferred(state, event, pod, missing)

    def preferred(
        resource: str, offered: tuple[str, ...], must: tuple[str, ...], count: int
    ) -> tuple[str, ...]:
        preference = Preference(resource, offered, must, count)
        if preference not in event.preferences:
            raise _NeedsPreferenceError(preference)
        return event.preferences[preference]

    trace = Trace()
    try:
        after, verdict = verdict_on(
            setup.host, state.host, setup.totals, pod, preferred=preferred, trace=trace
        )
    except _NeedsPreferenceError as need:
        return state, [AskPreference(need.preference, event)]
    words = refusal(verdict)
    if words is None:
        return _admitted(setup, state, after, event, pod, trace)
    case = Case(setup.host, state.host, after, setup.totals, pod, verdict, trace)
    return _refused(setup, state, event, words, case)


def _plugins_awaited(setup: AgentSetup, state: AgentState, pod: Pod, now: float) -> list[str]:
    """Resources of the pod whose plugin was there before a restart and is not back yet."""
    if now - state.started_at >= setup.plugin_grace_seconds:
        return []
    known = state.host.devices.resources
    wanted = {name for container in pod.in_order for name in container.limits}
    return sorted(name for name in wanted if name in known and name not in state.sources)


def _deferred(state: AgentState, event: PodSubmitted, pod: Pod, missing: list[str]) -> Next:
    """Keeps a pod without a decision until its device plugin is back, or long enough.

    One that has devices already, by a state file that somebody else left, keeps all that it has.
    """
    containers = {c.name: ContainerStatus() for c in pod.in_order}
    new = AgentPod(event.record, pod, event.source, event.now, containers=containers)
    new = waiting(new, missing)
    state = replace(state, pods={**state.pods, event.uid: new})
    if event.uid in state.host.devices.entries:
        active = {**state.host.pods, event.uid: pod}
        state = replace(state, host=replace(state.host, pods=active))
    note = Note("pod_deferred", {**lifecycle.named(pod), "resources": missing})
    return state, [Save(), *_answers(event.request, new, event.uid), note]


def _retried(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """Decides about pods that waited for a plugin, where that is possible by now."""
    effects: list[Effect] = []
    for uid, known in list(state.pods.items()):
        if known.waits_for_plugin and not _plugins_awaited(setup, state, known.pod, now):
            others = {key: pod for key, pod in state.pods.items() if key != uid}
            event = PodSubmitted(uid, known.record, known.source, now)
            state, more = _submitted(setup, replace(state, pods=others), event)
            effects += more
    return state, effects


def _admitted(
    setup: AgentSetup,
    state: AgentState,
    after: HostState,
    event: PodSubmitted,
    pod: Pod,
    trace: Trace,
) -> Next:
    wanted: list[Effect] = []
    for container, resources in after.devices.entries.get(pod.uid, {}).items():
        for resource, held in resources.items():
            if state.sources.get(resource, DeviceSource(is_plugin=False)).is_plugin:
                wanted.append(AllocateDevices(pod.uid, container, resource, held.ids))
    new = AgentPod(
        event.record,
        pod,
        event.source,
        event.now,
        containers={c.name: ContainerStatus(reason="PodInitializing") for c in pod.in_order},
        awaited=frozenset(
            (e.container, e.resource) for e in wanted if isinstance(e, AllocateDevices)
        ),
    )
    before = state.host
    state = replace(state, host=after, pods={**state.pods, pod.uid: new})
    effects: list[Effect] = [
        Save(),
        *_answers(event.request, new, pod.uid),
        Note("pod_admitted", {**lifecycle.named(pod), "trace": trace}),
        *lifecycle.moved(setup, before, state),
        *wanted,
    ]
    if wanted:
        return state, effects
    state, more = lifecycle.advanced(setup, state, pod.uid, event.now)
    return state, effects + more


def _refused(
    setup: AgentSetup,
    state: AgentState,
    event: PodSubmitted,
    words: tuple[str, str],
    case: Case,
) -> Next:
    reason, message = words
    pod = case.pod
    new = AgentPod(
        event.record,
        pod,
        event.source,
        event.now,
        phase=Phase.FAILED,
        reason=reason,
        message=f"Pod was rejected: {message}",
        containers={c.name: ContainerStatus() for c in pod.in_order},
    )
    state = replace(
        state,
        host=host.cleaned(setup.host, case.after),
        pods={**state.pods, event.uid: new},
    )
    values = {
        **lifecycle.named(pod),
        "reason": reason,
        "message": message,
        "trace": case.trace,
        "case": case,
    }
    note = Note("pod_rejected", values)
    return state, [Save(), *_answered(event, reason, message), note]


def _answered(event: PodSubmitted, reason: str, message: str) -> list[Effect]:
    if event.request is None:
        return []
    accepted = not reason
    return [Answer(event.request, event.uid, accepted, reason, message)]


def _answers(request: int | None, pod: AgentPod, uid: str) -> list[Effect]:
    if request is None:
        return []
    accepted = pod.phase is not Phase.FAILED
    return [Answer(request, uid, accepted, pod.reason, pod.message)]


# Devices.


def _reported(setup: AgentSetup, state: AgentState, event: DevicesReported) -> Next:
    resource = devices.device_resource(event.devices, has_preferred=event.has_preferred)
    found = devices.with_reported(state.host.devices, event.resource, resource)
    source = DeviceSource(event.is_plugin, event.has_preferred, event.needs_prestart)
    state = replace(
        state,
        host=replace(state.host, devices=found),
        sources={**state.sources, event.resource: source},
    )
    counts = {"devices": len(resource.ids), "healthy": resource.healthy.bit_count()}
    note = Note("devices_reported", {"resource": event.resource, **counts})
    state, effects = _retried(setup, state, event.now)
    return state, [Save(), note, *effects]


def _gone(state: AgentState, name: str) -> Next:
    known = state.host.devices.resources.get(name)
    if known is None:
        return state, []
    found = devices.with_reported(state.host.devices, name, replace(known, healthy=0))
    state = replace(state, host=replace(state.host, devices=found))
    return state, [Note("devices_gone", {"resource": name})]


def _allocated(setup: AgentSetup, state: AgentState, event: DevicesAllocated) -> Next:
    known = state.pods.get(event.uid)
    key = event.container, event.resource
    if known is None or key not in known.awaited:
        return state, []  # the pod is gone meanwhile
    found = devices.with_response(
        state.host.devices, event.uid, event.container, event.resource, event.allocation.response
    )
    known = replace(
        known,
        awaited=known.awaited - {key},
        allocations={**known.allocations, key: event.allocation},
    )
    state = replace(
        state,
        host=replace(state.host, devices=found),
        pods={**state.pods, event.uid: known},
    )
    told = _told(setup, known, event)
    if known.awaited:
        return state, [Save(), *told]
    state, effects = lifecycle.advanced(setup, state, event.uid, event.now)
    return state, [Save(), *told, *effects]


def _told(setup: AgentSetup, known: AgentPod, event: DevicesAllocated) -> list[Effect]:
    """Says, once, what a plugin wants a container to have and a plain process does not get."""
    lost = parts_for_containers(event.allocation)
    if not lost or not setup.runs_processes:
        return []
    values = {"container": event.container, "resource": event.resource, "not_given": lost}
    return [Note("devices_not_given", {**lifecycle.named(known.pod), **values})]


def _refused_devices(
    setup: AgentSetup, state: AgentState, uid: str, where: str, error: str, now: float
) -> Next:
    known = state.pods.get(uid)
    if known is None or not known.awaited:
        return state, []
    message = f"Allocate failed due to {error}, which is unexpected"
    failed = replace(
        known,
        phase=Phase.FAILED,
        reason="UnexpectedAdmissionError",
        message=f"Pod was rejected: {message}",
        awaited=frozenset(),
    )
    before = state.host
    freed = host.cleaned(setup.host, host.ended(before, uid))
    state = replace(state, host=freed, pods={**state.pods, uid: failed})
    stops = [StopContainer(uid, name, 0.0) for name in failed.alive()]
    note = Note(
        "pod_rejected", {**lifecycle.named(known.pod), "reason": failed.reason, "at": where}
    )
    del now
    return state, [Save(), note, *stops, *lifecycle.moved(setup, before, state)]
