"""What a host has left, by NUMA node and in total, and who fits into it.

Most questions about a fleet are of one kind: a pod of one container that must sit in one NUMA node.
``Rooms`` answers those from the amounts alone, in microseconds, as the host's managers would; all
other questions go to the managers themselves. A test holds the two ways together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.nrt_match.need import NANOS
from numalign.core.cluster.scheduling.rebuild import Frame, free_by_node
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.cpu.policy import FULL_CORES, SPREAD_CORES, STRICT, UNCORE, CpuPolicy
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod, Qos, is_memory_type, qos_class
from numalign.core.what_if import largest_fit

_SIMPLE_OPTIONS: Final = frozenset({FULL_CORES, STRICT, UNCORE, SPREAD_CORES})

PODS_COUNTED_MAX: Final = 1 << 31

Amounts = Mapping[str, int]  # whole CPUs, bytes, devices


@dataclass(frozen=True, slots=True)
class Room:
    """What is left on one host. CPUs are whole by node and thousandths in total."""

    nodes: tuple[Amounts, ...]
    total: Amounts
    is_simple: bool  # whether the amounts alone decide

    def idle(self, name: str) -> int:
        """All that is left of one resource on the NUMA nodes."""
        return sum(node.get(name, 0) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a pod would go: the room after it, and whether it sits as close as it could."""

    after: Room
    is_aligned: bool
    node: int | None = None  # the one NUMA node, where the amounts decided
    state: HostState | None = None  # the state after it, where the managers decided


@dataclass(frozen=True, slots=True)
class Ask:
    """What a pod asks for: in total, and of one NUMA node (None: it is not a simple case)."""

    pod: Pod
    total: Amounts
    of_node: Amounts | None


