"""A host for one pod, or why there is none.

The rules besides NUMA are cheap and asked first; the fleet chooses among the hosts that are left.
"""

from __future__ import annotations

from typing import Final

from numalign.apps.scheduler import pre_place
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.room import victims
from numalign.core.cluster.between_pods.neighbours import Guard
from numalign.core.cluster.scheduling import refusals
from numalign.core.cluster.scheduling.interleavings import class_of as numa_class_of
from numalign.core.cluster.scheduling.refusals import Refusal
from numalign.core.cluster.scheduling.totals import HostUse, requests_of
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.wire.kubernetes.extender import Filtered, HostsAsked, PreemptAsked, Victims
from numalign.wire.kubernetes.scheduling import ClusterPod

_NO_USE: Final = HostUse()


def class_of(pod: ClusterPod) -> object:
    """The same for pods that every host answers alike."""
    own = pod.requirements, numa_class_of(pod.pod)
    return own if pod.rules is None else (own, pod.rules, _among_others(pod))


def _among_others(pod: ClusterPod) -> object:
    """By what the rules of others know a pod."""
    return pod.pod.namespace, frozenset(pod.labels.items())


def find(state: State, pod: ClusterPod) -> tuple[str | None, str]:
    """The host for a pod, or None and why no host takes it."""
    unsupported = [r for r in pod.requirements.unsupported if not pre_place.is_followed(state, r)]
    if unsupported:
        return None, (
            f"the pod asks for {' and '.join(unsupported)}, which this scheduler "
            "does not implement; choose another schedulerName, such as that of a kube-scheduler "
            "with numalign as its extender"
        )
    key: tuple[object, ...] = (class_of(pod), pre_place.avoided_hosts(state, pod))
    if state.neighbours.repels:
        key = (*key, _among_others(pod))
    if state.room.held:
        key = (*key, pod.priority)
        nominated = _nominated(state, pod)
        if nominated is not None:
            return nominated, ""
    before = state.tried.get(key)
    if before is not None and before.generation == state.generation:
        return None, before.message
    requests, guard = requests_of(pod.pod), state.guard(pod)
    host = state.fleet.choose(
        pod.pod, lambda name: objection_to(state, pod, requests, name, guard) is None
    )
    if host is not None:
        return host, ""
    message = summary(state, pod)
    state.remember(key, message)
    return None, message


def _nominated(state: State, pod: ClusterPod) -> str | None:
    """The host on which room was made for the pod, if there is enough by now."""
    known = state.room.nominations.get(pod.pod.uid)
    if known is None:
        return None
    requests, host = requests_of(pod.pod), known.host
    is_refused = objection_to(state, pod, requests, host, state.guard(pod)) is not None
    return None if is_refused or state.fleet.refusal(pod.pod, host) is not None else host


def summary(state: State, pod: ClusterPod) -> str:
    """Why no host takes a pod, with how many hosts say so."""
    return refusals.summary(len(state.hosts), all_refusals(state, pod).values())


def all_refusals(state: State, pod: ClusterPod) -> dict[str, Refusal]:
    """Why each of the hosts does not take a pod, those that do left out."""
    requests, guard = requests_of(pod.pod), state.guard(pod)
    found = {name: objection_to(state, pod, requests, name, guard) for name in state.hosts}
    refused = {name: refusal for name, refusal in found.items() if refusal is not None}
    left = [name for name in found if name not in refused]
    return {**refused, **state.fleet.refusals(pod.pod, left)}


def filtered(state: State, asked: HostsAsked) -> Filtered:
    """Which of the hosts that a kube-scheduler has left would take the pod.

    It has looked at everything besides NUMA itself. A host that publishes nothing is kept, as
    the NodeResourceTopologyMatch plugin does, unless we are strict.
    """
    known = [name for name in asked.names if name in state.topologies]
    refusals = state.fleet.refusals(asked.pod.pod, known)
    failed = {name: r.text for name, r in refusals.items() if not r.is_hopeless}
    hopeless = {name: r.text for name, r in refusals.items() if r.is_hopeless}
    if state.is_strict:
        unknown = (name for name in asked.names if name not in state.topologies)
        failed |= dict.fromkeys(unknown, "publishes no NodeResourceTopology")
    kept = [name for name in asked.names if name not in failed and name not in hopeless]
    return Filtered(frozenset(kept), failed, hopeless)


def scores(state: State, asked: HostsAsked) -> list[tuple[str, int]]:
    """How good each of these hosts is, from 0 to the highest score."""
    found, most = state.fleet.scores(asked.pod.pod, asked.names), state.score_max
    return [(name, min(most, found.get(name, 0) * most // 100)) for name in asked.names]


def preemptable(state: State, asked: PreemptAsked) -> dict[str, Victims]:
    """The hosts on which the pod would fit once the victims are gone."""
    return {
        host: victims
        for host, victims in asked.victims.items()
        # A kube-scheduler takes a host without victims for a mistake of ours.
        if victims.uids and state.fleet.fits_without(asked.pod.pod, host, victims.uids)
    }


def objection_to(
    state: State,
    pod: ClusterPod,
    requests: dict[str, int],
    name: str,
    guard: Guard | None = None,
) -> Refusal | None:
    """Why a host does not take a pod, besides NUMA."""
    host = state.hosts.get(name)
    if host is None:
        return Refusal("not known as a host")
    found = state.objection(pod.requirements, host)
    if found is not None:
        return Refusal(found)
    if state.pre is not None and name in pre_place.avoided_hosts(state, pod):
        return Refusal("avoided: the kube-scheduler did not place such a pod there")
    use = state.use.get(name, _NO_USE)
    lack = use.lack(requests, host)
    if lack is not None:
        if lack.resource == PODS:
            return Refusal("no room for another pod")
        return Refusal(
            f"{refusals.too_few(lack.resource)} on the whole host",
            resource=lack.resource,
            wanted=lack.wanted,
            found=lack.free,
        )
    port = use.port_taken(pod.requirements.ports)
    if port is not None:
        return Refusal(f"host port {port.port}/{port.protocol} is taken")
    others = guard(host) if guard is not None else None
    if others is not None:
        return Refusal(others)
    if name in state.room.held and not victims.would_take(state, pod, requests, name):
        return Refusal("room that is held for a pod of higher priority")
    return None
