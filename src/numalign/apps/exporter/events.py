"""What can happen to the exporter, and what it can want done. Time and chance come with events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numalign.core.cluster.publish.export import HostReport, Key, KnownPod
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import NumalignError
from numalign.core.settings import Version

# Events: what the host and the cluster say.


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; the first one starts everything."""

    now: float
    chance: float


@dataclass(frozen=True, slots=True)
class StateFilesChanged:
    now: float


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All pods of the host that can be read, and the others by name."""

    pods: tuple[KnownPod, ...]
    now: float
    unreadable: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: KnownPod
    now: float


@dataclass(frozen=True, slots=True)
class PodUnreadable:
    """A pod has changed, and nobody knows how."""

    now: float


@dataclass(frozen=True, slots=True)
class PodGone:
    key: Key
    uid: str
    now: float


# Events that answer an effect. One of them comes for every request.


@dataclass(frozen=True, slots=True)
class HostLookedUp:
    """What the Node object says."""

    uid: str
    kubelet_version: Version | None
    now: float


@dataclass(frozen=True, slots=True)
class HostMissing:
    """There is no Node object of this host."""

    now: float


@dataclass(frozen=True, slots=True)
class HostScanned:
    """The host as it is now, without its pods."""

    report: HostReport
    now: float


@dataclass(frozen=True, slots=True)
class PodsFound:
    """Those of the pods asked for that there are."""

    pods: tuple[KnownPod, ...]
    now: float
    chance: float


@dataclass(frozen=True, slots=True)
class ObjectChecked:
    """The version of the published object; None if there is none."""

    version: str | None
    now: float


@dataclass(frozen=True, slots=True)
class ObjectWritten:
    version: str
    now: float


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """What was asked for last could not be done."""

    error: NumalignError
    now: float
    chance: float


Event = (
    Tick
    | StateFilesChanged
    | PodsListed
    | PodSeen
    | PodUnreadable
    | PodGone
    | HostLookedUp
    | HostMissing
    | HostScanned
    | PodsFound
    | ObjectChecked
    | ObjectWritten
    | RequestFailed
)

# Effects.


@dataclass(frozen=True, slots=True)
class LookUpHost:
    """Read the Node object."""


@dataclass(frozen=True, slots=True)
class ScanHost:
    version: Version


@dataclass(frozen=True, slots=True)
class AskForPods:
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class CheckObject:
    """Ask for the version of the published object."""


@dataclass(frozen=True, slots=True)
class WriteObject:
    """Write the object; ``host_uid`` is empty if there is no Node object to own it."""

    topology: HostTopology
    host_uid: str


Request = LookUpHost | ScanHost | AskForPods | CheckObject | WriteObject


@dataclass(frozen=True, slots=True)
class ShowObject:
    topology: HostTopology


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tick at this time. It takes the place of what was asked for before."""

    at: float


@dataclass(frozen=True, slots=True)
class CountScan:
    """Count a look at the host in the metrics, and how long it took if it went well."""

    result: Literal["ok", "failed"]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CountPublish:
    """Count in the metrics what came of an object to publish."""

    result: Literal["written", "unchanged", "failed"]


@dataclass(frozen=True, slots=True)
class ReportSuccess:
    """What is published is known to be true at this moment."""


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """Tell why nothing was published, and when it is tried again."""

    error: NumalignError
    retry_seconds: float


Effect = Request | ShowObject | WakeAt | CountScan | CountPublish | ReportSuccess | ReportFailure
