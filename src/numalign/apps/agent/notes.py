"""What an operator may want to know of the agent: one type for each thing that happens.

Log lines, the stream of events, counters and the list of last decisions are all made from these.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from numalign.core.explain.explain import Explanation
from numalign.core.kubelet.decisions import Trace
from numalign.core.pod import Pod


@dataclass(frozen=True, slots=True)
class PodAdmitted:
    NAME: ClassVar = "pod_admitted"
    pod: Pod
    trace: Trace


@dataclass(frozen=True, slots=True)
class PodRejected:
    """A pod was refused; ``at`` names the container whose device plugin did it."""

    NAME: ClassVar = "pod_rejected"
    pod: Pod
    reason: str
    message: str = ""
    at: str = ""
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class RefusalExplained:
    NAME: ClassVar = "refusal_explained"
    pod: Pod
    why: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class PodDeferred:
    """A pod waits for device plugins before it is decided about."""

    NAME: ClassVar = "pod_deferred"
    pod: Pod
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodFinished:
    """All containers of a pod have ended for good, or one that must not fail has failed."""

    NAME: ClassVar = "pod_finished"
    pod: Pod
    phase: str


@dataclass(frozen=True, slots=True)
class PodDeleted:
    NAME: ClassVar = "pod_deleted"
    pod: Pod


@dataclass(frozen=True, slots=True)
class ContainerStarted:
    NAME: ClassVar = "container_started"
    pod: Pod
    container: str
    pid: int


@dataclass(frozen=True, slots=True)
class ContainerExited:
    """A container's process ended; it is started again after ``again_in`` seconds, if given."""

    NAME: ClassVar = "container_exited"
    pod: Pod
    container: str
    code: int
    again_in: float | None = None


@dataclass(frozen=True, slots=True)
class ContainerPostponed:
    """A container could not be started yet, for no fault of its own."""

    NAME: ClassVar = "container_postponed"
    pod: Pod
    container: str
    reason: str
    again_in: float
    error: str


@dataclass(frozen=True, slots=True)
class FieldsNotCarriedOut:
    """Members of a manifest that do nothing here, told once."""

    NAME: ClassVar = "fields_not_carried_out"
    pod: Pod
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContainerUnhealthy:
    """A probe or hook of a container failed; ``what`` follows: it is stopped, or not ready."""

    NAME: ClassVar = "container_unhealthy"
    pod: Pod
    container: str
    probe: str
    what: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerReady:
    NAME: ClassVar = "container_ready"
    pod: Pod
    container: str


@dataclass(frozen=True, slots=True)
class DevicesReported:
    NAME: ClassVar = "devices_reported"
    resource: str
    devices: int
    healthy: int


@dataclass(frozen=True, slots=True)
class DevicesGone:
    NAME: ClassVar = "devices_gone"
    resource: str


@dataclass(frozen=True, slots=True)
class DevicesNotGiven:
    """Something that a plugin wants a container to have, and that a plain process does not get."""

    NAME: ClassVar = "devices_not_given"
    pod: Pod
    container: str
    resource: str
    not_given: str


@dataclass(frozen=True, slots=True)
class MemoryPolicyNotSet:
    """A memory policy that a container asks for, and that the runtime cannot set."""

    NAME: ClassVar = "memory_policy_not_set"
    pod: Pod
    container: str
    policy: str
    why: str


@dataclass(frozen=True, slots=True)
class DriftRepaired:
    """Somebody changed a container's placement behind our back, and it was put right."""

    NAME: ClassVar = "drift_repaired"
    found: str


@dataclass(frozen=True, slots=True)
class CpusOffline:
    """CPUs of the machine are not there any more."""

    NAME: ClassVar = "cpus_offline"
    cpus: str


@dataclass(frozen=True, slots=True)
class CpusOnline:
    """CPUs that were offline are back."""

    NAME: ClassVar = "cpus_online"
    cpus: str


@dataclass(frozen=True, slots=True)
class ClockMoved:
    """Somebody has set the clock of the host by so many seconds."""

    NAME: ClassVar = "clock_moved"
    seconds: float


@dataclass(frozen=True, slots=True)
class AgentHalted:
    """A conservation law is broken: nothing is decided or saved from now on."""

    NAME: ClassVar = "agent_halted"
    problem: str


@dataclass(frozen=True, slots=True)
class EventFailed:
    """Something happened that nobody foresaw, and that changed nothing but this."""

    NAME: ClassVar = "event_failed"
    what: str
    error: str


@dataclass(frozen=True, slots=True)
class EventsLost:
    """A reader of events was too slow for so many of them."""

    NAME: ClassVar = "events_lost"
    count: int


Note = (
    PodAdmitted
    | PodRejected
    | RefusalExplained
    | PodDeferred
    | PodFinished
    | PodDeleted
    | ContainerStarted
    | ContainerExited
    | ContainerPostponed
    | FieldsNotCarriedOut
    | ContainerUnhealthy
    | ContainerReady
    | DevicesReported
    | DevicesGone
    | DevicesNotGiven
    | MemoryPolicyNotSet
    | DriftRepaired
    | CpusOffline
    | CpusOnline
    | ClockMoved
    | AgentHalted
    | EventFailed
    | EventsLost
)


def values_of(note: Note) -> dict[str, object]:
    """What a note says, as plain values. Traces and explanations are long: see ``decisions``."""
    found: dict[str, object] = {}
    for field in fields(note):
        value = getattr(note, field.name)
        if isinstance(value, Pod):
            found |= {"pod": value.name, "namespace": value.namespace, "uid": value.uid}
        elif value is not None and value != "" and not isinstance(value, Trace | Explanation):
            found[field.name] = value
    return found
