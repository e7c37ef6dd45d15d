"""Which pods must end for another one to run: the fewest, then the lowest, each set proven.

Whether a set suffices is not computed here but asked (``Fits``): on a host with a published
placement its managers decide on a copy of their state, so it is what the kubelet would do. Room in
sum says little about NUMA: eight free CPUs in four nodes are no room for a pod of eight.

The search goes over sets of one pod, two pods and so on. Where there are too many of them it stops
at the best set found from the other side: all pods of lower priority, or those of one NUMA node,
from which pods are taken back as long as the new pod still fits, the highest ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Final

from numalign.core.cluster.between_pods.rules import Labels
from numalign.core.cluster.scheduling.constraints import Requirement, holds

CHECKS_MAX: Final = 400  # questions to the deciding core for one pod
HOSTS_MAX: Final = 64  # looked at, the most promising ones
SETS_MAX: Final = 2_000  # of one size on one host that are put in order

Fits = Callable[[str, frozenset[str]], bool]  # on a host, once these pods are gone


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many more of its pods may be evicted now."""

    name: str  # namespace/name
    namespace: str
    selector: tuple[Requirement, ...] | None
    allowed: int

    def covers(self, namespace: str, labels: Labels) -> bool:
        if namespace != self.namespace or self.selector is None:
            return False
        return all(holds(one, labels) for one in self.selector)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted."""

    uid: str
    priority: int
    requests: Mapping[str, int] = field(default_factory=dict)
    budget: str = ""
    nodes: int = 0  # the NUMA nodes on which it holds something, as a mask


@dataclass(frozen=True, slots=True)
class Offer:
    """A host, its pods of lower priority, and what must be freed there at the very least."""

    host: str
    candidates: tuple[Candidate, ...]
    leaving: frozenset[str] = frozenset()  # their end has been asked for: they cost nothing
    lacking: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A host, and the pods that must end there."""

    host: str
    victims: tuple[Candidate, ...]


@dataclass(slots=True)
class _Search:
    fits: Fits
    allowed: Mapping[str, int]
    checks_left: int = CHECKS_MAX

    def is_enough(self, offer: Offer, victims: Iterable[Candidate]) -> bool:
        """Whether the pod runs there once these are gone; False if nobody may ask any more."""
        chosen = tuple(victims)
        if not self._is_worth_asking(offer, chosen) or self.checks_left <= 0:
            return False
        self.checks_left -= 1
        return self.fits(offer.host, offer.leaving.union(one.uid for one in chosen))

    def _is_worth_asking(self, offer: Offer, victims: Sequence[Candidate]) -> bool:
        for name, amount in offer.lacking.items():
            if sum(one.requests.get(name, 0) for one in victims) < amount:
                return False
        budgets = [one.budget for one in victims if one.budget]
        return all(budgets.count(name) <= self.allowed.get(name, 0) for name in set(budgets))


def choose(offers: Iterable[Offer], allowed: Mapping[str, int], fits: Fits) -> Chosen | None:
    """The best victims; none on a host where those suffice that are on their way out already.

    ``allowed``: how many pods of each budget may go. None: there is no such set, or it was not
    found within ``CHECKS_MAX`` questions.
    """
    search = _Search(fits, allowed)
    ordered = sorted(offers, key=promise)[:HOSTS_MAX]
    for offer in ordered:
        if offer.leaving and search.is_enough(offer, ()):
            return Chosen(offer.host, ())
    best: Chosen | None = None
    for offer in ordered:
        if best is None or _fewest(offer) <= len(best.victims):
            found = _taken_back(search, offer)
            if found is not None and (best is None or _rank(found) < _rank(best)):
                best = found
    return _smaller(search, ordered, best) or best


def _rank(found: Chosen) -> tuple[object, ...]:
    priorities = sorted((one.priority for one in found.victims), reverse=True)
    return len(priorities), priorities, found.host


def promise(offer: Offer) -> tuple[object, ...]:
    """The hosts that may do with few and low victims come first."""
    lowest = min((one.priority for one in offer.candidates), default=0)
    return not offer.leaving, _fewest(offer), lowest, offer.host


def _fewest(offer: Offer) -> int:
    """At least so many must go, by what they use in sum."""
    found = 1
    for name, amount in offer.lacking.items():
        freed, count = 0, 0
        for one in sorted((one.requests.get(name, 0) for one in offer.candidates), reverse=True):
            if freed >= amount:
                break
            freed, count = freed + one, count + 1
        found = max(found, count)
    return found


# From all of them downwards.


def _taken_back(search: _Search, offer: Offer) -> Chosen | None:
    """The best set from which nobody can be taken back, of those that the starts lead to."""
    found: list[Chosen] = []
    for start in _starts(search.allowed, offer):
        if not search.is_enough(offer, start):
            continue
        left = list(start)
        for one in sorted(start, key=lambda c: (-c.priority, c.uid)):
            fewer = [other for other in left if other is not one]
            if search.is_enough(offer, fewer):
                left = fewer
        found.append(Chosen(offer.host, tuple(left)))
    return min(found, key=_rank, default=None)


def _starts(allowed: Mapping[str, int], offer: Offer) -> Iterator[list[Candidate]]:
    """Sets to begin with: the pods of one NUMA node each, and all."""
    whole = _within_budgets(allowed, offer.candidates)
    nodes = 0
    for one in whole:
        nodes |= one.nodes
    if nodes.bit_count() > 1:
        for node in range(nodes.bit_length()):
            part = [one for one in whole if one.nodes >> node & 1]
            if part and len(part) < len(whole):
                yield part
    if whole:
        yield whole


def _within_budgets(allowed: Mapping[str, int], candidates: Iterable[Candidate]) -> list[Candidate]:
    """As many as their budgets allow, the lowest first."""
    left, found = dict(allowed), []
    for one in sorted(candidates, key=lambda c: (c.priority, c.uid)):
        if one.budget:
            left[one.budget] = left.get(one.budget, 0) - 1
            if left[one.budget] < 0:
                continue
        found.append(one)
    return found


# From one of them upwards.


def _smaller(search: _Search, offers: Sequence[Offer], best: Chosen | None) -> Chosen | None:
    """The best of all sets that are better than the one found so far, as far as can be told."""
    most = max((len(offer.candidates) for offer in offers), default=0)
    for size in range(1, (most if best is None else len(best.victims)) + 1):
        found: Chosen | None = None
        for offer in offers:
            if comb(len(offer.candidates), size) > SETS_MAX or _fewest(offer) > size:
                continue
            for chosen in sorted(combinations(offer.candidates, size), key=_set_rank):
                one, known = Chosen(offer.host, chosen), found or best
                if known is not None and _rank(one) >= _rank(known):
                    break
                if search.is_enough(offer, chosen):
                    found = one
                    break
        if found is not None:
            return found
    return None


def _set_rank(chosen: Sequence[Candidate]) -> tuple[object, ...]:
    return sorted((one.priority for one in chosen), reverse=True), [one.uid for one in chosen]
