"""Probes and hooks: when a container is asked, and what its answers mean.

As in the kubelet: a startup probe holds the others back until it has passed; liveness and startup
end a container after failureThreshold answers in a row, readiness only says whether it is ready.
Time comes with the ticks, so a probe is asked at most once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from numalign.apps.agent import notes
from numalign.apps.agent.events import (
    Effect,
    PostStartEnded,
    ProbeAnswered,
    Publish,
    RunProbe,
    Save,
)
from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    ProbeKind,
    ProbeStatus,
    RunState,
)
from numalign.apps.agent.steps import failures, hooks, lifecycle
from numalign.wire.pods.records import Probe

Next = tuple[AgentState, list[Effect]]

PERIOD_SECONDS: Final = 10  # where a manifest says 0
STOPPED: Final = "it is stopped"
NOT_READY: Final = "it is not ready"


def post_start_ended(setup: AgentSetup, state: AgentState, event: PostStartEnded) -> Next:
    """Others may start now; a container whose hook failed is stopped, and so counts as failed."""
    uid, name = event.uid, event.container
    found = _current(state, uid, name, event.attempt)
    if found is None or not found[1].is_hooked:
        return state, []
    known, status = found
    if event.error:
        return _stopped(setup, state, known, name, "postStart", event.error)
    state = lifecycle.with_status(state, uid, name, replace(status, is_hooked=False))
    effects: list[Effect] = [Save(state)]
    state, more = lifecycle.start_due(setup, state, uid, event.now)
    return state, effects + more


def ask_due(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """The probes whose time has come."""
    effects: list[Effect] = []
    for uid, known in list(state.pods.items()):
        if not (known.deleting or known.is_terminal):
            state, more = failures.for_pod(_ask_due_of, setup, state, uid, now)
            effects += more
    return state, effects


def _ask_due_of(_setup: AgentSetup, state: AgentState, uid: str, now: float) -> Next:
    known, effects = state.pods[uid], list[Effect]()
    for name, status in known.containers.items():
        for kind in _due(status, now):
            probe = hooks.probe_of(known, name, kind)
            if probe is None:
                continue
            record = known.container_record(name)
            effects.append(RunProbe(uid, name, status.restarts, kind, probe, record))
            asked = replace(status.probes[kind], is_asked=True)
            status = replace(status, probes={**status.probes, kind: asked})  # noqa: PLW2901
            state = lifecycle.with_status(state, uid, name, status)
    return state, effects


def _due(status: ContainerStatus, now: float) -> Iterator[ProbeKind]:
    if status.state is not RunState.RUNNING or status.is_stopping:
        return
    startup = status.probes.get(ProbeKind.STARTUP)
    is_up = startup is None or startup.passed is True
    for kind, probe in status.probes.items():
        is_turn = not is_up if kind is ProbeKind.STARTUP else is_up
        if is_turn and not probe.is_asked and probe.next_at <= now:
            yield kind


def answered(setup: AgentSetup, state: AgentState, event: ProbeAnswered) -> Next:
    uid, name, kind = event.uid, event.container, event.kind
    found = _current(state, uid, name, event.attempt)
    if found is None or kind not in found[1].probes:
        return state, []
    known, status = found
    probe = hooks.probe_of(known, name, kind)
    if probe is None:
        return state, []
    after = _counted(status.probes[kind], probe, event)
    changed = replace(status, probes={**status.probes, kind: after})
    state = lifecycle.with_status(state, uid, name, changed)
    if after.passed is status.probes[kind].passed:
        return state, []
    if after.passed is False and kind is not ProbeKind.READINESS:
        return _stopped(setup, state, state.pods[uid], name, kind.value, event.message)
    effects: list[Effect] = [Save(state)]
    if changed.is_ready and not status.is_ready:
        effects.append(Publish(notes.ContainerReady(known.pod, name)))
    elif after.passed is False:
        note = notes.ContainerUnhealthy(known.pod, name, kind.value, NOT_READY, event.message)
        effects.append(Publish(note))
    state, more = lifecycle.start_due(setup, state, uid, event.now)
    return state, effects + more


def _counted(before: ProbeStatus, probe: Probe, event: ProbeAnswered) -> ProbeStatus:
    in_a_row = before.in_a_row + 1 if event.ok is before.last_ok else 1
    needed = probe.successThreshold if event.ok else probe.failureThreshold
    return replace(
        before,
        next_at=event.now + (probe.periodSeconds or PERIOD_SECONDS),
        is_asked=False,
        passed=event.ok if in_a_row >= max(needed, 1) else before.passed,
        in_a_row=in_a_row,
        last_ok=event.ok,
    )


def _current(
    state: AgentState, uid: str, name: str, attempt: int
) -> tuple[AgentPod, ContainerStatus] | None:
    """The pod and the run that an answer is about; None if that is over."""
    known = state.pods.get(uid)
    if known is None or known.deleting or known.is_terminal:
        return None
    status = known.containers[name]
    is_same = status.state is RunState.RUNNING and status.restarts == attempt
    return (known, status) if is_same and not status.is_stopping else None


def _stopped(
    setup: AgentSetup, state: AgentState, known: AgentPod, name: str, probe: str, message: str
) -> Next:
    """Ends a container that is not well; what its end means is decided when it comes."""
    status = replace(known.containers[name], is_stopping=True, is_hooked=False)
    state = lifecycle.with_status(state, known.pod.uid, name, status)
    note = Publish(notes.ContainerUnhealthy(known.pod, name, probe, STOPPED, message))
    asked = None
    if (
        probe in set(ProbeKind)
        and (found := hooks.probe_of(known, name, ProbeKind(probe))) is not None
    ):
        asked = found.terminationGracePeriodSeconds
    grace = known.grace_seconds(setup.grace_seconds_max)
    if asked is not None:
        grace = min(float(max(0, asked)), setup.grace_seconds_max)
    return state, [Save(state), note, hooks.stop(setup, known, name, grace)]
