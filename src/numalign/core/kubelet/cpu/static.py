"""The static CPU manager: who may have which CPUs.

Pools: the *shared* set holds every CPU that no container owns (and, unless the reservation is
strict, the reserved ones). A container of a Guaranteed pod that asks for whole CPUs gets its own
out of ``shared - reserved``. What a finished init container held may be used again by the
containers after it: the *reusable* set, remembered for one pod at a time.
"""

from __future__ import annotations

from dataclasses import replace

from numalign.core.errors import StartError
from numalign.core.kubelet.cpu.distribute import EndlessLoopError
from numalign.core.kubelet.cpu.pack import NotEnoughCpusError
from numalign.core.kubelet.cpu.policy import ALIGN_SOCKET, FULL_CORES, STRICT, CpuPolicy
from numalign.core.kubelet.decisions import AllocationError, Breakage, KubeletBreaksError, Reason
from numalign.core.kubelet.state import CpuState
from numalign.core.kubelet.topology.hints import (
    Affinity,
    Hint,
    HintSet,
    Region,
    ResourceHints,
    SocketRule,
)
from numalign.core.kubelet.topology.node_search import Need
from numalign.core.pod import Container
from numalign.core.settings import Version
from numalign.core.values.sets import format_list

START: str = "cpu_manager_start"


def started(policy: CpuPolicy, state: CpuState, *, pod_level: bool) -> CpuState:
    """The state to go on with after a start; StartError if it does not fit the machine."""
    every = policy.assignable
    if not state.shared and not _may_be_empty(policy, state):
        if state.entries:
            raise StartError(START, "default cpuset cannot be empty")
        return CpuState(state.policy, every, {}, state.pod_sets, {})
    _check_reserved(policy, state.shared)
    owned = 0
    for uid, containers in state.entries.items():
        for name, cpus in containers.items():
            if cpus & state.shared:
                raise StartError(
                    START,
                    f'pod: {uid}, container: {name} cpuset: "{format_list(cpus)}" overlaps with '
                    f'default cpuset "{format_list(state.shared)}"',
                )
            owned |= cpus
    if pod_level:
        for cpus in state.pod_sets.values():
            owned |= cpus
    known = state.shared | owned
    if known != every and policy.is_safe and state.shared and not owned & ~every:
        # CPUs came or went, and all that pods own are still there: only the pool is another one.
        # (A state without a pool has lost it; that is no change of the machine.)
        return replace(state, shared=every & ~owned)
    if known != every:
        raise StartError(
            START,
            f'current set of available CPUs "{format_list(every)}" doesn\'t match with CPUs in '
            f'state "{format_list(known)}"',
        )
    return state


def _may_be_empty(policy: CpuPolicy, state: CpuState) -> bool:
    # With a strict reservation a full host has no shared CPU left. The kubelet then refuses to
    # start; the safe fidelity does not.
    return policy.is_safe and STRICT in policy.options and bool(state.entries)


def _check_reserved(policy: CpuPolicy, shared: int) -> None:
    if STRICT in policy.options:
        both = policy.reserved & shared
        if both:
            raise StartError(
                START,
                f'some of strictly reserved cpus: "{format_list(both)}" are present in '
                f'defaultCpuSet: "{format_list(shared)}"',
            )
    elif policy.reserved & ~shared:
        raise StartError(
            START,
            f'not all reserved cpus: "{format_list(policy.reserved)}" are present in '
            f'defaultCpuSet: "{format_list(shared)}"',
        )


# Hints.


def hint_set(policy: CpuPolicy, available: int, reusable: int, count: int) -> ResourceHints:
    """The sets of NUMA nodes that have enough CPUs.

    Preferred are those with as few nodes as an empty machine would need, whatever is free now.
    """
    topology = policy.topology
    fewest = topology.fewest_nodes(count)
    free = tuple([(bit, (cpus & available).bit_count()) for bit, cpus in topology.node_bits])
    support = topology.node_mask
    must = topology.nodes_of(reusable) if reusable else 0
    region = Region(support, must, (Need(count - reusable.bit_count(), free),))
    if not region.contains(support):
        return Affinity.NOWHERE
    rule = _socket_rule(policy, fewest) if ALIGN_SOCKET in policy.options else None
    return HintSet(tuple(topology.nodes), fewest, region, socket_rule=rule)


