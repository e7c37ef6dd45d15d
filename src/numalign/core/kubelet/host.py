"""One host: its managers as configured, and everything that they remember.

``build`` checks the configuration as the kubelet does when it starts, ``start`` takes up what the
state files say, and ``admission`` decides about pods. All values are immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from numalign.core.kubelet.cpu import static as cpu_static
from numalign.core.kubelet.cpu.policy import CpuPolicy, cpu_policy
from numalign.core.kubelet.cpu.topology import CpuTopology, cpu_topology
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.devices.devices import DeviceState, SavedDevices
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.memory.policy import MemoryPolicy, memory_policy
from numalign.core.kubelet.state import CpuState, MemoryState
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.kubelet.topology.policy import TopologyPolicy, topology_policy
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.pod import Pod
from numalign.core.settings import Fidelity, Settings

NO_HINT = Hint(None, preferred=False)


@dataclass(frozen=True, slots=True)
class Host:
    """The managers of one host, ready to decide. None stands for a policy ``none``."""

    settings: Settings
    info: MachineInfo
    all_nodes: int
    topology: TopologyPolicy | None
    cpu_topology: CpuTopology
    cpu: CpuPolicy | None
    memory: MemoryPolicy | None

    @property
    def is_safe(self) -> bool:
        """Whether the kubelet's defects are repaired."""
        return self.settings.fidelity is Fidelity.SAFE


@dataclass(frozen=True, slots=True)
class Reusable:
    """What finished init containers of one pod left to those after them."""

    uid: str = ""
    cpus: int = 0
    memory: memory_static.Reusable = field(default_factory=dict)
    devices: devices.Reusable = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostState:
    cpu: CpuState
    memory: MemoryState
    devices: DeviceState
    pods: Mapping[str, Pod] = field(default_factory=dict)  # the active ones
    hints: Mapping[str, Mapping[str, Hint]] = field(default_factory=dict)
    reusable: Reusable = Reusable()
    gone: frozenset[str] = frozenset()  # ended pods for which something may still be held
    unchecked: bool = False  # after a start nothing is known about what is still held
    # Containers (pod uid, name) that ran when the host started, until all sources of pods have
    # spoken; None from then on. So long nothing is cleaned up, since it is not yet known who is
    # gone, and devices of running containers are not asked for again.
    running: frozenset[tuple[str, str]] | None = None

    def hint(self, uid: str, container: str) -> Hint:
        """The stored hint of a container; "none, not preferred" if there is none."""
        return self.hints.get(uid, {}).get(container, NO_HINT)


def build(settings: Settings, info: MachineInfo) -> Host:
    """The managers of a host, in the kubelet's order; StartError with its words if it refuses."""
    topology = topology_policy(settings, info)
    places = cpu_topology(info)
    return Host(
        settings,
        info,
        sum(1 << node.id for node in info.nodes),
        topology,
        places,
        cpu_policy(settings, places),
        memory_policy(settings, info),
    )


def start(
    host: Host,
    *,
    cpu: CpuState | None = None,
    memory: MemoryState | None = None,
    saved_devices: SavedDevices | None = None,
    running: frozenset[tuple[str, str]] | None = None,
) -> HostState:
    """The state after a start with these state files, None for a missing one.

    With ``running`` (the containers that the runtime reports) the sources of pods are still
    awaited; ``sources_ready`` ends that.
    """
    settings = host.settings
    cpu = cpu or CpuState(settings.cpu_policy)
    if host.cpu is not None:
        cpu = cpu_static.started(host.cpu, cpu, pod_level=settings.gate("PodLevelResourceManagers"))
    memory = memory or MemoryState(settings.memory_policy)
    if host.memory is not None:
        memory = memory_static.started(host.memory, memory)
    return HostState(cpu, memory, devices.restored(saved_devices), unchecked=True, running=running)


def sources_ready(state: HostState) -> HostState:
    """The state once every source of pods has delivered: nothing is passed over any more."""
    return replace(state, running=None)


def ended(state: HostState, uid: str) -> HostState:
    """The state after a pod stopped being active. What it held is freed by ``cleaned``."""
    if uid not in state.pods:
        return state
    return replace(
        state,
        pods={key: pod for key, pod in state.pods.items() if key != uid},
        hints={key: hints for key, hints in state.hints.items() if key != uid},
        gone=state.gone | {uid},
    )


def cleaned(host: Host, state: HostState) -> HostState:
    """The state without anything held for pods or containers that are not there any more."""
    if state.running is not None or not (state.gone or state.unchecked):
        return state
    cpu, memory = state.cpu, state.memory
    for uid in list(cpu.entries) if state.unchecked else state.gone:
        names = _stale_names(state, uid, cpu.entries.get(uid, {}))
        if names:
            cpu = cpu_static.removed(cpu, uid, names)
    if host.is_safe:
        cpu = _without_orphan_sets(state, cpu)
    for uid in list(memory.entries) if state.unchecked else state.gone:
        names = _stale_names(state, uid, memory.entries.get(uid, {}))
        if names:
            memory = memory_static.removed(memory, uid, names)
    gone = state.devices.entries.keys() if state.unchecked else state.gone
    left = [uid for uid in gone if uid not in state.pods and uid in state.devices.entries]
    freed = devices.without_pods(state.devices, left) if left else state.devices
    return HostState(cpu, memory, freed, state.pods, state.hints, state.reusable)


def _stale_names(state: HostState, uid: str, held: Mapping[str, object]) -> list[str]:
    pod = state.pods.get(uid)
    if pod is None:
        return list(held)
    known = {container.name for container in pod.in_order}
    return [name for name in held if name not in known]


def _without_orphan_sets(state: HostState, cpu: CpuState) -> CpuState:
    """Frees pod sets that belong to no pod and no container: the kubelet would lose them."""
    orphans = [uid for uid in cpu.pod_sets if uid not in state.pods and uid not in cpu.entries]
    if not orphans:
        return cpu
    shared = cpu.shared
    for uid in orphans:
        shared |= cpu.pod_sets[uid]
    kept = {uid: cpus for uid, cpus in cpu.pod_sets.items() if uid not in orphans}
    return replace(cpu, shared=shared, pod_sets=kept)


def containers_started(state: HostState, uid: str) -> HostState:
    """The state after all containers of a pod were started, one after the other.

    The memory manager then forgets the regular init containers that came before another one.
    """
    pod = state.pods.get(uid)
    if pod is None:
        return state
    for container in pod.in_order:
        state = container_started(state, uid, container.name)
    return state


def container_started(state: HostState, uid: str, name: str) -> HostState:
    """The state after one container was started: finished init containers give memory back."""
    pod = state.pods.get(uid)
    if pod is None:
        return state
    finished: list[str] = []
    for container in pod.in_order:
        if container.name == name:
            break
        if container.is_regular_init and container.name in state.memory.entries.get(uid, {}):
            finished.append(container.name)
    if not finished:
        return state
    return replace(state, memory=memory_static.removed(state.memory, uid, finished))