@dataclass(slots=True)
class Rooms:
    """All hosts of one frame: the rules by which room is counted."""

    frame: Frame
    is_simple: bool = field(init=False)
    allocatable: Amounts = field(init=False)  # in total, devices included
    node_capacity: Amounts = field(init=False)  # what the best NUMA node has of each when empty
    _asks: dict[int, Ask] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        host = self.frame.host
        devices = self.frame.empty.devices.resources.values()
        self.is_simple = (
            host.topology is not None
            and host.topology.name == "single-numa-node"
            and (host.cpu is None or _is_simple(host.cpu))
            and all(
                not resource.placeless and all(n.bit_count() == 1 for n, _ in resource.places)
                for resource in devices
            )
        )

        self.allocatable = largest_fit.left(host, self.frame.empty, self.frame.totals)
        empty = self.room(self.frame.empty).nodes
        names = {name for node in empty for name in node}
        self.node_capacity = {name: max(n.get(name, 0) for n in empty) for name in names}

    def room(self, state: HostState) -> Room:
        """What the host has left in this state."""
        host = self.frame.host
        by_node = free_by_node(self.frame, state)
        is_grouped = any(len(node.cells) > 1 for node in state.memory.machine.values())
        return Room(
            tuple({n: a // NANOS for n, a in by_node[i].items()} for i in sorted(by_node)),
            largest_fit.left(host, state, self.frame.totals),
            self.is_simple and not is_grouped,
        )

    def ask(self, pod: Pod) -> Ask:
        """What a pod asks of hosts like these; kept, since one pod is asked about on many."""
        found = self._asks.get(id(pod))
        if found is None or found.pod is not pod:
            if len(self._asks) > 4_096:
                self._asks.clear()
            found = self._asks[id(pod)] = self._ask(pod)
        return found

    def _ask(self, pod: Pod) -> Ask:
        settings = self.frame.host.settings
        total = {name: a for name, a in pod.requests_counted(settings).items() if a}
        is_guaranteed = qos_class(pod, settings) is Qos.GUARANTEED
        if len(pod.in_order) != 1 or pod.has_pod_level_resources or not is_guaranteed:
            return Ask(pod, total, None)
        [container] = pod.containers or pod.in_order
        if container.is_init or any(not _is_whole(n, q.nanos) for n, q in container.limits.items()):
            return Ask(pod, total, None)
        own = {n: q.nanos // NANOS for n, q in container.limits.items() if q.nanos}
        managed = {n: a for n, a in own.items() if self._is_managed(n)}
        return Ask(pod, total, managed)

    def _is_managed(self, name: str) -> bool:
        host = self.frame.host
        if name == "cpu":
            return host.cpu is not None
        if is_memory_type(name):
            return host.memory is not None
        return name in self.frame.empty.devices.resources

    def seat(self, state: HostState, room: Room, pod: Pod) -> Seat | None:
        """Where the host would put the pod; None if its kubelet would refuse it."""
        ask = self.ask(pod)
        if ask.of_node is not None and room.is_simple:
            return self._counted(room, ask, ask.of_node)
        after, verdict = verdict_on(self.frame.host, state, self.frame.totals, pod)
        if not isinstance(verdict, Admitted):
            return None
        hints = [placement.hint for placement in verdict.placements]
        is_aligned = all(hint.preferred or hint.nodes is None for hint in hints)
        return Seat(self.room(after), is_aligned, state=after)

    def fits(self, state: HostState, room: Room, pod: Pod) -> bool:
        ask = self.ask(pod)
        if ask.of_node is not None and room.is_simple:
            return self._node_for(room, ask, ask.of_node) is not None
        _, verdict = verdict_on(self.frame.host, state, self.frame.totals, pod)
        return isinstance(verdict, Admitted)

    def asked(self, pod: Pod, resource: str) -> int:
        """What the whole pod asks for of a resource, in the units of the NUMA nodes."""
        amount = self.ask(pod).total.get(resource, 0)
        return amount // 1000 if resource == "cpu" else amount

    def count(self, room: Room, pod: Pod) -> int | None:
        """How many pods like this one fit; None where the amounts alone do not say."""
        ask = self.ask(pod)
        if not ask.of_node or not room.is_simple:
            return None
        if self._node_for(room, ask, ask.of_node) is None:
            return 0
        wanted = tuple(ask.of_node.items())
        on_nodes = 0
        for node in room.nodes:
            least = PODS_COUNTED_MAX
            for name, amount in wanted:
                least = min(least, node.get(name, 0) // amount)
            on_nodes += least
        left = room.total
        for name, amount in ask.total.items():
            on_nodes = min(on_nodes, left[name] // amount)
        return min(on_nodes, left[PODS])

    def _node_for(self, room: Room, ask: Ask, amounts: Amounts) -> int | None:
        """The lowest NUMA node that holds all of it, as the managers choose; None: refused."""
        left = room.total
        if left.get(PODS, 0) < 1:
            return None
        for name, amount in ask.total.items():
            if amount > left.get(name, 0):
                return None
        cpus = amounts.get("cpu", 0)
        policy = self.frame.host.cpu
        if cpus and policy is not None and FULL_CORES in policy.options:
            per_core = self.frame.host.cpu_topology.cpus_per_core
            if cpus % per_core:
                return None
        wanted = amounts.items()
        for node, free in enumerate(room.nodes):
            for name, amount in wanted:
                if free.get(name, 0) < amount:
                    break
            else:
                return node
        return None

    def _counted(self, room: Room, ask: Ask, amounts: Amounts) -> Seat | None:
        node = self._node_for(room, ask, amounts)
        if node is None:
            return None
        return Seat(_without(room, ask, amounts, node), is_aligned=True, node=node)


def _is_simple(policy: CpuPolicy) -> bool:
    """Whether a count of free CPUs in a node says all: which CPUs they are makes no difference."""
    if FULL_CORES in policy.options and policy.reserved != policy.reserved_cores:
        return False  # the other threads of reserved cores count in some places
    return policy.options <= _SIMPLE_OPTIONS


def _is_whole(name: str, nanos: int) -> bool:
    # Part of a CPU is taken from the shared pool, and then the managers leave the CPUs alone.
    return nanos % NANOS == 0 or name not in {"cpu"}


def _without(room: Room, ask: Ask, amounts: Amounts, node: int) -> Room:
    own = dict(room.nodes[node])
    for name, amount in amounts.items():
        own[name] -= amount
    total = dict(room.total)
    for name, amount in ask.total.items():
        total[name] -= amount
    total[PODS] -= 1
    nodes = (*room.nodes[:node], own, *room.nodes[node + 1 :])
    return Room(nodes, total, room.is_simple)
