"""What the plugin does: one event in, the next state and effects out. Pure.

What must survive a crash is saved before it is answered. Updates of other containers travel only in
answers, unless the runtime is new enough to take them at any time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from numalign.apps.nri import events
from numalign.apps.nri.events import Effect, Event
from numalign.apps.nri.model import NriState
from numalign.apps.nri.policy import HostPolicy
from numalign.apps.nri.steps import creating, holdings, pods, synchronizing, updating
from numalign.apps.nri.steps.placing import forget, with_updates
from numalign.core.kubelet.state_checks import law_breaches
from numalign.core.values.sets import format_list
from numalign.wire.nri.values import Sandbox

SENDS_SAFELY: Final = (0, 12, 1)  # before, an update at the wrong moment can lock the runtime up
HAS_MEMORY_POLICIES: Final = (0, 12, 0)


def step(state: NriState, event: Event) -> tuple[NriState, list[Effect]]:
    """What is known after an event, and what must now be done, in that order."""
    after, effects = _step(state, event)
    if after.host is not state.host:
        broken = next(law_breaches(after.policy.host, after.host), None)
        assert broken is None, f"a law of the state is broken: {broken}"
    return after, effects


def _step(state: NriState, event: Event) -> tuple[NriState, list[Effect]]:
    match event:
        case events.Connected(version):
            can_send = version >= SENDS_SAFELY
            has_policies = version >= HAS_MEMORY_POLICIES
            return replace(state, can_send=can_send, has_memory_policies=has_policies), []
        case events.Disconnected():
            return replace(state, is_synchronized=False), []
        case events.Synchronized():
            return synchronizing.synchronize(state, event)
        case events.PodStarted(pod):
            entry = pods.entry_of(pod, state.pods.get(pod.uid))
            return replace(state, pods={**state.pods, pod.uid: entry}), []
        case events.PodStopped(pod):
            return _pod_ended(state, pod, is_removed=False)
        case events.PodRemoved(pod):
            return _pod_ended(state, pod, is_removed=True)
        case events.ContainerCreating():
            return creating.create(state, event)
        case events.ContainerUpdating():
            return updating.update(state, event)
        case events.ContainerStopped(container):
            state, updates = with_updates(forget(state, container.id))
            return state, [events.AnswerUpdates(updates)]
        case events.ContainerRemoved(container):
            return forget(state, container.id), []
        case events.HostFileChanged(policy):
            return _host_file(state, policy)
        case events.DriftSeen(drifted):
            containers = {
                # As if nothing had been said: the next answer says it again.
                id_: replace(one, cpus="") if id_ in drifted else one
                for id_, one in state.containers.items()
            }
            return _sent(replace(state, containers=containers), [])
        case _:
            assert_never(event)


def _pod_ended(state: NriState, pod: Sandbox, *, is_removed: bool) -> tuple[NriState, list[Effect]]:
    """A pod whose last sandbox stops gives back what it holds; removed, it is forgotten."""
    entry = state.pods.get(pod.uid)
    if entry is not None and entry.sandboxes - {pod.id}:
        # Another sandbox of the pod lives: only this one goes.
        left = replace(entry, sandboxes=entry.sandboxes - {pod.id})
        return replace(state, pods={**state.pods, pod.uid: left}), []
    before = state
    held = 0
    for cpus in state.host.cpu.entries.get(pod.uid, {}).values():
        held |= cpus
    state = holdings.release(state, pod.uid, is_remembered=not is_removed)
    state = replace(
        state,
        pods={uid: one for uid, one in state.pods.items() if uid != pod.uid},
        containers={id_: one for id_, one in state.containers.items() if one.key[0] != pod.uid},
        unplaced=frozenset(key for key in state.unplaced if key[0] != pod.uid),
    )
    notes: list[Effect] = []
    if state.pending is not None:
        state, notes = _host_file(state, state.pending)
    if held:
        notes.append(events.Released(f"{pod.namespace}/{pod.name}", format_list(held)))
    return _sent(state, [*creating.saves(before, state), *notes])


def _host_file(state: NriState, policy: HostPolicy) -> tuple[NriState, list[Effect]]:
    """Takes up another host file, or keeps it until nobody stands in its way."""
    after, keys, why = holdings.rebased(state, policy)
    if keys:
        waits = state.pending is policy
        note = [] if waits else [events.HostFileApplied(keys, why)]
        return replace(state, pending=policy), list(note)
    return after, [*creating.saves(state, after), events.HostFileApplied()]


def _sent(state: NriState, effects: list[Effect]) -> tuple[NriState, list[Effect]]:
    """Tells others at once, where that is safe; otherwise the next answer does."""
    if not state.can_send or not state.is_synchronized:
        return state, effects
    state, updates = with_updates(state)
    return state, [*effects, events.SendUpdates(updates)] if updates else effects
