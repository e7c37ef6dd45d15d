"""Admission of one pod: hints, merge, policy, allocation, container by container or as a whole.

Providers are asked in the kubelet's order: devices, CPUs, memory. Nothing is rolled back when a
later container fails: what was given stays noted until the pod, now inactive, is cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from numalign.core.kubelet import decisions
from numalign.core.kubelet.admission.draft import Draft, no_preference
from numalign.core.kubelet.devices.devices import Preferred
from numalign.core.kubelet.host import NO_HINT, Host, HostState
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.kubelet.topology.merge import flattened
from numalign.core.kubelet.topology.policy import TopologyPolicy
from numalign.core.pod import Container, Pod

NOT_ALIGNED: Final = "Resources cannot be allocated with Topology locality"
NOT_ALIGNED_CONTAINERS: Final = (
    "Pod Scope pod with pod-level resources failed admission "
    "with a container-level topology manager"
)
NOT_ALIGNED_POD: Final = (
    "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
)

DEVICE_MANAGER: Final = "device_manager"
CPU_MANAGER: Final = "cpu_manager"
MEMORY_MANAGER: Final = "memory_manager"
PROVIDERS: Final = (DEVICE_MANAGER, CPU_MANAGER, MEMORY_MANAGER)


class Operation(StrEnum):
    """Why a pod comes to admission."""

    ADD = "add"
    RESIZE = "resize"


def admit(
    host: Host,
    state: HostState,
    pod: Pod,
    *,
    operation: Operation = Operation.ADD,
    preferred: Preferred = no_preference,
    trace: decisions.Trace | None = None,
    past_defects: bool = False,
) -> tuple[HostState, decisions.Decision]:
    """The next state and the decision about one pod.

    A rejected pod is not active in the next state, but what it was given on the way is still
    noted there until ``host.cleaned`` runs, which every admission does first. Where the real
    kubelet would break, the state is the one before. With ``past_defects`` (for replaying what a
    real kubelet did) CPUs that are not free are given as it gives them.
    """
    draft = Draft(
        host,
        state,
        pod,
        is_resize=operation is Operation.RESIZE,
        preferred=preferred,
        past_defects=past_defects,
    )
    try:
        _run(draft, trace)
    except decisions.KubeletBreaksError as error:
        return state, decisions.Broken(error.kind, error.statement)
    except _RefusedError as refusal:
        return draft.refused(), refusal.rejected
    after = draft.admitted()
    return after, decisions.Admitted(placements(after, pod))


def placements(state: HostState, pod: Pod) -> tuple[decisions.Placement, ...]:
    """What each container of an active pod holds, init containers first."""
    uid = pod.uid
    cpus = state.cpu.entries.get(uid, {})
    memory = state.memory.entries.get(uid, {})
    held = state.devices.entries.get(uid, {})
    hints = state.hints.get(uid, {})
    return tuple(
        decisions.Placement(
            c.name,
            hints.get(c.name, NO_HINT),
            cpus.get(c.name),
            memory.get(c.name, ()),
            {name: h.ids for name, h in held[c.name].items()} if c.name in held else {},
        )
        for c in pod.in_order
    )


class _RefusedError(Exception):
    def __init__(self, rejected: decisions.Rejected) -> None:
        super().__init__(rejected.message)
        self.rejected = rejected


def _run(draft: Draft, trace: decisions.Trace | None) -> None:
    if draft.host.is_safe and draft.is_placed():
        return  # a running pod keeps what it has, whatever would be decided today
    topology = draft.host.topology
    if topology is None:
        for container in draft.pod.in_order:
            _allocate(draft, container, NO_HINT, trace)
    elif topology.scope == "container":
        _container_scope(draft, topology, trace)
    else:
        _pod_scope(draft, topology, trace)


def _container_scope(draft: Draft, topology: TopologyPolicy, trace: decisions.Trace | None) -> None:
    text = NOT_ALIGNED_CONTAINERS if draft.is_pod_level else NOT_ALIGNED
    for container in draft.pod.in_order:
        hint = _merged(draft, topology, container, text, trace)
        draft.hints[container.name] = hint
        _allocate(draft, container, hint, trace)


def _pod_scope(draft: Draft, topology: TopologyPolicy, trace: decisions.Trace | None) -> None:
    if draft.is_pod_level:
        hint = _merged(draft, topology, None, NOT_ALIGNED_POD, trace)
        draft.hints.update(dict.fromkeys((c.name for c in draft.pod.in_order), hint))
        _attempt(CPU_MANAGER, None, trace, lambda: draft.give_pod_cpus(hint))
        _attempt(MEMORY_MANAGER, None, trace, lambda: draft.give_pod_memory(hint))
        return
    hint = _merged(draft, topology, None, NOT_ALIGNED, trace)
    for container in draft.pod.in_order:
        draft.hints[container.name] = hint
        _allocate(draft, container, hint, trace)


def _merged(
    draft: Draft,
    topology: TopologyPolicy,
    container: Container | None,
    text: str,
    trace: decisions.Trace | None,
) -> Hint:
    answers = draft.answers(container)
    hint, is_admitted = topology.decide(
        topology.merger, flattened(answers), explain=trace is not None
    )
    name = None if container is None else container.name
    if trace is not None:
        by_provider = dict(zip(PROVIDERS, answers, strict=True))
        trace.steps.append(decisions.MergeStep(name, by_provider, hint, is_admitted))
    if not is_admitted:
        raise _RefusedError(decisions.Rejected(decisions.Reason.TOPOLOGY_AFFINITY, text, name))
    return hint


def _allocate(
    draft: Draft, container: Container, hint: Hint, trace: decisions.Trace | None
) -> None:
    name = container.name
    _attempt(DEVICE_MANAGER, name, trace, lambda: draft.give_devices(container, hint))
    _attempt(CPU_MANAGER, name, trace, lambda: draft.give_cpus(container, hint))
    _attempt(MEMORY_MANAGER, name, trace, lambda: draft.give_memory(container, hint))


def _attempt(
    provider: str, container: str | None, trace: decisions.Trace | None, give: Callable[[], None]
) -> None:
    try:
        give()
    except decisions.AllocationError as error:
        if trace is not None:
            trace.steps.append(decisions.AllocateStep(container, provider, error.text))
        message = error.text
        if error.reason is decisions.Reason.UNEXPECTED:
            message = f"Allocate failed due to {error.text}, which is unexpected"
        raise _RefusedError(
            decisions.Rejected(
                error.reason, message, container, provider, error.resources, error.text
            )
        ) from error
    if trace is not None:
        trace.steps.append(decisions.AllocateStep(container, provider))
