"""Where the pods are that rules between pods speak of, and which hosts they leave to a new pod.

Nothing is counted before a rule asks for it: a cluster whose pods have no such rules pays nothing.
A scope is counted from all pods when it is asked about first, and kept up to date from then on.
The answers are those of the kube-scheduler's plugins InterPodAffinity and PodTopologySpread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.between_pods.rules import Labels, PodRules, Scope, Spread, Term
from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostRequirements,
    is_selected,
    untolerated,
)

SCOPES_KEPT_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Located:
    """A pod that counts on a host."""

    uid: str
    host: str
    namespace: str
    labels: Labels
    is_leaving: bool = False  # somebody has asked for its end
    repels: tuple[Term, ...] = ()  # its own required anti-affinity


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A pod that looks for a host."""

    uid: str
    namespace: str
    labels: Labels
    requirements: HostRequirements
    rules: PodRules | None = None


Guard = Callable[[HostFacts], str | None]
_ByHost = dict[str, int]


@dataclass(slots=True)
class _Tally:
    """The pods of one scope, by uid and by host."""

    members: dict[str, str] = field(default_factory=dict)
    by_host: _ByHost = field(default_factory=dict)

    def add(self, uid: str, host: str) -> None:
        if self.members.get(uid) == host:
            return
        self.remove(uid)
        self.members[uid] = host
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def remove(self, uid: str) -> None:
        host = self.members.pop(uid, None)
        if host is not None:
            self.by_host[host] -= 1
            if not self.by_host[host]:
                del self.by_host[host]

    def without(self, uids: Collection[str]) -> _ByHost:
        """How many there are on each host that has any, if these pods were gone."""
        going = [self.members[uid] for uid in uids if uid in self.members]
        if not going:
            return self.by_host
        left = dict(self.by_host)
        for host in going:
            left[host] -= 1
        return {host: count for host, count in left.items() if count}


@dataclass(slots=True)
class Neighbours:
    """The pods of a cluster as far as rules ask for them. Owned and changed by one loop."""

    _scopes: dict[Scope, _Tally] = field(default_factory=dict)
    _helping: set[Scope] = field(default_factory=set)  # more of these pods may help somebody
    _repelling: dict[Term, _Tally] = field(default_factory=dict)

    @property
    def is_counting(self) -> bool:
        """Whether pods that come and go must be told."""
        return bool(self._scopes or self._repelling)

    @property
    def repels(self) -> bool:
        """Whether a pod that runs may keep another one away."""
        return bool(self._repelling)

    # Pods that come and go.

    def came(self, pod: Located) -> bool:
        """A pod counts on a host, or is other than before; whether that may help somebody."""
        is_help = False
        for scope, tally in self._scopes.items():
            is_in = scope.selects(pod.namespace, pod.labels)
            if is_in and (scope.counts_leaving or not pod.is_leaving):
                is_help |= scope in self._helping and pod.uid not in tally.members
                tally.add(pod.uid, pod.host)
            else:
                tally.remove(pod.uid)
        for term in pod.repels:
            self._repelling.setdefault(term, _Tally()).add(pod.uid, pod.host)
        return is_help

    def went(self, uid: str) -> None:
        """A pod counts nowhere any more."""
        for tally in self._scopes.values():
            tally.remove(uid)
        for term in [term for term, tally in self._repelling.items() if uid in tally.members]:
            tally = self._repelling[term]
            tally.remove(uid)
            if not tally.members:
                del self._repelling[term]

    # Answers.

    def guard(
        self,
        pod: Newcomer,
        hosts: Mapping[str, HostFacts],
        everyone: Callable[[], Iterable[Located]],
        without: Collection[str] = (),
    ) -> Guard | None:
        """Why a host is not for this pod because of others; None if no rule is concerned.

        ``everyone`` counts all pods once more, for scopes that nobody has asked about before;
        the pods of ``without`` are taken for gone.
        """
        checks = self._repelled(pod, hosts, without)
        if pod.rules is not None:
            self._count(pod.rules, everyone)
            checks += self._own(pod, pod.rules, hosts, without)
        if not checks:
            return None
        return lambda host: next((why for check in checks if (why := check(host))), None)

    def _count(self, rules: PodRules, everyone: Callable[[], Iterable[Located]]) -> None:
        helping = [*(one.scope for one in rules.affinity), *(one.scope for one in rules.spread)]
        wanted = [*helping, *(one.scope for one in rules.anti_affinity)]
        unknown = [scope for scope in dict.fromkeys(wanted) if scope not in self._scopes]
        self._helping.update(helping)
        if not unknown:
            return
        if len(self._scopes) + len(unknown) > SCOPES_KEPT_MAX:
            self._scopes.clear()
            self._helping = set(helping)
            unknown = list(dict.fromkeys(wanted))
        found = {scope: _Tally() for scope in unknown}
        for pod in everyone():
            for scope, tally in found.items():
                if (scope.counts_leaving or not pod.is_leaving) and scope.selects(
                    pod.namespace, pod.labels
                ):
                    tally.add(pod.uid, pod.host)
        self._scopes |= found

    def _repelled(
        self, pod: Newcomer, hosts: Mapping[str, HostFacts], without: Collection[str]
    ) -> list[Guard]:
        shut: dict[str, set[str]] = {}
        for term, tally in self._repelling.items():
            if term.scope.selects(pod.namespace, pod.labels):
                values = _domains(term.key, tally.without(without), hosts)
                shut.setdefault(term.key, set()).update(values)
        words = "a pod there keeps such pods away (its anti-affinity)"
        return [_outside(key, values, words) for key, values in shut.items() if values]

    def _own(
        self,
        pod: Newcomer,
        rules: PodRules,
        hosts: Mapping[str, HostFacts],
        without: Collection[str],
    ) -> list[Guard]:
        checks: list[Guard] = []
        for term in rules.anti_affinity:
            values = set(_domains(term.key, self._scopes[term.scope].without(without), hosts))
            words = "beside pods that the pod's anti-affinity avoids"
            checks.append(_outside(term.key, values, words))
        if rules.affinity:
            checks += self._together(pod, rules.affinity, hosts, without)
        for one in rules.spread:
            counts = self._scopes[one.scope].without(without)
            checks.append(_even(pod, one, rules.spread, counts, hosts))
        return checks

    def _together(
        self,
        pod: Newcomer,
        terms: tuple[Term, ...],
        hosts: Mapping[str, HostFacts],
        without: Collection[str],
    ) -> list[Guard]:
        """Pods that all terms select must be in the domain of each term.

        The first pod of a group that wants to be together may go anywhere.
        """
        tallies = [self._scopes[term.scope] for term in terms]
        alike = set(tallies[0].members).difference(without)
        for tally in tallies[1:]:
            alike.intersection_update(tally.members)
        where = {tallies[0].members[uid] for uid in alike}
        is_first = not where and all(t.scope.selects(pod.namespace, pod.labels) for t in terms)
        return [
            _inside(term.key, None if is_first else set(_domains(term.key, where, hosts)))
            for term in terms
        ]


