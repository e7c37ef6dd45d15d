"""What an operator can choose, and what the loop remembers between two events.

All that is remembered can be read again from the cluster after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.refused_pods import TOPOLOGY_REASON, SeenPod
from numalign.core.values.token_bucket import TokenBucket

OWNERS_MAX: Final = 100_000
AVOIDED_MAX: Final = 100_000
NOT_LISTED: Final = "the cluster was not listed yet"
PODS, HOSTS = "pods", "nodes"  # the kinds of objects that are followed

OPEN, REMOVE = "open", "remove"
Asked = tuple[str, str]  # uid of a pod, and what was asked for


@dataclass(frozen=True, slots=True)
class Rules:
    reasons: frozenset[str] = frozenset({TOPOLOGY_REASON})
    namespaces_left_alone: frozenset[str] = frozenset({"kube-system"})
    grace_seconds: float = 30.0  # a refused pod is left for people to look at so long
    keep: int = 1  # of each owner so many of the newest are left for longer
    avoid_seconds: float = 30.0  # at first; doubled with every refusal there
    avoid_seconds_max: float = 600.0
    wait_seconds: float = 5.0  # of an owner at first; doubled with every refusal
    wait_seconds_max: float = 300.0
    refusals_max: int = 5  # of one owner within the window, then we give up for a while
    window_seconds: float = 600.0
    deletions_per_minute_max: float = 120.0
    recreates_bare: bool = False  # all bare pods, not only those that ask for it


@dataclass(frozen=True, slots=True)
class Avoided:
    """One shape on one host."""

    until: float
    times: int
    at: float


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """The refusals of one owner, and since when it is known that we gave up."""

    refusals: tuple[float, ...] = ()
    gave_up_at: float | None = None


@dataclass(frozen=True, slots=True)
class RedeployState:
    """Everything between two events. Mappings keep the order in which things came."""

    refused: Mapping[str, SeenPod] = field(default_factory=dict)
    waiting: Mapping[str, SeenPod] = field(default_factory=dict)  # their gate is closed
    opened: Mapping[str, SeenPod] = field(default_factory=dict)  # with hosts ruled out, unbound
    avoided: Mapping[tuple[str, str], Avoided] = field(default_factory=dict)  # shape, host
    owners: Mapping[str, OwnerRecord] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()
    placed: Mapping[str, str] = field(default_factory=dict)  # uid of who holds something -> host
    asked: frozenset[Asked] = frozenset()  # and not failed: it is not asked for twice
    retries: Mapping[Asked, float] = field(default_factory=dict)  # failed -> when to ask again
    bucket: TokenBucket | None = None
    is_listed: bool = False
    troubles: Mapping[str, str] = field(default_factory=dict)  # kind of object -> error

    @property
    def problems(self) -> list[str]:
        """Why what is known may not be true; empty if all is well."""
        found = [f"{kind}: {error}" for kind, error in self.troubles.items()]
        return found or ([] if self.is_listed else [NOT_LISTED])

    @property
    def all_pods(self) -> Iterator[SeenPod]:
        """Every pod that something may have to be done about."""
        yield from self.refused.values()
        yield from self.waiting.values()
        yield from self.opened.values()

    def avoided_hosts(self, shape: str, now: float) -> list[str]:
        """The hosts that a pod of this shape should not go to now."""
        found = [host for (own, host), a in self.avoided.items() if own == shape and a.until > now]
        return sorted(found)
