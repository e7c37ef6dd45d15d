"""What the agent remembers beside the managers' state: pods and how their containers fare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from numalign.core.asker import Abilities, Asker
from numalign.core.kubelet.cgroup_limits import mems_of
from numalign.core.kubelet.devices.devices import Device
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.kubelet.host import Host, HostState
from numalign.core.pod import Container, Pod
from numalign.core.values.mempolicy import Mempolicy
from numalign.core.values.sets import NodeSet
from numalign.wire.kubelet.config import KubeletConfig
from numalign.wire.pods.annotations import mempolicy_of
from numalign.wire.pods.records import ContainerRecord, PodRecord


class Phase(StrEnum):
    """The phase of a pod, as in v1.PodStatus."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


WAITING_FOR_PLUGIN: Final = "WaitingForDevicePlugin"
WAITING_FOR_NAME: Final = "WaitingForPredecessor"
INTERNAL_ERROR: Final = "InternalError"  # of our own: nobody foresaw it
SAVED_UNUSABLE: Final = "SavedStateUnusable"  # what was kept of it cannot be taken up
# Failures that no pod is to blame for: the operator is told of them in /readyz.
FAULTS: Final = frozenset({INTERNAL_ERROR, SAVED_UNUSABLE})
WAITING_FOR_ROOM: Final = "WaitingForRoom"
RUN_SOURCE: Final = "run"  # of pods that ``numalign run`` asks for
TERMINAL: Final = frozenset({Phase.SUCCEEDED, Phase.FAILED})


