"""Pods with resources of their own (spec.resources), given CPUs and memory as a whole.

The pod gets one set of CPUs and one set of memory nodes. Containers with fixed requests get their
part of it; all others share what is left. Only with gate PodLevelResourceManagers, in pod scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from numalign.core.kubelet.cpu import static as cpu_static
from numalign.core.kubelet.cpu.pack import NotEnoughCpusError
from numalign.core.kubelet.cpu.policy import CpuPolicy
from numalign.core.kubelet.decisions import AllocationError, Reason
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.memory.policy import MemoryPolicy
from numalign.core.kubelet.state import Block, CpuState, MemoryState
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.pod import (
    Pod,
    exclusive_cpus,
    memory_requests,
    pod_exclusive_cpus,
    pod_memory_requests,
)
from numalign.core.settings import Settings

_NO_INIT: Final = "pod rejected, pod has shared init containers but no {} available for them"
_NO_SHARED: Final = (
    "pod rejected, sum of exclusive container {} requests equals pod budget, "
    "leaving no {} for shared containers"
)


def cpu_pool_problem(pod: Pod, settings: Settings) -> str | None:
    """Why the containers without CPUs of their own would have none at all; None if they have."""
    total = pod_exclusive_cpus(pod, settings)
    own = 0
    has_shared = False
    for container in pod.in_order:
        count = exclusive_cpus(pod, container, settings)
        if container.is_regular_init:
            if count == 0 and own >= total:
                return _NO_INIT.format("cpus")
        elif count == 0:
            has_shared = True
        else:
            own += count
    return _NO_SHARED.format("cpu", "cpus") if has_shared and own >= total else None


def memory_pool_problem(pod: Pod, settings: Settings) -> tuple[str, str] | None:
    """The same for memory: the kind of which nothing is left, and the kubelet's words."""
    totals = pod_memory_requests(pod, settings)
    own = dict.fromkeys(totals, 0)
    has_shared = False
    for container in pod.in_order:
        request = memory_requests(pod, container, settings)
        if container.is_regular_init:
            short = next((t for t in totals if own[t] >= totals[t]), None)
            if not request and short is not None:
                return short, _NO_INIT.format(short)
        elif not request:
            has_shared = True
        else:
            for t, size in request.items():
                own[t] = own.get(t, 0) + size
    short = next((t for t in totals if own[t] >= totals[t]), None)
    if has_shared and short is not None:
        return short, _NO_SHARED.format(short, "memory")
    return None


# CPUs.


def give_cpus(
    policy: CpuPolicy, state: CpuState, pod: Pod, settings: Settings, hint: Hint
) -> CpuState:
    """The state after a pod got its CPUs. A KeptPodSetError carries what stays behind."""
    count = pod_exclusive_cpus(pod, settings)
    if count == 0:
        return state
    problem = cpu_pool_problem(pod, settings)
    if problem is not None:
        raise AllocationError(problem, ("cpu",), Reason.EMPTY_POD_SHARED_POOL)
    cpu_static.check_full_cores(policy, state, count)
    cpus = cpu_static.taken(policy, state, hint, 0, count)
    before = state
    state = CpuState(
        state.policy,
        state.shared & ~cpus,
        state.entries,
        {**state.pod_sets, pod.uid: cpus},
        state.baselines,
    )
    try:
        parts = _cpu_parts(policy, pod, settings, cpus)
    except NotEnoughCpusError as error:
        raise KeptPodSetError(str(error), state) from error
    cpu_static.check_free(policy, before, 0, cpus)  # a pod that is refused runs on none of them
    baselines = settings.gate("InPlacePodVerticalScalingExclusiveCPUs")
    for name, part in parts.items():
        state = cpu_static.stored(state, pod.uid, name, part, state.shared, baselines=baselines)
    return state


class KeptPodSetError(AllocationError):
    """The pod is refused although its CPUs are already noted; the kubelet never frees them."""

    def __init__(self, text: str, state: CpuState) -> None:
        super().__init__(text, ("cpu",))
        self.state = state


def _cpu_parts(policy: CpuPolicy, pod: Pod, settings: Settings, cpus: int) -> dict[str, int]:
    parts: dict[str, int] = {}
    sidecars = 0
    for container in pod.init_containers:
        pool = cpus & ~sidecars
        count = exclusive_cpus(pod, container, settings)
        if count:
            parts[container.name] = policy.choose(pool, count)
            if container.is_restartable:
                sidecars |= parts[container.name]
        elif not container.is_restartable:
            parts[container.name] = pool
    pool = cpus & ~sidecars
    for container in pod.containers:
        count = exclusive_cpus(pod, container, settings)
        if count:
            parts[container.name] = policy.choose(pool, count)
            pool &= ~parts[container.name]
    for container in pod.in_order:
        parts.setdefault(container.name, pool)
    return parts


# Memory.


def give_memory(
    policy: MemoryPolicy, state: MemoryState, pod: Pod, settings: Settings, hint: Hint
) -> MemoryState:
    totals = pod_memory_requests(pod, settings)
    if not totals:
        return state
    short = memory_pool_problem(pod, settings)
    if short is not None:
        kind, problem = short
        raise AllocationError(problem, (kind,), Reason.EMPTY_POD_SHARED_POOL)
    mask = memory_static.chosen_nodes(policy, state.machine, totals, {}, hint)
    accounts = memory_static.charged(state.machine, mask, totals, {})
    blocks = memory_static.blocks_of(mask, totals)
    entries = {**state.entries, pod.uid: _memory_parts(pod, settings, totals, mask)}
    return MemoryState(state.policy, accounts, entries, {**state.pod_blocks, pod.uid: blocks})


def _memory_parts(
    pod: Pod, settings: Settings, totals: Mapping[str, int], mask: int
) -> dict[str, tuple[Block, ...]]:
    parts: dict[str, dict[str, int]] = {}
    left = dict(totals)
    for container in pod.in_order:
        request = memory_requests(pod, container, settings)
        if request:
            parts[container.name] = request
            if not container.is_regular_init:
                for t, size in request.items():
                    left[t] = left.get(t, 0) - size
        elif container.is_regular_init:
            parts[container.name] = dict(left)
    for container in pod.in_order:
        parts.setdefault(container.name, left)
    return {
        name: memory_static.blocks_of(mask, {t: size for t, size in part.items() if size > 0})
        for name, part in parts.items()
    }