def _socket_rule(policy: CpuPolicy, fewest: int) -> SocketRule | None:
    topology = policy.topology
    nodes_per_socket = topology.node_count // topology.socket_count
    if nodes_per_socket == 0:
        return None
    sockets = tuple(topology.nodes_of(cpus) for cpus in topology.sockets.values())
    return SocketRule(sockets, -(-fewest // nodes_per_socket))


# Allocation.


def check_full_cores(policy: CpuPolicy, state: CpuState, count: int) -> None:
    """Refuses what does not come in whole cores, with option full-pcpus-only."""
    if FULL_CORES not in policy.options:
        return
    per_core = policy.topology.cpus_per_core
    if count % per_core:
        raise AllocationError(
            f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}",
            ("cpu",),
            Reason.SMT_ALIGNMENT,
        )
    available = (state.shared & ~policy.reserved_cores).bit_count()
    if count > available:
        raise AllocationError(
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
            f"{available}, requested CPUs = {count}, CPUs per core = {per_core}",
            ("cpu",),
            Reason.SMT_ALIGNMENT,
        )


def checks_cores_first(policy: CpuPolicy) -> bool:
    """Whether full cores are checked even for a container that already has its CPUs."""
    return policy.version is Version.V1_36 and not policy.is_safe


def taken(policy: CpuPolicy, state: CpuState, hint: Hint, reusable: int, count: int) -> int:
    """The CPUs for a new container: on the hinted nodes first, then anywhere.

    On machines with uneven cores the real code may give CPUs that are not free: see ``check_free``.
    """
    allocatable = (state.shared & ~policy.reserved) | reusable
    try:
        first = 0
        if hint.nodes is not None:
            aligned = allocatable & _aligned(policy, hint.nodes)
            first = policy.choose(aligned, min(count, aligned.bit_count()))
        missing = count - first.bit_count()
        rest = policy.choose(allocatable & ~first, missing) if missing else 0
    except NotEnoughCpusError as error:
        raise AllocationError(str(error), ("cpu",)) from error
    except EndlessLoopError as error:
        raise KubeletBreaksError(Breakage.ENDLESS_LOOP, str(error)) from error
    return first | rest


def check_free(policy: CpuPolicy, state: CpuState, reusable: int, cpus: int) -> None:
    """Stops where the real code would give CPUs that are not free."""
    taken_twice = cpus & ~((state.shared & ~policy.reserved) | reusable)
    if taken_twice:
        raise KubeletBreaksError(
            Breakage.CPU_GIVEN_TWICE,
            f"of the CPUs {format_list(cpus)} it would give, {format_list(taken_twice)} "
            "are reserved or belong to others: cores here have different numbers of threads",
        )


def _aligned(policy: CpuPolicy, nodes: int) -> int:
    topology = policy.topology
    cpus = topology.cpus_of_nodes(nodes)
    if ALIGN_SOCKET not in policy.options:
        return cpus
    sockets = 0
    for mask in topology.sockets.values():
        if mask & cpus:
            sockets |= mask
    return sockets


def stored(
    state: CpuState, uid: str, name: str, cpus: int, shared: int, *, baselines: bool
) -> CpuState:
    entries = {**state.entries, uid: {**state.entries.get(uid, {}), name: cpus}}
    kept = state.baselines
    if baselines and name not in kept.get(uid, {}):
        kept = {**kept, uid: {**kept.get(uid, {}), name: cpus}}
    return CpuState(state.policy, shared, entries, state.pod_sets, kept)


def reusable_after(reusable: int, container: Container, cpus: int) -> int:
    """What later containers of the pod may use again, once this one has its CPUs."""
    return reusable | cpus if container.is_regular_init else reusable & ~cpus


def removed(state: CpuState, uid: str, names: list[str]) -> CpuState:
    """The state without these containers; their CPUs go back unless the pod still holds them."""
    containers = dict(state.entries.get(uid, {}))
    shared = state.shared
    pod_sets = state.pod_sets
    is_pod_level = uid in pod_sets
    for name in names:
        cpus = containers.pop(name, None)
        if cpus is None:
            continue
        if is_pod_level:
            continue  # freed as a whole with the last container
        for other in containers.values():
            cpus &= ~other
        shared |= cpus
    if is_pod_level and not containers and state.entries.get(uid):
        shared |= pod_sets[uid]
        pod_sets = {key: value for key, value in pod_sets.items() if key != uid}
    entries = {key: value for key, value in state.entries.items() if key != uid}
    if containers:
        entries[uid] = containers
    baselines = state.baselines
    if uid in baselines:
        left = {n: cpus for n, cpus in baselines[uid].items() if n in containers}
        baselines = {key: value for key, value in baselines.items() if key != uid}
        if left:
            baselines[uid] = left
    return CpuState(state.policy, shared, entries, pod_sets, baselines)
