"""Room for a pod of higher priority that fits nowhere.

A host is *nominated*: written into the pod's status first, so that the next leader and everybody
else can see it. Then the victims are evicted one after the other; those with a budget first, since
an eviction that is refused ends the attempt, and nobody should have ended in vain. Until the pod is
bound the room is *held*: pods of the same or lower priority get the host only if the pod still fits
there once its victims are gone. The queue goes by priority, so after a restart the pod is asked
about before those that might take its room, and finds the pods that are leaving already.
"""

from __future__ import annotations

from typing import Final

from numalign.apps.scheduler import events
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.room import victims
from numalign.apps.scheduler.room.model import BUDGETS, Nomination
from numalign.core.cluster.between_pods.victims import Chosen
from numalign.core.cluster.scheduling.interleavings import class_of
from numalign.wire.kubernetes.scheduling import ClusterPod

NOMINATION_SECONDS_MAX: Final = 600.0  # for the victims to end
SPARED_SECONDS: Final = 60.0  # a pod whose eviction was refused is not asked again at once
NAMES_TOLD_MAX: Final = 8
TRIED_KEPT_MAX: Final = 1_024

_Attempt = tuple[str, list[events.Effect]]


# Looking for victims.


def attempt(state: State, pod: ClusterPod, message: str, now: float) -> _Attempt:
    """Makes room for a pod if that is possible; what to tell it, and what to do."""
    uid = pod.pod.uid
    known = state.room.nominations.get(uid)
    if known is not None:
        if known.since + NOMINATION_SECONDS_MAX > now and victims.awaited(state, known):
            return known.message, []
        _drop(state, uid)  # they are gone, and it was not enough: somebody was quicker
    withdrawn: list[events.Effect] = [] if known is None else [room_events.Nominate(pod, "")]
    if not _may_preempt(state, pod):
        return message, withdrawn
    among_others = (pod.pod.namespace, frozenset(pod.labels.items()), pod.rules)
    key = (pod.priority, pod.requirements, class_of(pod.pod), among_others)
    tried = state.room.tried.get(key)
    if tried is not None and tried[0] == state.generation:
        return f"{message}; {tried[1]}", withdrawn
    chosen, is_limited = victims.search(state, pod, now)
    if chosen is None:
        why = "evicting pods of lower priority does not help"
        if is_limited:
            why += " as far as PodDisruptionBudgets allow it"
        if len(state.room.tried) >= TRIED_KEPT_MAX:
            state.room.tried.clear()
        state.room.tried[key] = (state.generation, why)
        return f"{message}; {why}", withdrawn
    return _nominate(state, pod, chosen, message, now)


def _may_preempt(state: State, pod: ClusterPod) -> bool:
    """Whether somebody could be evicted for it at all: asked of every pod that fits nowhere."""
    if state.is_extender or not state.makes_room or not pod.preempts:
        return False
    return BUDGETS in state.synced and min(state.priorities, default=pod.priority) < pod.priority


# Holding the room.


def end(state: State, uid: str, now: float) -> None:
    """A pod needs no room any more: it has a host, or is gone."""
    if uid in state.room.nominations:
        _drop(state, uid)
        state.helped(now)


def _drop(state: State, uid: str) -> None:
    known = state.room.nominations.pop(uid)
    state.room.held[known.host].remove(uid)
    if not state.room.held[known.host]:
        del state.room.held[known.host]


def _nominate(state: State, pod: ClusterPod, chosen: Chosen, message: str, now: float) -> _Attempt:
    uid, host = pod.pod.uid, chosen.host
    order = sorted(chosen.victims, key=lambda one: (not one.budget, one.priority, one.uid))
    pods = state.use[host].pods
    leaving = [one for one in pods if one in state.pods and state.pods[one].is_deleted]
    if order:
        names = [_name(state.pods[one.uid]) for one in order]
        more = f" and {len(names) - NAMES_TOLD_MAX} more" if len(names) > NAMES_TOLD_MAX else ""
        noun = "pod" if len(names) == 1 else "pods"
        told = f"{', '.join(names[:NAMES_TOLD_MAX])}{more}"
        message += f"; evicts {len(names)} {noun} of lower priority from {host}: {told}"
    else:
        message += f"; waits for pods that are leaving {host}"
    victims = [one.uid for one in order]
    state.room.nominations[uid] = Nomination(host, victims, leaving, message, now)
    state.room.held.setdefault(host, []).append(uid)
    return message, [
        room_events.Nominate(pod, host),
        room_events.CountPreemption("nominated"),
    ]


