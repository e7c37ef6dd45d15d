"""What can happen to the agent, and what it can want done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numalign.apps.agent.model import AgentPod, AgentState, Caller, ProbeKind, Refusal, Run
from numalign.apps.agent.notes import Note
from numalign.core.asker import Asker
from numalign.core.explain.causes import Case
from numalign.core.explain.explain import Explanation
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.pod import Qos
from numalign.core.values.mempolicy import Mempolicy
from numalign.wire.pods.records import ContainerRecord, Hook, PodRecord, Probe

# Events.


@dataclass(frozen=True, slots=True)
class Preference:
    """A question to a device plugin: which of these would you rather give?"""

    resource: str
    offered: tuple[str, ...]
    must: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class PodSubmitted:
    """Somebody wants a pod to run. ``request`` names who waits for the answer, if anybody."""

    uid: str
    record: PodRecord
    source: str
    now: float
    request: int | None = None
    preferences: Mapping[Preference, tuple[str, ...]] = field(default_factory=dict)
    run: Run | None = None  # of ``numalign run``
    asker: Asker | None = None  # None: the agent's own user
    is_again: bool = False  # counts only while it is put off: nobody may want it any more


@dataclass(frozen=True, slots=True)
class CallerGone:
    """The process that waited for its run to be decided about has ended."""

    uid: str
    now: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod that is to be there just so; ``request`` names who waits for the answer."""

    uid: str
    record: PodRecord
    request: int | None = None


@dataclass(frozen=True, slots=True)
class PodsApplied:
    """Somebody wants these pods to be there as written, and no other pods of the owner.

    ``namespace`` and ``owner`` (kind and name) are those of a workload; without one, other pods
    are left alone. The answer to ``request`` tells what is no longer wanted.
    """

    pods: tuple[Wanted, ...]
    source: str
    now: float
    request: int | None = None
    namespace: str = ""
    owner: tuple[str, str] | None = None
    asker: Asker | None = None  # None: the agent's own user


@dataclass(frozen=True, slots=True)
class PodDeleted:
    uid: str
    now: float
    request: int | None = None


@dataclass(frozen=True, slots=True)
class DevicesReported:
    """A device plugin sent its whole list."""

    resource: str
    devices: tuple[Device, ...]
    now: float
    is_plugin: bool = True
    has_preferred: bool = False
    needs_prestart: bool = False


@dataclass(frozen=True, slots=True)
class DevicesGone:
    """A device plugin went away: its devices count as unhealthy until it is back."""

    resource: str
    now: float


@dataclass(frozen=True, slots=True)
class DevicesAllocated:
    uid: str
    container: str
    resource: str
    allocation: Allocation
    now: float


@dataclass(frozen=True, slots=True)
class DevicesRefused:
    """A plugin did not prepare them; the error is as the kubelet would show it."""

    uid: str
    container: str
    resource: str
    error: str
    now: float


@dataclass(frozen=True, slots=True)
class ContainerStarted:
    """A container has a process. ``attempt`` is how often it was started before."""

    uid: str
    container: str
    attempt: int
    pid: int
    now: float
    id: str = ""  # what a container runtime calls it


@dataclass(frozen=True, slots=True)
class ContainerExited:
    """A container's process ended, or could not be started (then with a message)."""

    uid: str
    container: str
    attempt: int
    code: int
    now: float
    message: str = ""
    reason: str = ""  # of the runtime, such as OOMKilled; by default the code says it


@dataclass(frozen=True, slots=True)
class ContainerPostponed:
    """A container could not be started yet, for no fault of its own: it is tried again later."""

    uid: str
    container: str
    attempt: int
    reason: str
    message: str
    now: float


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """A container has answered a probe, or has not in time."""

    uid: str
    container: str
    attempt: int
    kind: ProbeKind
    ok: bool
    message: str
    now: float


@dataclass(frozen=True, slots=True)
class PostStartEnded:
    """The postStart hook of a container has ended; ``error`` says how it failed."""

    uid: str
    container: str
    attempt: int
    error: str
    now: float


@dataclass(frozen=True, slots=True)
class DevicesPrestarted:
    """The plugins of a container's devices know that it is about to start."""

    uid: str
    container: str
    attempt: int
    now: float


@dataclass(frozen=True, slots=True)
class RefusalExplained:
    uid: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class RepairDue:
    """It is time to compare where containers are with where they should be."""


@dataclass(frozen=True, slots=True)
class DriftRepaired:
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CleanUpDue:
    """What was left of a pod could not be removed; it is time to try again."""

    uid: str


@dataclass(frozen=True, slots=True)
class StopDue:
    """A container could not be ended; it is time to try again."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class SaveDue:
    """Something was done that could not be saved; it is time to try again."""


@dataclass(frozen=True, slots=True)
class CpusOnline:
    """These CPUs of the machine are online now (a mask)."""

    online: int


@dataclass(frozen=True, slots=True)
class ClockMoved:
    """Somebody has set the clock of the host: all times from before are so many seconds off."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SourcesReady:
    """Every source of pods has delivered what it has: what is not there now is gone."""

    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    now: float


