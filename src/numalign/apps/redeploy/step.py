"""What to do about pods that a kubelet refused: one event in, effects out.

A refused pod is over; only its controller can make another one. A ReplicaSet does so at once, the
scheduler may choose the same host, and so on: hundreds of failed pods in a minute. What stops it is
a scheduling gate on the new pod (see docs/reference/cluster.md for how it gets there): while the
host of the last refusal is avoided and the owner's wait lasts, the gate stays closed. It opens with
a rule against the avoided hosts, which is the one change that Kubernetes allows to such a pod.

What refusals teach is in ``lessons``, what is due at a moment in ``due``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, assert_never

from numalign.apps.redeploy import due, events, lessons
from numalign.apps.redeploy.lessons import without
from numalign.apps.redeploy.model import HOSTS, OPEN, PODS, REMOVE, RedeployState, Rules
from numalign.core.cluster.refused_pods import SeenPod

# Their pods are none of ours: the host of one is fixed, the other counts its failed pods.
LEFT_ALONE: Final = frozenset({"DaemonSet", "Job", "Node"})
RETRY_SECONDS: Final = 5.0  # before an effect that failed is asked for again


def step(
    rules: Rules, state: RedeployState, event: events.Event
) -> tuple[RedeployState, list[events.Effect]]:
    """What is known after an event, and what must now be done, in that order."""
    if isinstance(event, events.HostSeen) and event.host in state.hosts:
        return _healthy(state, HOSTS), []  # a sign of life, of which there are many
    effects: list[events.Effect] = []
    now = event.now
    match event:
        case events.PodsListed():
            state = _list(rules, _healthy(state, PODS), event, effects)
        case events.PodSeen(pod, _, holds):
            state = _see(rules, _healthy(state, PODS), pod, now, effects)
            state = _hold(state, pod.uid, pod.host if holds else "")
        case events.PodGone(uid, _):
            state = _ask_anew(_forget_pod(_healthy(state, PODS), uid), uid)
            state = _hold(state, uid, "")
        case events.HostsListed(hosts, _):
            state = replace(_healthy(state, HOSTS), hosts=hosts)
        case events.HostSeen(host, _):
            state = replace(_healthy(state, HOSTS), hosts=state.hosts | {host})
        case events.HostGone(host, _):
            state = replace(_healthy(state, HOSTS), hosts=state.hosts - {host})
        case events.WatchInterrupted(kind, error, _):
            state = replace(state, troubles={**state.troubles, kind: error})
        case events.EffectFailed():
            state = _retry_later(state, event)
        case events.Tick():
            state = lessons.forget_old(rules, _retry(state, now), now)
        case _:
            assert_never(event)
    return due.ask_for_what_is_due(rules, state, now, effects), effects


def _healthy(state: RedeployState, kind: str) -> RedeployState:
    if kind not in state.troubles:
        return state
    return replace(state, troubles=without(state.troubles, kind))


# Pods.


def _list(
    rules: Rules, state: RedeployState, event: events.PodsListed, effects: list[events.Effect]
) -> RedeployState:
    there = {pod.uid for pod in event.pods}
    for uid in [pod.uid for pod in state.all_pods if pod.uid not in there]:
        state = _forget_pod(state, uid)
    state = replace(
        state,
        is_listed=True,
        asked=frozenset(one for one in state.asked if one[0] in there),
        retries={one: at for one, at in state.retries.items() if one[0] in there},
    )
    for pod in event.pods:
        state = _see(rules, state, pod, event.now, effects)
    left = sorted({host for uid, host in state.placed.items() if uid not in event.holding})
    placed = {pod.uid: pod.host for pod in event.pods if pod.uid in event.holding}
    state = replace(state, placed=placed)
    for host in left:
        state = lessons.free_host(state, host)
    return state


def _see(
    rules: Rules, state: RedeployState, pod: SeenPod, now: float, effects: list[events.Effect]
) -> RedeployState:
    was_refused = pod.uid in state.refused
    state = _forget_pod(state, pod.uid)
    if not _is_ours(rules, pod) or pod.is_leaving:
        return state
    if pod.reason in rules.reasons:
        if not was_refused:
            state = lessons.learn(rules, state, pod, now, effects)
        return replace(state, refused={**state.refused, pod.uid: pod})
    if pod.reason or pod.host:
        return state
    if pod.is_gated:
        return replace(state, waiting={**state.waiting, pod.uid: pod})
    if pod.avoids:
        return replace(state, opened={**state.opened, pod.uid: pod})
    return state


def _is_ours(rules: Rules, pod: SeenPod) -> bool:
    kind = pod.owner.kind if pod.owner is not None else ""
    return not (pod.is_static or pod.namespace in rules.namespaces_left_alone or kind in LEFT_ALONE)


def _forget_pod(state: RedeployState, uid: str) -> RedeployState:
    return replace(
        state,
        refused=without(state.refused, uid),
        waiting=without(state.waiting, uid),
        opened=without(state.opened, uid),
    )


def _hold(state: RedeployState, uid: str, host: str) -> RedeployState:
    """Notes on which host a pod holds something, or none; then its last host may have room."""
    before = state.placed.get(uid, "")
    if before == host:
        return state
    if host:
        return replace(state, placed={**state.placed, uid: host})
    return lessons.free_host(replace(state, placed=without(state.placed, uid)), before)


# Effects that failed.


def _retry_later(state: RedeployState, event: events.EffectFailed) -> RedeployState:
    if isinstance(event.effect, events.WriteEvent):
        return state  # words alone: what matters is asked for again, and says so then
    wanted = OPEN if isinstance(event.effect, events.OpenGate) else REMOVE
    one = event.effect.pod.uid, wanted
    if one not in state.asked:
        return state  # the pod is gone
    return replace(state, retries={**state.retries, one: event.now + RETRY_SECONDS})


def _retry(state: RedeployState, now: float) -> RedeployState:
    ready = {one for one, at in state.retries.items() if at <= now}
    if not ready:
        return state
    retries = {one: at for one, at in state.retries.items() if one not in ready}
    return replace(state, asked=state.asked - ready, retries=retries)


def _ask_anew(state: RedeployState, uid: str) -> RedeployState:
    asked = frozenset(one for one in state.asked if one[0] != uid)
    if asked == state.asked:
        return state
    retries: Mapping[tuple[str, str], float] = {
        one: at for one, at in state.retries.items() if one[0] != uid
    }
    return replace(state, asked=asked, retries=retries)
