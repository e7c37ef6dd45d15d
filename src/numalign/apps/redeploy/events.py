"""What can happen to the redeploy loop, and what it can want done. Time comes with every event."""

from __future__ import annotations

from dataclasses import dataclass

from numalign.core.cluster.refused_pods import SeenPod

# Events.


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All pods; others that were known are gone."""

    pods: tuple[SeenPod, ...]
    now: float
    holding: frozenset[str] = frozenset()  # uids: their host gains room when they leave


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: SeenPod
    now: float
    holds: bool = False  # its host gains room when it leaves


@dataclass(frozen=True, slots=True)
class PodGone:
    uid: str
    now: float


@dataclass(frozen=True, slots=True)
class HostsListed:
    hosts: frozenset[str]
    now: float


@dataclass(frozen=True, slots=True)
class HostSeen:
    host: str
    now: float


@dataclass(frozen=True, slots=True)
class HostGone:
    host: str
    now: float


@dataclass(frozen=True, slots=True)
class WatchInterrupted:
    """Objects of one kind cannot be followed at this moment."""

    kind: str
    error: str
    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    now: float


# Effects.


@dataclass(frozen=True, slots=True)
class DeletePod:
    pod: SeenPod
    why: str


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Take our gate off a pod, and rule out these hosts for it."""

    pod: SeenPod
    avoids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecreatePod:
    """Make a bare pod again, away from these hosts, and delete the refused one after that."""

    pod: SeenPod
    avoids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteEvent:
    """Write an event about a pod, or (``of_owner``) about its controller."""

    pod: SeenPod
    reason: str
    note: str
    of_owner: bool = False


@dataclass(frozen=True, slots=True)
class CountRefusal:
    pod: SeenPod


@dataclass(frozen=True, slots=True)
class CountGiveUp:
    """Count an owner with too many refusals in the metrics."""

    pod: SeenPod


Change = DeletePod | OpenGate | RecreatePod | WriteEvent  # asks something of the API server
Effect = Change | CountRefusal | CountGiveUp

# The event that answers an effect.


@dataclass(frozen=True, slots=True)
class EffectFailed:
    """The API server did not do what an effect asked for."""

    effect: Change
    now: float


Event = (
    PodsListed
    | PodSeen
    | PodGone
    | HostsListed
    | HostSeen
    | HostGone
    | WatchInterrupted
    | EffectFailed
    | Tick
)
