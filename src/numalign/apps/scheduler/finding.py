"""A host for one pod, or why there is none.

The rules besides NUMA are cheap and asked first; the judge chooses among the hosts that are left.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.port import Filtered
from numalign.core.cluster.constraints import HostFacts
from numalign.core.cluster.totals import HostUse, requests_of
from numalign.wire.extender import HostsAsked
from numalign.wire.scheduling import ClusterPod

_NO_USE: Final = HostUse()


def class_of(pod: ClusterPod) -> object:
    """The same for pods that every host answers alike."""
    known = pod.pod
    return (pod.demand, known.qos, _shape(pod))


def _shape(pod: ClusterPod) -> object:
    known = pod.pod
    return (
        tuple(
            (
                c.is_init,
                c.is_restartable,
                tuple(sorted((name, q.nanos) for name, q in c.requests.items())),
                tuple(sorted((name, q.nanos) for name, q in c.limits.items())),
            )
            for c in known.in_order
        ),
        None if known.requests is None else tuple(sorted(known.requests.items())),
        None if known.limits is None else tuple(sorted(known.limits.items())),
        tuple(sorted((name, q.nanos) for name, q in known.overhead.items())),
    )


def find(state: State, pod: ClusterPod) -> tuple[str | None, str]:
    """The host for a pod, or None and why no host takes it."""
    if pod.demand.unsupported:
        return None, (
            f"the pod asks for {' and '.join(pod.demand.unsupported)}, which this scheduler does "
            "not implement; choose another schedulerName, such as that of a kube-scheduler with "
            "numalign as its extender"
        )
    key = class_of(pod)
    before = state.tried.get(key)
    if before is not None and before.generation == state.generation:
        return None, before.message
    requests = requests_of(pod.pod)
    objections: dict[str, str] = {}

    def is_allowed(name: str) -> bool:
        found = objection_to(state, pod, requests, name)
        if found is not None:
            objections[name] = found
        return found is None

    host = state.judge.choose(pod.pod, is_allowed)
    if host is not None:
        return host, ""
    message = summary(state, pod)
    state.remember(key, message)
    return None, message


def summary(state: State, pod: ClusterPod) -> str:
    """Why no host takes a pod, with how many hosts say so, the most frequent reason first."""
    if not state.hosts:
        return "there are no hosts"
    requests = requests_of(pod.pod)
    reasons: Counter[str] = Counter()
    left: list[str] = []
    for name in state.hosts:
        found = objection_to(state, pod, requests, name)
        if found is None:
            left.append(name)
        else:
            reasons[found] += 1
    for refusal in state.judge.refusals(pod.pod, left).values():
        reasons[refusal.text] += 1
    listed = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    words = ", ".join(f"{count} {text}" for text, count in listed)
    return f"of {len(state.hosts)} hosts: {words}"


def filtered(state: State, asked: HostsAsked, *, is_strict: bool) -> Filtered:
    """Which of the hosts that a kube-scheduler has left would take the pod.

    It has looked at everything besides NUMA itself. A host that publishes nothing is kept, as
    the NodeResourceTopologyMatch plugin does, unless we are strict.
    """
    known = [name for name in asked.names if name in state.topologies]
    refusals = state.judge.refusals(asked.pod.pod, known)
    failed = {name: r.text for name, r in refusals.items() if not r.is_hopeless}
    hopeless = {name: r.text for name, r in refusals.items() if r.is_hopeless}
    if is_strict:
        unknown = (name for name in asked.names if name not in state.topologies)
        failed |= dict.fromkeys(unknown, "publishes no NodeResourceTopology")
    kept = [name for name in asked.names if name not in failed and name not in hopeless]
    return Filtered(frozenset(kept), failed, hopeless)


def objection_to(state: State, pod: ClusterPod, requests: dict[str, int], name: str) -> str | None:
    """Why a host does not take a pod, besides NUMA."""
    host = state.hosts.get(name)
    if host is None:
        return "not known as a host"
    found = state.objection(pod.demand, host)
    if found is not None:
        return found
    return _lack(state.use.get(name, _NO_USE), pod, requests, host)


def _lack(use: HostUse, pod: ClusterPod, requests: dict[str, int], host: HostFacts) -> str | None:
    lack = use.lack(requests, host)
    if lack is not None:
        return lack.text
    port = use.port_taken(pod.demand.ports)
    return None if port is None else f"host port {port.port}/{port.protocol} is taken"
