"""A container is about to be created: decided, pinned and answered, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from numalign.apps.nri.annotations import CONTAINERS, ChoiceError, PodOptions, chosen
from numalign.apps.nri.events import (
    AnswerPlaced,
    AnswerRefused,
    AskDevices,
    ContainerCreating,
    Effect,
    Placed,
    Refused,
    Save,
)
from numalign.apps.nri.model import NriState, PodEntry
from numalign.apps.nri.steps import holdings, pods
from numalign.apps.nri.steps.managers import managed_by_kubelet
from numalign.apps.nri.steps.placing import placing_of, told, with_updates
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.admission.verdict import refusal
from numalign.core.kubelet.decisions import Admitted
from numalign.core.kubelet.host import Host, HostState
from numalign.core.pod import Pod, exclusive_cpus, pod_exclusive_cpus
from numalign.core.values.sets import format_list

BAD_ANNOTATION: Final = "InvalidAnnotation"
EMPTY_POOL: Final = "EmptySharedPool"
NOT_SYNCHRONIZED: Final = "NotSynchronized"
DEVICES_UNKNOWN: Final = "DevicesUnknown"
KUBELET_PLACES: Final = "KubeletPlaces"
_HARD: Final = frozenset({"restricted", "single-numa-node"})


class RefusedError(Exception):
    """A container that cannot be created now."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def create(state: NriState, event: ContainerCreating) -> tuple[NriState, list[Effect]]:
    """The state and the answer; a refusal leaves everything as it was."""
    pod, container = event.pod, event.container
    name = f"{pod.namespace}/{pod.name}"
    try:
        _check_synchronized(state)
        entry = pods.with_seen(pods.entry_of(pod, state.pods.get(pod.uid)), container)
        options = _options(state, entry)
        if not event.is_asked and _needs_devices(state, entry, options, container.name):
            return state, [AskDevices()]
        after = _decided(state, event, entry, options)
    except RefusedError as error:
        noted = Refused(name, container.name, error.reason, error.message)
        text = f"numalign: {error.reason}: container {container.name} of {name}: {error.message}"
        return state, [AnswerRefused(error.reason, text), noted]
    key = (pod.uid, container.name)
    placing = placing_of(after, key, options)
    after = told(after, container, key, placing)
    after, updates = with_updates(after, without=container.id)
    is_shared = container.name not in after.host.cpu.entries.get(pod.uid, {})
    effects: list[Effect] = [
        AnswerPlaced(placing, updates),
        Placed(name, container.name, placing.cpus, placing.mems, is_shared),
    ]
    return after, [*saves(state, after), *effects]


def _check_synchronized(state: NriState) -> None:
    if not state.is_synchronized:
        raise RefusedError(NOT_SYNCHRONIZED, "the runtime has not told what runs here yet")


def saves(before: NriState, after: NriState) -> list[Effect]:
    """A save, if what must survive a crash has changed."""
    same = (
        before.host.cpu is after.host.cpu
        and before.host.memory is after.host.memory
        and before.stopped is after.stopped
    )
    return [] if same else [Save(after)]


def _options(state: NriState, entry: PodEntry) -> PodOptions:
    try:
        return chosen(entry.annotations, entry.namespace, state.policy.namespaces)
    except ChoiceError as error:
        raise RefusedError(BAD_ANNOTATION, str(error)) from error


def _needs_devices(state: NriState, entry: PodEntry, options: PodOptions, name: str) -> bool:
    """Whether devices could say where this container must go."""
    if state.policy.host.cpu is None or name in state.host.cpu.entries.get(entry.uid, {}):
        return False
    try:
        pod = pods.core_pod(entry, options, {})
    except ChoiceError:
        return False  # refused with it later
    if not pod_exclusive_cpus(pod, state.policy.host.settings):
        return False
    return options.declared is None or bool(_declared_devices(options))


def _decided(
    state: NriState, event: ContainerCreating, entry: PodEntry, options: PodOptions
) -> NriState:
    name = event.container.name
    try:
        host = state.policy.host_for(options)
        pod = pods.core_pod(entry, options, pods.held_cpus(state.host, entry.uid))
        pods.check_declared(pod, event.container, host.settings)
    except ChoiceError as error:
        raise RefusedError(BAD_ANNOTATION, str(error)) from error
    _check_scope(host, pod, event, options)
    _check_devices(host, event, options)
    before = _with_devices(state, entry, event)
    before = holdings.given_again(host, before, entry.uid, state.stopped.get(entry.uid))
    pod = pods.with_devices(pod, event.devices)
    after = decide(host, before, pod, name)
    check_pool(host, after, pod, name)
    after = hosts.container_started(after, entry.uid, name)
    stopped = state.stopped
    if entry.uid in stopped:
        stopped = {uid: held for uid, held in stopped.items() if uid != entry.uid}
    unplaced = state.unplaced - {(entry.uid, name)}
    entries = {**state.pods, entry.uid: entry}
    return replace(state, host=after, pods=entries, stopped=stopped, unplaced=unplaced)