class RunState(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"  # the runtime was told; shown as waiting
    RUNNING = "running"
    EXITED = "exited"  # for good; one that will be started again waits


class ProbeKind(StrEnum):
    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """How a probe of a running container stands."""

    next_at: float
    is_asked: bool = False  # the answer is on its way
    passed: bool | None = None  # None: not decided yet
    in_a_row: int = 0  # answers that say the contrary of ``passed``, or the first ones
    last_ok: bool = False


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    state: RunState = RunState.WAITING
    reason: str = ""
    message: str = ""
    pid: int | None = None
    id: str = ""  # what a container runtime calls the last run
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None  # of the last run
    restarts: int = 0
    retry_at: float | None = None  # not to be started before
    postponed: int = 0  # how often in a row it could not be started for no fault of its own
    probes: Mapping[ProbeKind, ProbeStatus] = field(default_factory=dict)  # of the run that goes on
    is_hooked: bool = False  # its postStart hook has not ended
    is_stopping: bool = False  # it was told to end, since a probe or hook failed

    @property
    def is_started(self) -> bool:
        """Whether it runs, and a startup probe and a postStart hook let others go on."""
        startup = self.probes.get(ProbeKind.STARTUP)
        is_up = startup is None or startup.passed is True
        return self.state is RunState.RUNNING and is_up and not self.is_hooked

    @property
    def is_ready(self) -> bool:
        readiness = self.probes.get(ProbeKind.READINESS)
        return self.is_started and (readiness is None or readiness.passed is True)

    @property
    def is_alive(self) -> bool:
        """Whether a process of it may exist."""
        return self.state in {RunState.STARTING, RunState.RUNNING}


DeviceKey = tuple[str, str]  # container, resource


@dataclass(frozen=True, slots=True)
class Successor:
    """What is to run under the uid of a pod that is ending."""

    record: PodRecord
    source: str
    asker: Asker | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that becomes the command of a run; its start tells it from later namesakes."""

    pid: int
    start: int  # clock ticks after the boot
    boot: str  # of this boot of the kernel


@dataclass(frozen=True, slots=True)
class Run:
    """What only a pod of ``numalign run`` has: who waits in the foreground."""

    caller: Caller
    waits: bool = False  # until it fits, instead of being refused
    ticket: int = 0  # those who wait are served in this order
    # None of what follows is kept over a restart.
    request: int | None = None  # who waits for the answer
    is_explained: bool = True  # False: why it does not fit is being found out


@dataclass(frozen=True, slots=True)
class AgentPod:
    """One pod that the agent was given, whatever became of it."""

    record: PodRecord
    pod: Pod
    source: str  # "api", or "file:" and the name of the manifest
    created_at: float
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    started_at: float | None = None
    deleting: bool = False
    # Asked for anew, maybe changed, while it was ending: what begins when it has ended.
    successor: Successor | None = None
    containers: Mapping[str, ContainerStatus] = field(default_factory=dict)
    # Devices that were chosen but whose plugin has not answered yet, and what plugins answered.
    awaited: frozenset[DeviceKey] = frozenset()
    allocations: Mapping[DeviceKey, Allocation] = field(default_factory=dict)
    record_bytes: int = field(default=0, compare=False)  # of the manifest, on the disk
    run: Run | None = None  # of a command in the foreground of a terminal
    asker: Asker | None = None  # as whom its processes run; None: as the agent

    def container_record(self, name: str) -> ContainerRecord:
        spec = self.record.spec
        records: list[ContainerRecord] = [*(spec.initContainers or ()), *(spec.containers or ())]
        return next(record for record in records if record.name == name)

    @property
    def waits_for_room(self) -> bool:
        """Whether it was found not to fit, and is decided about again when something is free."""
        return self.phase is Phase.PENDING and self.reason == WAITING_FOR_ROOM

    @property
    def waits_for_plugin(self) -> bool:
        """Whether no decision was made yet, because a device plugin is not back."""
        return self.phase is Phase.PENDING and self.reason == WAITING_FOR_PLUGIN

    @property
    def waits_for_name(self) -> bool:
        """Whether no decision was made yet, because the pod that it replaces has not ended."""
        return self.phase is Phase.PENDING and self.reason == WAITING_FOR_NAME

    @property
    def is_undecided(self) -> bool:
        """Whether it waits to be decided about, so that it has nothing yet."""
        return self.waits_for_plugin or self.waits_for_name or self.waits_for_room

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which only one pod may have."""
        return self.pod.namespace, self.pod.name

    @property
    def is_terminal(self) -> bool:
        """Whether it will never run again."""
        return self.phase in TERMINAL

    @property
    def restart_policy(self) -> str:
        """Always, OnFailure or Never."""
        return self.record.spec.restartPolicy

    def grace_seconds(self, limit: float) -> float:
        """How long its containers may take to end."""
        asked = self.record.spec.terminationGracePeriodSeconds
        return min(30.0 if asked is None else float(max(0, asked)), limit)

    def alive(self) -> Iterator[str]:
        """The names of containers that may have a process."""
        return (name for name, status in self.containers.items() if status.is_alive)


def waiting(pod: AgentPod, resources: Sequence[str]) -> AgentPod:
    """The same pod without a decision, until the plugins of these resources are there."""
    text = f"waiting for the device plugins of {', '.join(resources)}"
    return _undecided(pod, WAITING_FOR_PLUGIN, text)


def waiting_for_name(pod: AgentPod) -> AgentPod:
    """The same pod without a decision, until those that it replaces have ended."""
    return _undecided(pod, WAITING_FOR_NAME, "waiting until the pods that it replaces have ended")


def waiting_for_room(pod: AgentPod, message: str) -> AgentPod:
    """The same pod without a decision, until it fits."""
    return _undecided(pod, WAITING_FOR_ROOM, message)


def _undecided(pod: AgentPod, reason: str, message: str) -> AgentPod:
    return replace(
        pod,
        phase=Phase.PENDING,
        reason=reason,
        message=message,
        deleting=False,
        successor=None,
        containers={name: ContainerStatus() for name in pod.containers},
        awaited=frozenset(),
        allocations={},
    )


@dataclass(frozen=True, slots=True)
class DeviceSource:
    is_plugin: bool  # else declared in the configuration
    has_preferred: bool = False
    needs_prestart: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod was refused, as plain values: what is kept over a restart."""

    uid: str
    at: float
    namespace: str
    name: str
    reason: str  # the kubelet's, as the message
    message: str
    why: str  # in one sentence
    explanation: dict[str, Any] | None  # None: too long to be kept


@dataclass(frozen=True, slots=True)
class PutOff:
    """A pod of a manifest that cannot be taken yet; nothing is known of it but its manifest."""

    record: PodRecord
    source: str
    why: str
    asker: Asker | None = None
    is_on_its_way: bool = False  # its event comes again by itself


@dataclass(frozen=True, slots=True)
class AgentState:
    host: HostState
    pods: Mapping[str, AgentPod] = field(default_factory=dict)  # by uid, oldest first
    sources: Mapping[str, DeviceSource] = field(default_factory=dict)  # by resource
    started_at: float = 0.0  # when this run of the agent began
    refusals: Mapping[str, Refusal] = field(default_factory=dict)  # by uid, oldest first
    # By uid, in the order in which they came. Not saved: the manifests are there after a restart.
    put_off: Mapping[str, PutOff] = field(default_factory=dict)
    offline: int = 0  # CPUs of the machine that went offline since the start, as a mask
    # The conservation law that is broken. Nothing is decided or saved from then on.
    halted: str = ""
    # What could not be handled, by kind of event, until one of its kind is handled again.
    faults: Mapping[str, str] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """What the operator is to look at, one line each."""
        failed = [
            f"pod {pod.pod.namespace}/{pod.pod.name}: {pod.reason}: {pod.message}"
            for pod in self.pods.values()
            if pod.reason in FAULTS
        ]
        return [*([self.halted] if self.halted else []), *self.faults.values(), *failed]


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What stays the same while the agent runs."""

    host: Host
    totals: Mapping[str, int]  # what the host offers to pods, without devices
    backoff_seconds: float = 10.0
    backoff_seconds_max: float = 300.0
    backoff_reset_seconds: float = 600.0  # a run this long makes the next back-off short again
    grace_seconds_max: float = 600.0
    pods_known_max: int = 1_000  # active and ended ones together
    # Of all manifests together. The file of them has a third more for what becomes of the pods.
    records_bytes_max: int = 48 * 1024 * 1024
    # How long after a start a pod waits for a device plugin that was there before.
    plugin_grace_seconds: float = 60.0
    declared: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    kubelet: KubeletConfig | None = None  # what the host is configured with, for captures
    save_retry_seconds: float = 1.0  # until what could not be saved is tried again
    # Whether containers are plain processes: these get no mounts, device files or images.
    runs_processes: bool = False
    # Whether a pod ends when a CPU of its own goes offline; else it keeps the rest.
    ends_without_cpus: bool = False
    has_weighted_interleave: bool = False  # whether the kernel knows this memory policy
    without_mempolicy: str = ""  # why the runtime sets no memory policies, if it does not
    runs_containers: bool = False  # in a container runtime
    abilities: Abilities | None = None  # what processes can be given; None: it is not looked at


def placed_cpus(setup: AgentSetup, state: AgentState, uid: str, container: Container) -> int:
    """The CPUs that a container may run on now, as a mask."""
    own = state.host.cpu.entries.get(uid, {}).get(container.name)
    if own is not None:
        return own & ~state.offline or own
    policy = setup.host.cpu
    if policy is None:
        return setup.host.cpu_topology.all & ~state.offline
    # With a strict reservation a full host has no shared CPU left; no process can run on none, so
    # the reserved ones are what remains.
    return shared_cpus(setup, state) or setup.host.cpu_topology.all & ~state.offline


def shared_cpus(setup: AgentSetup, state: AgentState) -> int:
    """The CPUs of all that have none of their own: the pool, or the reserved ones without one."""
    policy = setup.host.cpu
    reserved = policy.reserved if policy is not None else 0
    return state.host.cpu.shared & ~state.offline or reserved & ~state.offline


def sits_on(setup: AgentSetup, state: AgentState, uid: str, container: Container) -> int:
    """The CPUs that a container holds or may use, as a mask; none for one that has ended.

    CPUs of its own are held until the whole pod has ended, as in the kubelet.
    """
    own = state.host.cpu.entries.get(uid, {}).get(container.name)
    if own is None and state.pods[uid].containers[container.name].state is RunState.EXITED:
        return 0
    if has_passed_on(state, uid, container):
        return own_cpus(state, uid, container) or 0
    return placed_cpus(setup, state, uid, container)


def has_passed_on(state: AgentState, uid: str, container: Container) -> bool:
    """Whether it is an init container that has ended: what it had is for those after it."""
    status = state.pods[uid].containers[container.name]
    return container.is_regular_init and status.state is RunState.EXITED


def own_cpus(state: AgentState, uid: str, container: Container) -> int | None:
    """The CPUs that only this container holds; None: none of its own, or no more.

    An init container that has ended leaves its CPUs to those after it. What these do not need
    stays with the pod, and so with it.
    """
    entries = state.host.cpu.entries.get(uid, {})
    own = entries.get(container.name)
    if own is None or not has_passed_on(state, uid, container):
        return own
    for name, others in entries.items():
        if name != container.name:
            own &= ~others
    return own or None


def placed_nodes(state: AgentState, uid: str, name: str) -> int | None:
    """The NUMA nodes that a container's memory is bound to; None if it is not."""
    found = mems_of(state.host.memory.entries.get(uid, {}).get(name, ()))
    return None if found is None else found.mask


def memory_nodes(setup: AgentSetup, host: HostState, uid: str, name: str) -> NodeSet:
    """The NUMA nodes that a container's memory may come from: its own, or all that have some."""
    found = mems_of(host.memory.entries.get(uid, {}).get(name, ()))
    nodes = setup.host.info.nodes
    return found or NodeSet.of(node.id for node in nodes if node.memory_bytes)


def placed_mempolicy(setup: AgentSetup, state: AgentState, uid: str, name: str) -> Mempolicy | None:
    """How a container's memory is spread over its nodes; None: as the kernel does by default."""
    asked = mempolicy_of(state.pods[uid].record, name)
    return None if asked is None else asked.within(memory_nodes(setup, state.host, uid, name))
