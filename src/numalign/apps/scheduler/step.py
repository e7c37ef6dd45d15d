"""One event in, effects out: all that the scheduler decides is decided here.

A pod is *assumed* from the moment it is sent to be bound: it counts on its host at once, so that
the next pod sees it, and is taken off again if the bind fails. Watches may repeat themselves and
two of them may disagree for a moment; a host, once a pod has it, is never lost again.
"""

from __future__ import annotations

from typing import Final, assert_never

from numalign.apps.scheduler import asked_binds, asked_hosts, events, pre_place
from numalign.apps.scheduler.find_host import class_of, find
from numalign.apps.scheduler.model import HOSTS, PODS, TOPOLOGIES, State
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.room import gangs, preemption
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.totals import HostUse
from numalign.wire.kubernetes.scheduling import ClusterPod

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


def step(state: State, event: events.Event) -> list[events.Effect]:
    """What must be done now, in that order; the state is brought up to date in place."""
    effects = _step(state, event)
    if state.has_helper:
        state.has_helper = False
        state.queue.wake(None, event.now)
    return effects


def _step(state: State, event: events.Event) -> list[events.Effect]:
    match event:
        case events.LeadershipChanged():
            return _leadership_changed(state, event)
        case events.Turn(now):
            return _turn(state, now)
        case events.BindEnded():
            return _bind_ended(state, event)
        case events.BindUnclear(_, host):
            # Nothing else goes to this host before it is clear what its kubelet will see.
            return [events.ReadUnclearBind(state.binds[host][0].pod, event)]
        case events.UnclearBindRead():
            return _unclear_bind_read(state, event)
        case events.RecreateFailed():
            pre_place.recreate_failed(state, event)
            return []
        case room_events.NominationWritten():
            return preemption.nomination_written(state, event)
        case room_events.EvictionEnded():
            return preemption.eviction_ended(state, event)
        case room_events.BudgetsListed() | room_events.BudgetSeen() | room_events.BudgetGone():
            preemption.follow_budgets(state, event)
            return []
        case room_events.GroupsListed() | room_events.GroupSeen() | room_events.GroupGone():
            gangs.follow_groups(state, event)
            return []
        case events.HostsWanted():
            return asked_hosts.want(state, event)
        case events.BindWanted():
            return asked_binds.want(state, event)
        case events.PodFetched():
            return _pod_fetched(state, event)
        case _:
            _follow(state, event)
            return []


def _follow(state: State, event: events.ClusterEvent) -> None:
    """Brings the state up to date with the cluster."""
    match event:
        case events.PodsListed():
            _pods_listed(state, event)
        case events.PodSeen(pod, now):
            _pod_seen(state, pod, now)
        case events.PodGone(uid, now):
            _pod_gone(state, uid, now)
        case events.HostsListed():
            _hosts_listed(state, event)
        case events.HostSeen(host, now):
            _host_seen(state, host, now)
        case events.HostGone(name, _):
            _host_gone(state, name)
        case events.TopologiesListed():
            _topologies_listed(state, event)
        case events.TopologySeen(topology, now):
            _topology_seen(state, topology, now)
        case events.TopologyGone(name, now):
            state.topologies.pop(name, None)
            state.fleet.topology_gone(name)
            state.helped(now)
        case events.CaughtUp():
            _caught_up(state, event)
        case _:
            assert_never(event)


# Pods.


def _pods_listed(state: State, event: events.PodsListed) -> None:
    there = {pod.pod.uid for pod in event.pods}
    for uid in state.pods.keys() - there - event.unreadable:
        _pod_gone(state, uid, event.now)
    for pod in event.pods:
        _pod_seen(state, pod, event.now)
    state.fleet.changes_missed(state.assumed)
    state.harms += 1
    state.synced.add(PODS)


def _pod_seen(state: State, pod: ClusterPod, now: float) -> None:
    uid = pod.pod.uid
    if pod.is_over:
        _pod_gone(state, uid, now)
        return
    before = state.pods.get(uid)
    if before is not None and before.host and not pod.host:
        return  # old news: a pod never loses its host
    if before is not None and before.gang != pod.gang:
        gangs.gone(state, uid)
    state.pods[uid] = pod
    if pod.gang is not None:
        gangs.seen(state, pod)
    if pod.host:
        state.queue.remove(uid)
        state.told.pop(uid, None)
        pre_place.forget(state, uid)
        asked_hosts.confirmed(state, uid)
        where = state.placed.get(uid)
        preemption.end(state, uid, now)
        elsewhere = where not in (None, pod.host)
        if where != pod.host or before is None or before.pod != pod.pod:
            state.place(pod, pod.host)
        elif before.is_deleted != pod.is_deleted or before.labels != pod.labels:
            state.tell_neighbours(pod, pod.host)
        state.assumed.discard(uid)
        if elsewhere:
            state.helped(now)
    elif pod.pinned:
        pre_place.pinned_seen(state, pod, now)
    else:
        _unplaced_seen(state, before, pod, now)


