"""What pods demand of the pods around them: affinity, anti-affinity and even spread.

Only what must hold is here; preferences do not count. A rule names pods by namespace and labels,
and compares hosts by one of their labels, the topology key: hosts with the same value are one
domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.core.cluster.scheduling.constraints import Requirement, holds

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scope:
    """The pods that a rule speaks of; no selector selects none, an empty one all."""

    namespaces: frozenset[str] | None  # None: all
    selector: tuple[Requirement, ...] | None
    counts_leaving: bool = True  # pods that somebody has asked to end

    def selects(self, namespace: str, labels: Labels) -> bool:
        if self.selector is None:
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(holds(one, labels) for one in self.selector)


@dataclass(frozen=True, slots=True)
class Term:
    """Pods that must be, or must not be, in the same domain."""

    scope: Scope
    key: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Pods that must be spread evenly: no domain has more than ``skew`` above the least one."""

    scope: Scope
    key: str
    skew: int = 1
    domains_min: int = 0  # with fewer of them the least one counts as empty
    honours_selector: bool = True  # hosts that the pod's node affinity excludes do not count
    honours_taints: bool = False


@dataclass(frozen=True, slots=True)
class PodRules:
    """All that one pod demands of others."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