Event = (
    PodSubmitted
    | PodsApplied
    | PodDeleted
    | CallerGone
    | DevicesReported
    | DevicesGone
    | DevicesAllocated
    | DevicesRefused
    | ContainerStarted
    | ContainerExited
    | ContainerPostponed
    | ProbeAnswered
    | PostStartEnded
    | DevicesPrestarted
    | RefusalExplained
    | RepairDue
    | DriftRepaired
    | CleanUpDue
    | StopDue
    | SaveDue
    | CpusOnline
    | ClockMoved
    | SourcesReady
    | Tick
)

# Effects, carried out in order.


@dataclass(frozen=True, slots=True)
class Save:
    """Write this state to disk before anything that follows; nothing follows if that fails."""

    state: AgentState


@dataclass(frozen=True, slots=True)
class SaveRefusals:
    """Write why pods were refused to disk, for after a restart; nothing depends on it."""

    refusals: Mapping[str, Refusal]


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell who waits what became of the request."""

    request: int
    uid: str
    accepted: bool
    reason: str = ""
    message: str = ""
    result: str = ""  # of an applied pod: replaced or unchanged; else it is as accepted says
    removed: tuple[AgentPod, ...] = ()  # no longer wanted


@dataclass(frozen=True, slots=True)
class AskPreference:
    """Ask a plugin, then submit the pod again with the answer."""

    preference: Preference
    event: PodSubmitted


@dataclass(frozen=True, slots=True)
class AllocateDevices:
    """Tell a plugin to prepare these devices."""

    uid: str
    container: str
    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrestartDevices:
    """Tell plugins, by resource, that a container with these devices is about to start."""

    uid: str
    container: str
    attempt: int
    devices: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Start a container on these CPUs and, if given, NUMA nodes (masks)."""

    uid: str
    container: str
    attempt: int
    cpus: int
    nodes: int | None
    pod: AgentPod
    extra: Allocation  # what device plugins want it to have
    mempolicy: Mempolicy | None = None  # with the nodes that it spreads memory over


@dataclass(frozen=True, slots=True)
class WatchCaller:
    """Tell when the process that waits for this run has ended."""

    uid: str
    caller: Caller


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Ask a container to end, and end it after the grace period."""

    uid: str
    container: str
    grace_seconds: float
    pre_stop: Hook | None = None  # done first, within the grace period
    record: ContainerRecord | None = None  # of the hook


@dataclass(frozen=True, slots=True)
class RunProbe:
    """Ask a container a question; no answer in time is a no."""

    uid: str
    container: str
    attempt: int
    kind: ProbeKind
    probe: Probe
    record: ContainerRecord


@dataclass(frozen=True, slots=True)
class RunPostStart:
    """Do what a container wants done right after its start."""

    uid: str
    container: str
    attempt: int
    hook: Hook
    record: ContainerRecord
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a container belongs: these CPUs and, if given, NUMA nodes (masks)."""

    uid: str
    container: str
    cpus: int
    nodes: int | None


@dataclass(frozen=True, slots=True)
class PinContainers:
    """Move containers that have a process, all at once."""

    pins: tuple[Pin, ...]


@dataclass(frozen=True, slots=True)
class PinHelpers:
    """Keep the runtime's own helpers on these CPUs (a mask), away from exclusive ones."""

    cpus: int


@dataclass(frozen=True, slots=True)
class SetQosWeights:
    """Give the QoS classes their shares of CPU time."""

    weights: tuple[tuple[Qos, Limits], ...]


@dataclass(frozen=True, slots=True)
class RepairDrift:
    """Put right what somebody changed behind our back, and say what was found."""

    pins: tuple[Pin, ...]
    pods: Mapping[str, AgentPod]  # by uid, for the limits of each


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Nothing of a pod will run again: let go of what it needs only while it runs."""

    uid: str


@dataclass(frozen=True, slots=True)
class ForgetPod:
    """Remove what the runtime keeps of a pod."""

    uid: str


@dataclass(frozen=True, slots=True)
class Explain:
    """Find out why a pod was refused. It takes longer than deciding, so nothing waits for it."""

    case: Case


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Hand in this event again after some time."""

    event: Event
    seconds: float


@dataclass(frozen=True, slots=True)
class Publish:
    note: Note


Effect = (
    Save
    | SaveRefusals
    | Answer
    | AskPreference
    | AllocateDevices
    | PrestartDevices
    | StartContainer
    | WatchCaller
    | StopContainer
    | RunProbe
    | RunPostStart
    | PinContainers
    | PinHelpers
    | SetQosWeights
    | RepairDrift
    | ReleasePod
    | ForgetPod
    | Explain
    | Redeliver
    | Publish
)
