"""The victims on real hosts: what each host offers, and whether a pod would be let in there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from numalign.apps.scheduler import pre_place
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.room.model import Nomination
from numalign.core.cluster.between_pods.victims import (
    HOSTS_MAX,
    Budget,
    Candidate,
    Chosen,
    Offer,
    choose,
    promise,
)
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.totals import HostUse, requests_of
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.wire.kubernetes.scheduling import ClusterPod


def search(state: State, pod: ClusterPod, now: float) -> tuple[Chosen | None, bool]:
    """The best victims, and whether budgets keep some pods from being any."""
    state.room.spared = {uid: end for uid, end in state.room.spared.items() if end > now}
    requests = requests_of(pod.pod)
    covering = _Covering(state)
    offers = sorted(_offers(state, pod, requests, covering), key=promise)
    allowed = {name: budget.allowed for name, budget in state.room.budgets.items()}
    for known in state.room.nominations.values():
        for uid in known.victims:  # not evicted yet, so not counted in their budgets
            for name in covering.budgets(state.pods[uid]) if uid in state.pods else ():
                allowed[name] -= 1
    chosen = choose(
        list(islice(_hopeful(state, pod, offers), HOSTS_MAX)),
        allowed,
        lambda host, gone: would_take(state, pod, requests, host, gone),
    )
    counts = Counter(one.budget for offer in offers for one in offer.candidates if one.budget)
    is_limited = any(count > allowed[name] for name, count in counts.items())
    state.room.is_limited |= is_limited
    return chosen, is_limited


class _Covering:
    """Which budgets cover a pod; there may be many of both."""

    def __init__(self, state: State) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        for budget in state.room.budgets.values():
            self._by_namespace.setdefault(budget.namespace, []).append(budget)

    def budgets(self, pod: ClusterPod) -> list[str]:
        namespace = pod.pod.namespace
        there = self._by_namespace.get(namespace, ())
        return [one.name for one in there if one.covers(namespace, pod.labels)]


def _offers(
    state: State, pod: ClusterPod, requests: dict[str, int], covering: _Covering
) -> Iterator[Offer]:
    avoided = pre_place.avoided_hosts(state, pod)
    for name, host in state.hosts.items():
        if name in avoided or state.objection(pod.requirements, host) is not None:
            continue
        use = state.use.get(name)
        if use is None or not use.pods:
            continue
        pods = [state.pods[uid] for uid in use.pods if uid in state.pods]
        leaving = frozenset(one.pod.uid for one in pods if one.is_deleted)
        candidates = tuple(_candidates(state, pod, pods, covering))
        if candidates or leaving:
            yield Offer(name, candidates, leaving, _lacking(use, host, requests, leaving))


def _hopeful(state: State, pod: ClusterPod, offers: list[Offer]) -> Iterator[Offer]:
    """The hosts that would take the pod when empty; what is costly is asked of the first ones."""
    for offer in offers:
        refusal = state.fleet.refusal(pod.pod, offer.host)
        if refusal is None or not refusal.is_hopeless:
            nodes_of = partial(state.fleet.nodes_of, offer.host)
            candidates = [replace(one, nodes=nodes_of(one.uid)) for one in offer.candidates]
            yield replace(offer, candidates=tuple(candidates))


def _candidates(
    state: State, pod: ClusterPod, pods: list[ClusterPod], covering: _Covering
) -> Iterator[Candidate]:
    for one in pods:
        uid = one.pod.uid
        if one.priority >= pod.priority or one.is_deleted or one.is_mirror or not one.host:
            continue
        if uid in state.room.spared or uid in state.room.condemned:
            continue
        budgets = covering.budgets(one)
        if len(budgets) > 1:
            continue  # the API server evicts no pod of two budgets
        amounts = {**state.use[one.host].pods[uid], PODS: 1}
        yield Candidate(uid, one.priority, amounts, "".join(budgets))


def _lacking(
    use: HostUse, host: HostFacts, requests: dict[str, int], leaving: Collection[str]
) -> dict[str, int]:
    """What must be freed at least, in sum, besides what those who leave free."""
    left = use.without(leaving) if leaving else use
    needed = {PODS: len(left.pods) + 1} | {
        name: left.used.get(name, 0) + amount for name, amount in requests.items()
    }
    short = {name: total - host.allocatable.get(name, 0) for name, total in needed.items()}
    return {name: amount for name, amount in short.items() if amount > 0}


def would_take(
    state: State, pod: ClusterPod, requests: dict[str, int], name: str, gone: Collection[str] = ()
) -> bool:
    """Whether a host would take a pod once others are gone, and still those it is held for."""
    host = state.hosts.get(name)
    if host is None:
        return False
    held = [
        (other, awaited(state, known))
        for other, known in _held_on(state, name)
        if other.pod.uid != pod.pod.uid and other.priority >= pod.priority
    ]
    use = state.use[name].without([*gone, *(uid for _, leaving in held for uid in leaving)])
    for other, _ in held:
        use.add(other.pod.uid, requests_of(other.pod), other.requirements.ports)
    if use.lack(requests, host) is not None or use.port_taken(pod.requirements.ports) is not None:
        return False
    guard = state.guard(pod, gone)
    if guard is not None and guard(host) is not None:
        return False
    cores = [(other.pod, leaving) for other, leaving in held]
    return state.fleet.takes(pod.pod, name, gone, cores)


def _held_on(state: State, host: str) -> Iterator[tuple[ClusterPod, Nomination]]:
    for uid in state.room.held.get(host, ()):
        yield state.pods[uid], state.room.nominations[uid]


def awaited(state: State, known: Nomination) -> list[str]:
    """The pods that still stand where the nominated one shall be."""
    return [uid for uid in (*known.victims, *known.leaving) if uid in state.pods]
