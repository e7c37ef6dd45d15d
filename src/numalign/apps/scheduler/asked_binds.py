"""Binds that a kube-scheduler asks its extender for.

Every request has a ticket, under which it gets its one answer: an empty text, or what went wrong.
"""

from __future__ import annotations

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import State
from numalign.wire.kubernetes.scheduling import ClusterPod


def want(state: State, event: events.BindWanted) -> list[events.Effect]:
    """Binds a pod that is known, or asks for it first: the watch may be behind."""
    pod = state.pods.get(event.uid)
    if pod is not None:
        return _bind(state, event, pod)
    state.fetching[event.ticket] = event
    return [events.FetchPod(event.ticket, event.namespace, event.name)]


def take_fetched(state: State, event: events.PodFetched) -> list[events.Effect]:
    wanted = state.fetching.pop(event.ticket)
    if event.error:
        return [events.AnswerBind(event.ticket, f"the pod cannot be read: {event.error}")]
    if event.pod is None or event.pod.pod.uid != wanted.uid:
        name = f"{wanted.namespace}/{wanted.name}"
        return [events.AnswerBind(event.ticket, f"there is no pod {name} with uid {wanted.uid}")]
    return _bind(state, wanted, event.pod)


def answers(state: State, event: events.BindEnded) -> list[events.Effect]:
    """Tells everybody who asked for this bind how it ended."""
    return [
        events.AnswerBind(ticket, event.error) for ticket in state.asked_binds.pop(event.uid, ())
    ]


def _bind(state: State, event: events.BindWanted, pod: ClusterPod) -> list[events.Effect]:
    if pod.host:
        text = "" if pod.host == event.host else f"the pod is already on {pod.host}"
        return [events.AnswerBind(event.ticket, text)]
    if state.reserved.pop(event.uid, None) is not None and state.placed[event.uid] == event.host:
        # It was promised this host.
        state.asked_binds.setdefault(event.uid, []).append(event.ticket)
        return [*state.assume(pod, event.host)]
    if event.uid in state.assumed:
        # Asked for twice: its end answers both, and nothing is counted twice.
        under_way = state.placed[event.uid]
        if under_way != event.host:
            return [events.AnswerBind(event.ticket, f"the pod is being bound to {under_way}")]
        state.asked_binds.setdefault(event.uid, []).append(event.ticket)
        return []
    # Since the filter said yes another pod may have come: its bind was before this one.
    refusal = state.fleet.refusal(pod.pod, event.host)
    if refusal is not None:
        text = f"{event.host} does not take it any more: {refusal.text}"
        return [events.CountAttempt("outrun"), events.AnswerBind(event.ticket, text)]
    state.asked_binds.setdefault(event.uid, []).append(event.ticket)
    return [*state.assume(pod, event.host)]
