"""What can happen, and can be wanted, where room is made for a pod or held for a gang."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from numalign.core.cluster.between_pods.gangs import GroupMinimum
from numalign.core.cluster.between_pods.victims import Budget
from numalign.wire.kubernetes.scheduling import ClusterPod

# Events.


@dataclass(frozen=True, slots=True)
class BudgetsListed:
    """All PodDisruptionBudgets."""

    budgets: tuple[Budget, ...]
    now: float


@dataclass(frozen=True, slots=True)
class BudgetSeen:
    budget: Budget
    now: float


@dataclass(frozen=True, slots=True)
class BudgetGone:
    name: str  # namespace/name
    now: float


@dataclass(frozen=True, slots=True)
class GroupsListed:
    """All PodGroups; none where the API server does not know such objects."""

    groups: tuple[GroupMinimum, ...]
    now: float


@dataclass(frozen=True, slots=True)
class GroupSeen:
    group: GroupMinimum
    now: float


@dataclass(frozen=True, slots=True)
class GroupGone:
    name: str
    now: float


@dataclass(frozen=True, slots=True)
class NominationWritten:
    """The pod's status says where room is made for it, or why it does not."""

    uid: str
    host: str
    error: str
    now: float


class EvictionOutcome(Enum):
    """How the API server answered an eviction."""

    ACCEPTED = "accepted"
    GONE = "gone"  # it had ended already
    REFUSED = "refused"  # by a PodDisruptionBudget, say


@dataclass(frozen=True, slots=True)
class EvictionEnded:
    """What the API server said to an eviction."""

    uid: str  # of the pod that wants the room; empty for a gang that gives its room back
    victim: str
    outcome: EvictionOutcome
    error: str
    now: float


BudgetEvent = BudgetsListed | BudgetSeen | BudgetGone
GroupEvent = GroupsListed | GroupSeen | GroupGone
RoomEvent = BudgetEvent | GroupEvent | NominationWritten | EvictionEnded

# Effects.


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write into the pod's status where room is made for it; empty: nowhere any more."""

    pod: ClusterPod
    host: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask the API server to end a pod, within its PodDisruptionBudget."""

    uid: str  # as in EvictionEnded
    victim: ClusterPod


@dataclass(frozen=True, slots=True)
class CountPreemption:
    """Count in the metrics what came of making room."""

    result: str  # nominated, evicted, refused or released


RoomEffect = Nominate | Evict | CountPreemption