def forget_all(state: State) -> None:
    """Another replica leads: it finds in the cluster what it must know."""
    state.room.nominations.clear()
    state.room.held.clear()
    state.room.condemned.clear()


# Evicting.


def nomination_written(state: State, event: room_events.NominationWritten) -> list[events.Effect]:
    """The host is in the pod's status, so the first victim may go."""
    known = state.room.nominations.get(event.uid)
    if known is None or known.host != event.host:
        return []
    if event.error:
        # A pod that is gone is told by the watch; for another one it is tried anew.
        return _given_up(state, event.uid, event.now)
    return _next_victim(state, event.uid, event.now)


def eviction_ended(state: State, event: room_events.EvictionEnded) -> list[events.Effect]:
    """One victim is on its way, or the attempt has come to nothing."""
    victim = state.room.condemned.pop(event.victim, None)
    if event.outcome is room_events.EvictionOutcome.REFUSED:
        state.room.spared[event.victim] = event.now + SPARED_SECONDS
        return [
            room_events.CountPreemption("refused"),
            *_given_up(state, event.uid, event.now),
        ]
    effects: list[events.Effect] = [room_events.CountPreemption("evicted")]
    wants = state.pods.get(event.uid)
    if victim is not None and wants is not None:
        note = (
            f"evicted from {victim.host} to make room for {_name(wants)}, "
            f"whose priority is {wants.priority} and not {victim.priority}"
        )
        effects.append(events.TellEvent(victim, "Preempted", "Preempting", note, is_warning=False))
    known = state.room.nominations.get(event.uid)
    if known is not None and event.victim in known.victims:
        known.victims.remove(event.victim)
        known.leaving.append(event.victim)
        effects += _next_victim(state, event.uid, event.now)
    return effects


def _next_victim(state: State, uid: str, now: float) -> list[events.Effect]:
    known = state.room.nominations[uid]
    known.victims[:] = [one for one in known.victims if one in state.pods]
    if known.victims:
        victim = state.pods[known.victims[0]]
        if victim.is_deleted:  # by somebody else
            known.leaving.append(known.victims.pop(0))
            return _next_victim(state, uid, now)
        state.room.condemned[victim.pod.uid] = victim
        return [room_events.Evict(uid, victim)]
    if not victims.awaited(state, known):
        state.queue.wake([uid], now)
    return []


def _given_up(state: State, uid: str, now: float) -> list[events.Effect]:
    """No room is made after all; the pod is tried again after a rest."""
    pod = state.pods.get(uid)
    if uid not in state.room.nominations:
        return []
    end(state, uid, now)
    if pod is None:
        return []
    state.queue.back_off(uid, now)
    return [room_events.Nominate(pod, "")]


# Budgets.


def follow_budgets(state: State, event: room_events.BudgetEvent) -> None:
    """Brings the PodDisruptionBudgets up to date; where one allows more, victims may be found."""
    budgets = state.room.budgets
    before = dict(budgets)
    match event:
        case room_events.BudgetsListed(listed):
            budgets.clear()
            budgets.update((one.name, one) for one in listed)
            state.synced.add(BUDGETS)
        case room_events.BudgetSeen(budget):
            budgets[budget.name] = budget
        case room_events.BudgetGone(name):
            budgets.pop(name, None)
    is_more = any(
        name not in budgets or budgets[name].allowed > known.allowed
        for name, known in before.items()
    )
    if state.room.is_limited and is_more:
        state.room.is_limited = False
        state.helped(event.now)


def _name(pod: ClusterPod) -> str:
    return f"{pod.pod.namespace}/{pod.pod.name}"
