"""When the exporter looks, checks and publishes: one event in, effects out.

Something changed or the interval is over: the host is looked at, and what is found is written if
it is new. ``look`` has the stages of one look.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from numalign.apps.exporter import events, look
from numalign.apps.exporter.model import ExporterState, Setup, Stage
from numalign.core.cluster.publish.export import Key, KnownPod

# All hosts of a cluster often start together; they need not stay together.
INTERVAL_SPREAD: Final = (0.9, 1.1)


def step(
    setup: Setup, state: ExporterState, event: events.Event
) -> tuple[ExporterState, list[events.Effect]]:
    """What is known after an event, and what must now be done, in that order."""
    effects: list[events.Effect] = []
    match event:
        case events.Tick():
            state = _tick(setup, state, event)
        case events.StateFilesChanged() | events.PodUnreadable():
            state = replace(state, is_due=True)
        case events.PodsListed(pods, _, unreadable):
            # What was known of a pod that cannot be read now still stands.
            still = [known for key, known in state.pods.items() if key in unreadable]
            known = {_key(pod): pod for pod in (*pods, *still)}
            state = replace(state, pods=known, are_pods_listed=True, is_due=True)
        case events.PodSeen(pod, _):
            state = replace(state, pods={**state.pods, _key(pod): pod}, is_due=True)
        case events.PodGone():
            state = _forget_pod(state, event)
        case events.HostLookedUp(uid, version, now):
            state = replace(state, host_uid=uid, kubelet_version=version)
            state = look.scan(setup, state, now, effects)
        case events.HostMissing(now):
            state = look.scan(setup, replace(state, host_uid=""), now, effects)
        case events.HostScanned(report, now):
            state = look.take_report(setup, state, report, now, effects)
        case events.PodsFound(pods, now, chance):
            found = {_key(pod): pod for pod in pods}
            state = replace(state, pods={**state.pods, **found})
            state = look.take_pods(setup, state, now, chance, effects)
        case events.ObjectChecked(version, now):
            state = look.take_check(state, version, now, effects)
        case events.ObjectWritten(version, now):
            state = look.take_written(state, version, now, effects)
        case events.RequestFailed(error, now, chance):
            state = look.fail(state, error, now, chance, effects)
        case _:
            assert_never(event)
    return _go_on(setup, state, event.now, effects), effects


def _tick(setup: Setup, state: ExporterState, event: events.Tick) -> ExporterState:
    state = replace(state, wakes_at=None)  # so that the clock is asked again
    if event.now < state.checks_at:
        return state
    least, most = INTERVAL_SPREAD
    wait = setup.interval_seconds * (least + (most - least) * event.chance)
    return replace(state, is_due=True, checks_due=True, checks_at=event.now + wait)


def _forget_pod(state: ExporterState, event: events.PodGone) -> ExporterState:
    known = state.pods.get(event.key)
    # A pod of the same name may already be there again.
    if known is not None and known.pod.uid == event.uid:
        state = replace(state, pods={k: v for k, v in state.pods.items() if k != event.key})
    return replace(state, is_due=True)


def _go_on(
    setup: Setup, state: ExporterState, now: float, effects: list[events.Effect]
) -> ExporterState:
    """Begins a look if it is time, and asks to be woken when it will be."""
    may_look = state.are_pods_listed or not setup.follows_pods
    if state.is_due and may_look and state.look.stage is Stage.IDLE:
        begins_at = state.begins_at
        if begins_at is None:
            begins_at = max(now, state.not_before) + setup.together_seconds
        state = replace(state, begins_at=begins_at)
        if now >= begins_at:
            state = look.begin(setup, state, now, effects)
    wakes_at = state.checks_at if state.begins_at is None else min(state.begins_at, state.checks_at)
    if wakes_at == state.wakes_at:
        return state
    effects.append(events.WakeAt(wakes_at))
    return replace(state, wakes_at=wakes_at)


def _key(known: KnownPod) -> Key:
    return known.pod.namespace, known.pod.name
