"""What can happen to the scheduler, and what it can want done."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from numalign.apps.scheduler.room.events import RoomEffect, RoomEvent
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.wire.kubernetes.extender import Filtered, HostsAsked
from numalign.wire.kubernetes.scheduling import ClusterPod

# Events. A list says everything there is: what was known before and is not in it is gone, unless it
# is named as something that is there and could not be read.


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All pods that have not ended."""

    pods: tuple[ClusterPod, ...]
    now: float
    unreadable: frozenset[str] = frozenset()  # uids


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: ClusterPod
    now: float


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was deleted or has ended."""

    uid: str
    now: float


@dataclass(frozen=True, slots=True)
class HostsListed:
    hosts: tuple[HostFacts, ...]
    now: float
    unreadable: frozenset[str] = frozenset()  # names


@dataclass(frozen=True, slots=True)
class HostSeen:
    host: HostFacts
    now: float


@dataclass(frozen=True, slots=True)
class HostGone:
    name: str
    now: float


@dataclass(frozen=True, slots=True)
class TopologiesListed:
    topologies: tuple[HostTopology, ...]
    now: float
    unreadable: frozenset[str] = frozenset()  # names


@dataclass(frozen=True, slots=True)
class TopologySeen:
    topology: HostTopology
    now: float


@dataclass(frozen=True, slots=True)
class TopologyGone:
    """A host publishes nothing any more."""

    name: str
    now: float


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """Whether this replica may bind once it has caught up."""

    is_leading: bool
    now: float


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All pods, listed after this replica was elected for this term."""

    term: int
    pods: PodsListed
    now: float


@dataclass(frozen=True, slots=True)
class Turn:
    """Time to try the next pod, if one is ready."""

    now: float


class BindOutcome(Enum):
    """How a bind ended."""

    BOUND = "bound"
    REFUSED = "refused"  # the pod has no host; it is tried again
    GONE = "gone"  # there is no such pod any more


@dataclass(frozen=True, slots=True)
class BindEnded:
    """What the API server said to a bind."""

    uid: str
    host: str
    outcome: BindOutcome
    error: str
    now: float


@dataclass(frozen=True, slots=True)
class BindUnclear:
    """The pod may be bound all the same, or another scheduler has bound it."""

    uid: str
    host: str
    error: str
    now: float


@dataclass(frozen=True, slots=True)
class UnclearBindRead:
    """The pod of an unclear bind as it is now; None if it is gone."""

    unclear: BindUnclear
    pod: ClusterPod | None
    unreadable: str  # why there is a pod that cannot be read
    now: float


@dataclass(frozen=True, slots=True)
class RecreateFailed:
    """A pod that its controller should make anew could not be deleted."""

    uid: str
    error: str
    now: float


@dataclass(frozen=True, slots=True)
class HostsWanted:
    """A kube-scheduler asks for the hosts of a pod, and wants an answer under this ticket."""

    ticket: int
    asked: HostsAsked
    now: float


@dataclass(frozen=True, slots=True)
class BindWanted:
    """A kube-scheduler wants a pod bound, and an answer under this ticket."""

    ticket: int
    uid: str
    namespace: str
    name: str
    host: str
    now: float


@dataclass(frozen=True, slots=True)
class PodFetched:
    """The pod that was asked for; None if there is none, or why it cannot be read."""

    ticket: int
    pod: ClusterPod | None
    error: str
    now: float


ClusterEvent = (
    PodsListed
    | PodSeen
    | PodGone
    | HostsListed
    | HostSeen
    | HostGone
    | TopologiesListed
    | TopologySeen
    | TopologyGone
    | CaughtUp
)
Event = (
    ClusterEvent
    | RoomEvent
    | LeadershipChanged
    | Turn
    | BindEnded
    | BindUnclear
    | UnclearBindRead
    | RecreateFailed
    | HostsWanted
    | BindWanted
    | PodFetched
)

# Effects.


@dataclass(frozen=True, slots=True)
class Bind:
    pod: ClusterPod
    host: str


@dataclass(frozen=True, slots=True)
class Release:
    """Open the gate of a pod and leave it this host alone; its end is told as that of a bind."""

    pod: ClusterPod
    host: str


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Open the gate of a pod for a kube-scheduler to decide; tried again while it is seen shut."""

    pod: ClusterPod


@dataclass(frozen=True, slots=True)
class Recreate:
    """Delete a pod that has no host, for its controller to make another one."""

    pod: ClusterPod


@dataclass(frozen=True, slots=True)
class ReadUnclearBind:
    """Read the pod of a bind whose end is not clear, however long it takes."""

    pod: ClusterPod
    unclear: BindUnclear


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Write PodScheduled=False into the pod's status."""

    pod: ClusterPod
    reason: str  # Unschedulable or SchedulerError
    message: str


@dataclass(frozen=True, slots=True)
class TellEvent:
    pod: ClusterPod
    reason: str
    action: str
    note: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class CatchUp:
    """List all pods: what the leader before us bound must be known before we bind anything."""

    term: int


@dataclass(frozen=True, slots=True)
class FetchPod:
    ticket: int
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class AnswerHosts:
    """Answer who asked for hosts."""

    ticket: int
    found: Filtered


@dataclass(frozen=True, slots=True)
class TouchPod:
    """Write something into a pod's status, so that a kube-scheduler looks at the pod again."""

    pod: ClusterPod


@dataclass(frozen=True, slots=True)
class AnswerBind:
    """Answer who asked for a bind: an empty text, or what went wrong."""

    ticket: int
    text: str


@dataclass(frozen=True, slots=True)
class CountAttempt:
    """Count in the metrics how an attempt to place a pod ended."""

    result: str  # such as scheduled, bind_failed, or outrun: it came too late for its host


Placing = Bind | Release
Effect = (
    Placing
    | RoomEffect
    | OpenGate
    | Recreate
    | ReadUnclearBind
    | SetCondition
    | TellEvent
    | CatchUp
    | FetchPod
    | AnswerHosts
    | TouchPod
    | AnswerBind
    | CountAttempt
)
