"""What the runtime says, and what is to be done, in the order in which it must happen."""

from __future__ import annotations

from dataclasses import dataclass

from numalign.apps.nri.model import Key, NriState
from numalign.apps.nri.policy import HostPolicy
from numalign.core.views.podresources import View
from numalign.wire.nri.values import Container, Placing, Resources, Sandbox, Update

# Events.


@dataclass(frozen=True, slots=True)
class Connected:
    """The runtime has told its version of NRI; empty if it tells none."""

    nri_version: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The runtime is gone, or has thrown us out. Containers go on."""


@dataclass(frozen=True, slots=True)
class Synchronized:
    """All pods and containers of the runtime."""

    pods: tuple[Sandbox, ...]
    containers: tuple[Container, ...]
    devices: View | None = None


@dataclass(frozen=True, slots=True)
class PodStarted:
    pod: Sandbox


@dataclass(frozen=True, slots=True)
class PodStopped:
    pod: Sandbox


@dataclass(frozen=True, slots=True)
class PodRemoved:
    pod: Sandbox


@dataclass(frozen=True, slots=True)
class ContainerCreating:
    """A container is about to be created. ``devices``: what the kubelet says, once it was asked."""

    pod: Sandbox
    container: Container
    devices: View | None = None
    is_asked: bool = False
    is_unanswered: bool = False  # there is a kubelet, and it did not say it in time


@dataclass(frozen=True, slots=True)
class ContainerUpdating:
    pod: Sandbox
    container: Container
    wish: Resources


@dataclass(frozen=True, slots=True)
class ContainerStopped:
    container: Container


@dataclass(frozen=True, slots=True)
class ContainerRemoved:
    container: Container


@dataclass(frozen=True, slots=True)
class HostFileChanged:
    policy: HostPolicy


@dataclass(frozen=True, slots=True)
class DriftSeen:
    """Containers that are not where they were told to be."""

    containers: tuple[str, ...]


Event = (
    Connected
    | Disconnected
    | Synchronized
    | PodStarted
    | PodStopped
    | PodRemoved
    | ContainerCreating
    | ContainerUpdating
    | ContainerStopped
    | ContainerRemoved
    | HostFileChanged
    | DriftSeen
)

# Effects.


@dataclass(frozen=True, slots=True)
class AskDevices:
    """Ask the kubelet who has which device, in bounded time; then the event comes again."""


@dataclass(frozen=True, slots=True)
class Save:
    """Bring to the disk what is held. If that fails, the event has not happened and is refused."""

    state: NriState


@dataclass(frozen=True, slots=True)
class AnswerPlaced:
    """Create the container here, and move others in the same breath."""

    placing: Placing
    updates: tuple[Update, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerUpdates:
    updates: tuple[Update, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerRefused:
    """Refuse, with a sentence that ends up in the pod's events."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SendUpdates:
    """Tell the runtime unasked; only where that cannot lock it up."""

    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """For the log and the metrics: a container got what it asked for."""

    pod: str
    container: str
    cpus: str
    mems: str
    is_shared: bool
    is_adopted: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    pod: str
    container: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Released:
    pod: str
    cpus: str


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A container runs without what it was promised: it was created while we were away."""

    pod: str
    container: str
    message: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """Containers that were not where they should be, after a reconnection."""

    containers: int


@dataclass(frozen=True, slots=True)
class HostFileApplied:
    waits_for: tuple[Key, ...] = ()
    message: str = ""


Note = Placed | Refused | Released | Unplaced | Repaired | HostFileApplied
Answer = AnswerPlaced | AnswerUpdates | AnswerRefused
Effect = AskDevices | Save | Answer | SendUpdates | Note