def _unplaced_seen(state: State, before: ClusterPod | None, pod: ClusterPod, now: float) -> None:
    uid = pod.pod.uid
    pre_place.gated_seen(state, pod, now)
    if uid in state.assumed:
        return  # the bind is under way; its end decides
    if not pre_place.is_ours(state, pod):
        state.queue.remove(uid)
        preemption.end(state, uid, now)
    elif before is not None and uid in state.queue and class_of(before) != class_of(pod):
        state.queue.changed(uid, now)
    else:
        state.queue.add(uid, priority=pod.priority, now=now)


def _pod_gone(state: State, uid: str, now: float) -> None:
    preemption.end(state, uid, now)
    gangs.gone(state, uid)
    state.pods.pop(uid, None)
    state.queue.remove(uid)
    state.told.pop(uid, None)
    pre_place.forget(state, uid)
    asked_hosts.confirmed(state, uid)
    if uid in state.placed:
        state.unplace(uid)
        state.helped(now)


def _pod_fetched(state: State, event: events.PodFetched) -> list[events.Effect]:
    wanted = state.fetching[event.ticket].uid
    if event.pod is not None and event.pod.pod.uid == wanted:
        _pod_seen(state, event.pod, event.now)
    return asked_binds.take_fetched(state, event)


# Hosts.


def _hosts_listed(state: State, event: events.HostsListed) -> None:
    there = {host.name for host in event.hosts}
    for name in state.hosts.keys() - there - event.unreadable:
        _host_gone(state, name)
    for host in event.hosts:
        _host_seen(state, host, event.now)
    state.synced.add(HOSTS)


def _host_seen(state: State, host: HostFacts, now: float) -> None:
    if state.hosts.get(host.name) == host:
        return
    state.hosts[host.name] = host
    state.use.setdefault(host.name, HostUse())
    state.forget_objections(host.name)
    state.fleet.host_changed(host)
    state.helped(now)


def _host_gone(state: State, name: str) -> None:
    if state.hosts.pop(name, None) is None:
        return
    state.forget_objections(name)
    state.harms += 1
    if name in state.use and not state.use[name].pods:
        del state.use[name]
    state.fleet.host_gone(name)


def _topologies_listed(state: State, event: events.TopologiesListed) -> None:
    there = {one.name for one in event.topologies}
    for name in state.topologies.keys() - there - event.unreadable:
        state.topologies.pop(name)
        state.fleet.topology_gone(name)
        state.helped(event.now)
    for topology in event.topologies:
        _topology_seen(state, topology, event.now)
    state.synced.add(TOPOLOGIES)


def _topology_seen(state: State, topology: HostTopology, now: float) -> None:
    if state.topologies.get(topology.name) == topology:
        return
    state.topologies[topology.name] = topology
    state.fleet.topology_changed(topology)
    state.helped(now)


# Scheduling.


def _leadership_changed(state: State, event: events.LeadershipChanged) -> list[events.Effect]:
    state.is_elected, state.is_leading = event.is_leading, False
    if not event.is_leading:
        preemption.forget_all(state)
        return []
    state.term += 1
    return [events.CatchUp(state.term)]


def _caught_up(state: State, event: events.CaughtUp) -> None:
    _pods_listed(state, event.pods)
    # A list from before the last election may lack what another leader bound since.
    if state.is_elected and event.term == state.term:
        state.is_leading = True
        state.helped(event.now)


def next_turn_at(state: State, now: float) -> float | None:
    """When something can be done; None: not before something else has happened."""
    times = (_next_pod_at(state, now), pre_place.next_at(state), asked_hosts.next_at(state))
    return min((at for at in times if at is not None), default=None)


def _next_pod_at(state: State, now: float) -> float | None:
    if not state.is_leading or state.missing:
        return None
    if sum(map(len, state.binds.values())) >= state.binds_max:
        return None
    return state.queue.next_at(now)


def _turn(state: State, now: float) -> list[events.Effect]:
    effects = [*pre_place.due(state, now), *asked_hosts.due(state, now)]
    if _next_pod_at(state, now) is None:
        return effects
    uid = state.queue.pop(now)
    return effects if uid is None else [*effects, *_try_pod(state, state.pods[uid], now)]


