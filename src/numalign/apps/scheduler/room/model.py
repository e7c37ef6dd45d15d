"""What a scheduler knows of room that is made, held, or needed by several pods at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from numalign.core.cluster.between_pods.victims import Budget
from numalign.wire.kubernetes.scheduling import ClusterPod

BUDGETS, GROUPS = "budgets", "groups"  # kinds of objects, as in ``State.synced``


@dataclass(slots=True)
class Nomination:
    """A host on which room is made for a pod."""

    host: str
    victims: list[str]  # still to be evicted, in this order
    leaving: list[str]  # on their way out
    message: str
    since: float


@dataclass(slots=True)
class Room:
    """Where room is made, and for whom it is held."""

    nominations: dict[str, Nomination] = field(default_factory=dict)  # by uid
    held: dict[str, list[str]] = field(default_factory=dict)  # host -> uids, the first ones first
    budgets: dict[str, Budget] = field(default_factory=dict)  # by namespace/name
    # Pods whose eviction is under way; they may be gone before its end is told.
    condemned: dict[str, ClusterPod] = field(default_factory=dict)
    spared: dict[str, float] = field(default_factory=dict)  # refused, and not asked until then
    tried: dict[object, tuple[int, str]] = field(default_factory=dict)  # in vain: when, and why
    is_limited: bool = False  # a pod waits for a budget, perhaps


GangKey = tuple[bool, str]  # named by a PodGroup or by our annotation; namespace/name


@dataclass(slots=True)
class Gangs:
    """Pods that get their hosts together."""

    members: dict[GangKey, dict[str, None]] = field(default_factory=dict)  # uids, as they came
    groups: dict[str, int] = field(default_factory=dict)  # PodGroup -> how many it needs
    tried: dict[GangKey, tuple[int, str]] = field(default_factory=dict)  # in vain: when, and why
    stuck_since: dict[GangKey, float] = field(default_factory=dict)