def decide(host: Host, state: HostState, pod: Pod, name: str) -> HostState:
    """The state with the pod admitted; RefusedError with the reason and what is free otherwise."""
    after, decision = admit(host, state, pod)
    if isinstance(decision, Admitted):
        return after
    found = refusal(decision)
    assert found is not None, "what is not admitted has a reason"
    reason, message = found
    raise RefusedError(reason, f"{message} ({_situation(host, state, pod, name)})")


def _situation(host: Host, state: HostState, pod: Pod, name: str) -> str:
    """What is asked for and what is free, for whoever reads the pod's events."""
    asked = next((one for one in pod.in_order if one.name == name), None)
    own = 0 if asked is None else exclusive_cpus(pod, asked, host.settings)
    total = pod_exclusive_cpus(pod, host.settings)
    parts = [f"asks for {own} CPUs of its own" + (f", its pod for {total}" if total > own else "")]
    if host.cpu is not None:
        free = state.cpu.shared & ~host.cpu.reserved
        by_node = [
            f"{node}: {(cpus & free).bit_count()}" for node, cpus in host.cpu_topology.nodes.items()
        ]
        parts.append(f"free CPUs by NUMA node {', '.join(by_node)}")
    if host.topology is not None:
        parts.append(f"policy {host.topology.name}, scope {host.topology.scope}")
    return "; ".join(parts)


def check_pool(host: Host, state: HostState, pod: Pod, name: str) -> None:
    """Refuses what would leave the shared pool empty: an empty set means "leave" to a runtime."""
    if host.cpu is None or state.cpu.shared:
        return
    own = state.cpu.entries.get(pod.uid, {}).get(name)
    if own is None:
        raise RefusedError(EMPTY_POOL, "no CPU is left in the shared pool for it")
    raise RefusedError(
        EMPTY_POOL, f"its CPUs {format_list(own)} are the last ones of the shared pool"
    )


def _check_scope(host: Host, pod: Pod, event: ContainerCreating, options: PodOptions) -> None:
    """Pod scope promises one place for all containers; that needs to know them all."""
    if host.topology is None or host.topology.scope != "pod" or options.declared is not None:
        return
    if not pod_exclusive_cpus(pod, host.settings):
        return
    if pods.is_whole_pod(event.pod, event.container):
        return
    raise RefusedError(
        BAD_ANNOTATION,
        f"scope pod needs the list of all containers in the annotation {CONTAINERS}, and this pod "
        "has several and no list; install numalign's MutatingAdmissionPolicy, or write it",
    )


def _check_devices(host: Host, event: ContainerCreating, options: PodOptions) -> None:
    """A hard promise about devices is not made while nobody says where they are."""
    wanted = _declared_devices(options)
    if event.devices is None:
        if not event.is_unanswered:
            return
        is_hard = host.topology is not None and host.topology.name in _HARD
        if wanted or (is_hard and options.declared is None):
            raise RefusedError(
                DEVICES_UNKNOWN,
                "the kubelet does not say in time which devices it has given to this pod",
            )
        return
    managed = managed_by_kubelet(event.devices)
    if managed is not None:
        raise RefusedError(KUBELET_PLACES, managed)
    given = {
        (one.name, use.resource)
        for pod in event.devices.pods
        if (pod.namespace, pod.name) == (event.pod.namespace, event.pod.name)
        for one in (*pod.sidecars, *pod.apps)
        for use in one.devices
    }
    missing = sorted(wanted - given)
    if missing:
        name, resource = missing[0]
        raise RefusedError(
            DEVICES_UNKNOWN, f"the kubelet does not list {resource} of container {name} yet"
        )


def _declared_devices(options: PodOptions) -> set[tuple[str, str]]:
    """Containers with devices by the list of containers; init containers are never told of."""
    declared = options.declared
    if declared is None:
        return set()
    sidecars = [one for one in declared.init_containers if one.is_restartable]
    return {
        (one.name, resource)
        for one in (*sidecars, *declared.containers)
        for resource, amount in one.requests.items()
        if "/" in resource and not amount.is_zero
    }


def _with_devices(state: NriState, entry: PodEntry, event: ContainerCreating) -> HostState:
    if event.devices is None:
        return state.host
    known = {**state.pods, entry.uid: entry}
    uids = {(one.namespace, one.name): uid for uid, one in known.items()}
    return replace(state.host, devices=holdings.devices_of(event.devices, uids))