def _try_pod(state: State, pod: ClusterPod, now: float) -> list[events.Effect]:
    uid = pod.pod.uid
    others = pre_place.handed_over(state, pod)
    if others is not None:
        state.queue.back_off(uid, now)
        return others
    minimum = 1 if pod.gang is None else gangs.minimum_of(state, pod)
    if minimum != 1:
        return _try_gang(state, pod, minimum, now)
    host, message = find(state, pod)
    if host is not None:
        preemption.end(state, uid, now)
        return [*state.assume(pod, host)]
    message, effects = preemption.attempt(state, pod, message, now)
    state.queue.park(uid, now)
    told = _tell_once(state, pod, UNSCHEDULABLE, pre_place.in_our_words(state, message))
    return [*told, *effects]


def _try_gang(state: State, pod: ClusterPod, minimum: int | str, now: float) -> list[events.Effect]:
    if isinstance(minimum, str):
        found: list[events.Effect] | gangs.GangWaits = gangs.GangWaits(minimum, (pod,))
    else:
        found = gangs.attempt(state, pod, minimum, now)
    if isinstance(found, list):
        return found
    effects: list[events.Effect] = []
    for one in found.waiting:
        state.queue.park(one.pod.uid, now)
        message = pre_place.in_our_words(state, found.message)
        effects += _tell_once(state, one, UNSCHEDULABLE, message)
    return [*effects, *found.effects]


def _tell_once(state: State, pod: ClusterPod, reason: str, message: str) -> list[events.Effect]:
    """The pod's condition and an event, unless both have said so, or a kube-scheduler does."""
    uid = pod.pod.uid
    if state.is_extender or state.told.get(uid) == message:
        return []
    state.told[uid] = message
    effects: list[events.Effect] = [
        events.TellEvent(pod, "FailedScheduling", "Scheduling", message, is_warning=True)
    ]
    if reason != UNSCHEDULABLE or pod.unschedulable != message:
        effects.append(events.SetCondition(pod, reason, message))
    return effects


def _bind_ended(state: State, event: events.BindEnded) -> list[events.Effect]:
    is_bound = event.outcome is events.BindOutcome.BOUND
    result = "scheduled" if state.pre is None else "released"
    return [
        events.CountAttempt(result if is_bound else "bind_failed"),
        *_bind_settled(state, event),
        *asked_binds.answers(state, event),
        *state.next_bind(event.host),
    ]


def _unclear_bind_read(state: State, event: events.UnclearBindRead) -> list[events.Effect]:
    unclear, found = event.unclear, event.pod
    outcome, error = events.BindOutcome.REFUSED, unclear.error
    if event.unreadable:
        error = f"{error}; and then: {event.unreadable}"
    elif found is None or found.pod.uid != unclear.uid or unclear.uid not in state.pods:
        outcome = events.BindOutcome.GONE  # the watch may have told of its end while it was read
    else:
        _pod_seen(state, found, event.now)
        where = found.host or found.pinned
        if where == unclear.host:
            outcome, error = events.BindOutcome.BOUND, ""
        elif where:
            error = f"the pod is already on {where}"
    return _bind_ended(
        state, events.BindEnded(unclear.uid, unclear.host, outcome, error, event.now)
    )


def _bind_settled(state: State, event: events.BindEnded) -> list[events.Effect]:
    uid = event.uid
    pod = state.pods.get(uid)
    match event.outcome:
        case events.BindOutcome.BOUND:
            state.queue.remove(uid)
            state.told.pop(uid, None)
            if pod is None or state.is_extender or state.pre is not None:
                return []
            name = f"{pod.pod.namespace}/{pod.pod.name}"
            note = f"Successfully assigned {name} to {event.host}"
            return [events.TellEvent(pod, "Scheduled", "Binding", note, is_warning=False)]
        case events.BindOutcome.GONE:
            _pod_gone(state, uid, event.now)
            return []
        case events.BindOutcome.REFUSED:
            # It may be seen elsewhere by now, and stays there.
            if uid in state.assumed and state.placed.get(uid) == event.host:
                state.unplace(uid)
                state.generation += 1  # what it held is free for others
                state.queue.wake(None, event.now)
            if pod is None or pod.host or pod.pinned:
                return []
            state.queue.back_off(uid, event.now)
            text = pre_place.in_our_words(state, f"binding to {event.host}: {event.error}")
            return _tell_once(state, pod, SCHEDULER_ERROR, text)
        case _:
            assert_never(event.outcome)
