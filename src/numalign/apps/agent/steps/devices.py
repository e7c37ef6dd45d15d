"""Device plugins: what they report, what they prepare for a container, what they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from numalign.apps.agent import events, notes
from numalign.apps.agent.model import AgentPod, AgentSetup, AgentState, DeviceSource, Phase
from numalign.apps.agent.steps import admission, lifecycle
from numalign.core.kubelet import host
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.plugin_answer import parts_for_containers

Next = tuple[AgentState, list[events.Effect]]


def reported(setup: AgentSetup, state: AgentState, event: events.DevicesReported) -> Next:
    """A plugin sent its list: pods that waited for it may be decided about now."""
    resource = devices.device_resource(event.devices, has_preferred=event.has_preferred)
    found = devices.with_reported(state.host.devices, event.resource, resource)
    source = DeviceSource(event.is_plugin, event.has_preferred, event.needs_prestart)
    state = replace(
        state,
        host=replace(state.host, devices=found),
        sources={**state.sources, event.resource: source},
    )
    note = notes.DevicesReported(event.resource, len(resource.ids), resource.healthy.bit_count())
    effects: list[events.Effect] = [events.Save(state), events.Publish(note)]
    state, more = admission.retry_deferred(setup, state, event.now)
    return state, effects + more


def gone(state: AgentState, name: str) -> Next:
    """A plugin went away. Not saved at once, as in the kubelet: after a restart it is unknown."""
    known = state.host.devices.resources.get(name)
    if known is None:
        return state, []
    found = devices.with_reported(state.host.devices, name, replace(known, healthy=0))
    state = replace(state, host=replace(state.host, devices=found))
    return state, [events.Publish(notes.DevicesGone(name))]


def allocated(setup: AgentSetup, state: AgentState, event: events.DevicesAllocated) -> Next:
    """A plugin prepared devices; with the last of them the pod can start."""
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
    effects: list[events.Effect] = [events.Save(state), *_not_given(setup, known, event)]
    if known.awaited:
        return state, effects
    state, more = lifecycle.start_due(setup, state, event.uid, event.now)
    return state, effects + more


def _not_given(
    setup: AgentSetup, known: AgentPod, event: events.DevicesAllocated
) -> Iterable[events.Effect]:
    """Says, once, what a plugin wants a container to have and a plain process does not get."""
    lost = parts_for_containers(event.allocation)
    if not lost or not setup.runs_processes:
        return []
    return [events.Publish(notes.DevicesNotGiven(known.pod, event.container, event.resource, lost))]


def refused(setup: AgentSetup, state: AgentState, event: events.DevicesRefused) -> Next:
    """A plugin did not prepare devices: the pod is refused after all."""
    uid = event.uid
    known = state.pods.get(uid)
    if known is None or not known.awaited:
        return state, []
    message = f"Allocate failed due to {event.error}, which is unexpected"
    failed = replace(
        known,
        phase=Phase.FAILED,
        reason="UnexpectedAdmissionError",
        message=f"Pod was rejected: {message}",
        awaited=frozenset(),
    )
    freed = host.cleaned(setup.host, host.ended(state.host, uid))
    state = replace(state, host=freed, pods={**state.pods, uid: failed})
    stops = [events.StopContainer(uid, name, 0.0) for name in failed.alive()]
    at = f"{event.container}: {event.error}"
    return state, [
        events.Save(state),
        events.Publish(notes.PodRejected(known.pod, failed.reason, at=at)),
        *stops,
    ]


def prestarted(setup: AgentSetup, state: AgentState, event: events.DevicesPrestarted) -> Next:
    """The plugins know of a container that is about to start: now it may."""
    known = state.pods.get(event.uid)
    if known is None:
        return state, []
    return lifecycle.start_prepared(setup, state, event, known)
