"""Where a pod may go by the rules that are not about room: labels, taints, ports, other pods.

A plan that moves a pod to a host which no scheduler would choose ends in a surprise. So each place
of a plan is asked about with the rules by which the pod would be scheduled, as things are after the
moves before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from numalign.core.cluster.between_pods.neighbours import Guard, Located, Neighbours, Newcomer
from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostRequirements,
    objection,
    port_conflict,
)

_MOVED = "-moved"  # what a pod that was moved in thought has behind its uid

Where = Mapping[str, str]  # host by uid


def arrived(uid: str) -> str:
    """The uid of the pod that takes another one's place elsewhere."""
    return f"{uid}{_MOVED}"


def original(uid: str) -> str:
    """The uid of the pod that runs now."""
    while uid.endswith(_MOVED):
        uid = uid.removesuffix(_MOVED)
    return uid


@dataclass(slots=True)
class Allowed:
    """The rules of all pods; a pod or host that is not known has none."""

    hosts: Mapping[str, HostFacts] = field(default_factory=dict)
    pods: Mapping[str, Newcomer] = field(default_factory=dict)
    where: Where = field(default_factory=dict)
    _by_labels: dict[tuple[HostRequirements, str], bool] = field(default_factory=dict)
    _neighbours: Neighbours | None = None
    _last: tuple[str, Where, Guard | None] | None = None
    _has_rules: bool = field(init=False)

    def __post_init__(self) -> None:
        self._has_rules = any(pod.rules is not None for pod in self.pods.values())

    def ever(self, uid: str, host: str) -> bool:
        """Whether labels and taints let the pod go there, whoever else is there."""
        pod, facts = self.pods.get(original(uid)), self.hosts.get(host)
        if pod is None or facts is None:
            return True
        key = (pod.requirements, host)
        if key not in self._by_labels:
            self._by_labels[key] = objection(pod.requirements, facts) is None
        return self._by_labels[key]

    def now(self, uid: str, host: str, moved: Where) -> bool:
        """Whether the pod may go there once these pods are where they were moved."""
        if not self.ever(uid, host):
            return False
        pod, facts = self.pods.get(original(uid)), self.hosts.get(host)
        if pod is None or facts is None:
            return True
        if pod.requirements.ports and self._takes_port(pod, host, moved):
            return False
        guard = self._guard(pod, moved)
        return guard is None or guard(facts) is None

    def rules_of(self, uid: str) -> object:
        """The same for pods that may go to the same hosts."""
        pod = self.pods.get(original(uid))
        if pod is None:
            return None
        is_bound = bool(pod.requirements.ports) or self._guard(pod, {}) is not None
        return pod.requirements, pod.uid if is_bound else None

    def _base(self) -> Neighbours | None:
        """What rules between pods count; None where no pod has any."""
        if not self._has_rules:
            return None
        if self._neighbours is None:
            self._neighbours = Neighbours()
            for pod in self._located({}):
                self._neighbours.came(pod)
        return self._neighbours

    def _takes_port(self, pod: Newcomer, host: str, moved: Where) -> bool:
        others = (
            port
            for uid, there in _after(self.where, moved)
            if there == host and uid != pod.uid and uid in self.pods
            for port in self.pods[uid].requirements.ports
        )
        return port_conflict(pod.requirements.ports, others) is not None

    def _guard(self, pod: Newcomer, moved: Where) -> Guard | None:
        neighbours = self._base()
        if neighbours is None:
            return None
        if self._last is None or self._last[0] != pod.uid or self._last[1] != moved:
            for one in self._locate(moved.items()):
                neighbours.came(one)
            found = neighbours.guard(pod, self.hosts, lambda: self._located(moved), (pod.uid,))
            for uid in moved:
                neighbours.went(uid)
            for one in self._locate((u, self.where[u]) for u in moved if u in self.where):
                neighbours.came(one)
            self._last = (pod.uid, dict(moved), found)
        return self._last[2]

    def _located(self, moved: Where) -> Iterator[Located]:
        return self._locate(_after(self.where, moved))

    def _locate(self, where: Iterable[tuple[str, str]]) -> Iterator[Located]:
        for uid, host in where:
            pod = self.pods.get(uid)
            if pod is not None:
                repels = () if pod.rules is None else pod.rules.anti_affinity
                yield Located(uid, host, pod.namespace, pod.labels, repels=repels)


def _after(where: Where, moved: Where) -> Iterator[tuple[str, str]]:
    yield from ((uid, host) for uid, host in where.items() if uid not in moved)
    yield from moved.items()