def _domains(key: str, names: Iterable[str], hosts: Mapping[str, HostFacts]) -> Iterable[str]:
    """The values of a topology key on these hosts, as far as they have it."""
    for name in names:
        host = hosts.get(name)
        value = host.labels.get(key) if host is not None else None
        if value is not None:
            yield value


def _outside(key: str, values: set[str], words: str) -> Guard:
    return lambda host: words if host.labels.get(key) in values else None


def _inside(key: str, values: set[str] | None) -> Guard:
    """In one of these domains; None: in any."""

    def check(host: HostFacts) -> str | None:
        found = host.labels.get(key)
        if found is None:
            return f"no label {key}, by which the pod's affinity compares hosts"
        if values is not None and found not in values:
            return "no pod there that the pod's affinity asks for"
        return None

    return check


def _even(
    pod: Newcomer,
    rule: Spread,
    rules: tuple[Spread, ...],
    counts: Mapping[str, int],
    hosts: Mapping[str, HostFacts],
) -> Guard:
    by_value: dict[str, int] = {}
    for host in hosts.values():
        if _takes_part(pod, rule, rules, host):
            value = host.labels[rule.key]
            by_value[value] = by_value.get(value, 0) + counts.get(host.name, 0)
    least = min(by_value.values(), default=0) if len(by_value) >= rule.domains_min else 0
    own = int(rule.scope.selects(pod.namespace, pod.labels))

    def check(host: HostFacts) -> str | None:
        value = host.labels.get(rule.key)
        if value is None:
            return f"no label {rule.key}, over which the pod must be spread"
        if by_value.get(value, 0) + own - least > rule.skew:
            return f"too many such pods already in the same {rule.key} (topology spread)"
        return None

    return check


def _takes_part(pod: Newcomer, rule: Spread, rules: tuple[Spread, ...], host: HostFacts) -> bool:
    """Whether the pods of a host count for a rule: it has all keys, and is one for the pod."""
    if any(one.key not in host.labels for one in rules):
        return False
    if rule.honours_selector and not is_selected(pod.requirements, host):
        return False
    return not (rule.honours_taints and untolerated(pod.requirements.tolerations, host.taints))
