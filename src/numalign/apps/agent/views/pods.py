"""Pods as Kubernetes shows them: v1.Pod with v1.PodStatus, from the agent's state.

What Kubernetes has no word for (CPUs, memory nodes, devices, the hint) is under the extra key
``numalign`` of each pod. The same values are served by the API and shown by the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    Phase,
    Refusal,
    RunState,
    has_passed_on,
    own_cpus,
    sits_on,
)
from numalign.apps.agent.notes import PodRejected, values_of
from numalign.apps.agent.steps import wishes
from numalign.apps.agent.views import answers
from numalign.apps.agent.views.answers import (
    Condition,
    PlacedContainer,
    Placement,
    Pod,
    PodList,
    PodMetadata,
    PodStatus,
)
from numalign.apps.agent.views.journal import Decision
from numalign.core.explain.alignment import placed
from numalign.core.kubelet.decisions import Placement as CorePlacement
from numalign.core.kubelet.devices.plugin_answer import parts_for_containers
from numalign.core.kubelet.host import NO_HINT
from numalign.core.pod import Container, qos_class
from numalign.core.values.sets import format_list
from numalign.core.views import explanation as explain_view
from numalign.core.views.trace import as_data as trace_data
from numalign.wire.memory_block import memory_blocks
from numalign.wire.placed_container import container_placement
from numalign.wire.pods.annotations import mempolicy_of
from numalign.wire.pods.records import ContainerRecord

View = dict[str, Any]
OWN_ANNOTATIONS: Final = "numalign.io/"  # the only ones that everybody may see
AS_WRITTEN: Final = "numalign.io/AsWritten"
CONDITION_CHARS_MAX: Final = 4_000


def pod_list(
    setup: AgentSetup, state: AgentState, uids: Iterable[str] | None = None, *, env: bool = True
) -> PodList:
    chosen = state.pods if uids is None else [uid for uid in uids if uid in state.pods]
    items = [pod_view(setup, state, uid, env=env) for uid in chosen]
    return PodList("v1", "PodList", {}, items)


def pod_view(setup: AgentSetup, state: AgentState, uid: str, *, env: bool = True) -> Pod:
    """A v1.Pod. Without ``env`` the values of environment variables and all copies are left out."""
    known = state.pods[uid]
    return Pod(
        api_version="v1",
        kind="Pod",
        metadata=_metadata(known, env=env),
        spec=spec_view(known, env=env),
        status=status_view(setup, known),
        numalign=placement_view(setup, state, uid),
    )


def time_text(seconds: float | None) -> str | None:
    """A time as Kubernetes writes it, such as 2030-01-31T08:00:00Z."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _without_nothing(**members: object) -> View:
    return {name: value for name, value in members.items() if value is not None and value != ""}


def _metadata(known: AgentPod, *, env: bool) -> PodMetadata:
    given, pod = known.record.metadata, known.pod
    annotations = given.annotations
    if annotations and not env:
        # Tools keep the whole manifest in theirs, each under a name of its own and some packed.
        ours = {name: annotations[name] for name in annotations if name.startswith(OWN_ANNOTATIONS)}
        annotations = ours or None
    created = time_text(known.created_at)
    owners = [
        answers.Owner(o.kind, o.name, o.apiVersion, o.uid, o.controller)
        for o in given.ownerReferences or ()
    ]
    return PodMetadata(
        pod.name, pod.namespace, pod.uid, created, given.labels, annotations, owners or None
    )


def spec_view(known: AgentPod, *, env: bool) -> View:
    """The spec as it was given, so that a client can compare it with its own."""
    spec = known.record.spec
    found: View = msgspec.to_builtins(spec)
    if not env:  # the values may be secrets
        _hide_values(found.get("containers"), spec.containers)
        _hide_values(found.get("initContainers"), spec.initContainers)
    return {**found, "restartPolicy": known.restart_policy}


def _hide_values(views: list[View] | None, records: list[ContainerRecord] | None) -> None:
    for view, record in zip(views or (), records or (), strict=True):
        if record.env:
            view["env"] = [{"name": variable.name} for variable in record.env]
        _hide_headers(view)


def _hide_headers(view: Any) -> None:  # noqa: ANN401 any part of a spec
    """Leaves out what probes and hooks send along, which may be a token."""
    if isinstance(view, dict):
        if "httpHeaders" in view:
            view["httpHeaders"] = [{"name": header["name"]} for header in view["httpHeaders"]]
        for part in view.values():
            _hide_headers(part)


# v1.PodStatus.


def status_view(setup: AgentSetup, known: AgentPod) -> PodStatus:
    found = PodStatus(
        known.phase.value,
        qos_class(known.pod, setup.host.settings).value,
        time_text(known.created_at),
        known.reason,
        known.message,
    )
    if was_refused(known):
        return found  # the kubelet says nothing of containers that were never made
    found.conditions = [*_conditions(known), *_told_condition(setup, known)]
    spec = known.record.spec
    records = (*(spec.initContainers or ()), *(spec.containers or ()))
    images = {record.name: record.image for record in records}
    inits, apps = (
        [_container_view(known, c, images.get(c.name, "")) for c in containers] or None
        for containers in (known.pod.init_containers, known.pod.containers)
    )
    found.init_container_statuses, found.container_statuses = inits, apps
    return found


def was_refused(known: AgentPod) -> bool:
    """Whether a pod was refused before any container of it began."""
    return (
        known.phase is Phase.FAILED
        and bool(known.reason)
        and all(status.started_at is None for status in known.containers.values())
    )


def _conditions(known: AgentPod) -> list[Condition]:
    initialized = known.phase is Phase.SUCCEEDED or all(
        _has_done_its_part(container, known.containers[container.name])
        for container in known.pod.init_containers
    )
    ready = not known.is_terminal and all(
        known.containers[c.name].is_ready for c in known.pod.in_order if not c.is_regular_init
    )
    created = time_text(known.created_at)
    return [
        Condition("PodScheduled", "True", last_transition_time=created),
        _condition("Initialized", initialized, "ContainersNotInitialized"),
        _condition("ContainersReady", ready, _unready_reason(known)),
        _condition("Ready", ready, _unready_reason(known)),
    ]


def _told_condition(setup: AgentSetup, known: AgentPod) -> list[Condition]:
    """Whether everything that the manifest asks for is carried out; left out if it is."""
    if not (lines := wishes.told(setup, known)):
        return []
    text = "; ".join(lines)
    return [Condition(AS_WRITTEN, "False", "FieldsNotCarriedOut", text[:CONDITION_CHARS_MAX])]


def _unready_reason(known: AgentPod) -> str:
    if known.phase is Phase.SUCCEEDED:
        return "PodCompleted"
    return "PodFailed" if known.phase is Phase.FAILED else "ContainersNotReady"


def _condition(name: str, holds: bool, reason: str) -> Condition:  # noqa: FBT001 - a fact in a row
    return Condition(name, "True") if holds else Condition(name, "False", reason)


def _has_done_its_part(container: Container, status: ContainerStatus) -> bool:
    if container.is_restartable:
        return status.is_started
    return status.state is RunState.EXITED and status.exit_code == 0


def _container_view(known: AgentPod, container: Container, image: str) -> answers.ContainerStatus:
    status = known.containers[container.name]
    is_running = status.state is RunState.RUNNING
    is_done = container.is_regular_init and _has_done_its_part(container, status)
    state = _run_view(known, container.name, status)
    found = answers.ContainerStatus(
        container.name,
        image,
        "",
        status.is_ready or is_done,
        status.is_started,
        status.restarts,
        state,
    )
    if status.state is not RunState.EXITED and status.exit_code is not None:
        last = _ended_view(known, container.name, status, status.restarts - 1)
        if is_running:  # the times are those of the run that goes on
            last = {key: last[key] for key in last if not key.endswith("At")}
        found.last_state = {"terminated": last}
    attempt = _last_attempt(status)
    if attempt is not None:
        found.container_id = status.id or _process_id(known, container.name, attempt)
    return found


def _last_attempt(status: ContainerStatus) -> int | None:
    """The number of the run that is going on, or of the last one; None before the first."""
    if status.state in {RunState.RUNNING, RunState.EXITED}:
        return status.restarts
    return status.restarts - 1 if status.restarts else None


def _process_id(known: AgentPod, name: str, attempt: int) -> str:
    return f"process://{known.pod.uid}/{name}/{attempt}"


def _run_view(known: AgentPod, name: str, status: ContainerStatus) -> View:
    match status.state:
        case RunState.RUNNING:
            return {"running": _without_nothing(startedAt=time_text(status.started_at))}
        case RunState.EXITED:
            return {"terminated": _ended_view(known, name, status, status.restarts)}
        case _:
            waiting = _without_nothing(reason=status.reason, message=status.message)
            return {"waiting": waiting}


def _ended_view(known: AgentPod, name: str, status: ContainerStatus, attempt: int) -> View:
    code = status.exit_code
    is_last = status.state is RunState.EXITED
    return {
        "exitCode": code,
        **_without_nothing(
            reason=status.reason if is_last else "Completed" if code == 0 else "Error",
            message=status.message if is_last else None,
            startedAt=time_text(status.started_at),
            finishedAt=time_text(status.finished_at),
            containerID=_ended_id(known, name, status, max(0, attempt)),
        ),
    }


def _ended_id(known: AgentPod, name: str, status: ContainerStatus, attempt: int) -> str:
    """What a run that has ended is called; a runtime's name is only known of the last run."""
    if not status.id:
        return _process_id(known, name, attempt)
    return "" if status.state is RunState.RUNNING else status.id


# Where it sits.


def placement_view(setup: AgentSetup, state: AgentState, uid: str) -> Placement:
    """What a pod holds, by container; nothing for one that has ended or was refused."""
    known = state.pods[uid]
    awaited = sorted(resource for _, resource in known.awaited)
    found = Placement(known.source, known.deleting, awaited, notes_of(setup, known), {})
    if uid in state.refusals:
        found.why = state.refusals[uid].why
    if uid not in state.host.pods:
        return found
    pod_cpus = state.host.cpu.pod_sets.get(uid)
    if pod_cpus is not None:
        found.pod_cpus = format_list(pod_cpus)
    if uid in state.host.memory.pod_blocks:
        found.pod_memory = memory_blocks(state.host.memory.pod_blocks[uid])
    found.containers = {
        container.name: _placed_view(setup, state, uid, container)
        for container in known.pod.in_order
    }
    return found


def notes_of(setup: AgentSetup, known: AgentPod) -> list[str]:
    """What of a pod is not carried out, one line each."""
    if not setup.runs_processes:
        return [*_policies_not_set(setup, known), *wishes.told(setup, known)]
    spec = known.record.spec
    records = (*(spec.initContainers or ()), *(spec.containers or ()))
    images = sorted({record.image for record in records if record.image})
    found = []
    if images:
        noun = "image" if len(images) == 1 else "images"
        found.append(f"{noun} {', '.join(images)} not used: the commands run on the host itself")
    for (container, resource), answer in sorted(known.allocations.items()):
        if lost := parts_for_containers(answer):
            found.append(
                f"{container}: of what the plugin of {resource} gives, a plain process does not "
                f"get {lost}; it sees the files of the host"
            )
    return [*found, *wishes.told(setup, known)]


def _policies_not_set(setup: AgentSetup, known: AgentPod) -> list[str]:
    """The memory policies that nobody sets, since the CRI has no member for them."""
    asked = [(c.name, mempolicy_of(known.record, c.name)) for c in known.pod.in_order]
    return [
        f"{name}: memory policy {policy} not set: {setup.without_mempolicy}; its memory still "
        "comes only from the NUMA nodes that it was given"
        for name, policy in asked
        if policy is not None and setup.without_mempolicy
    ]


def _placed_view(
    setup: AgentSetup, state: AgentState, uid: str, container: Container
) -> PlacedContainer:
    name = container.name
    host = state.host
    hint = host.hints.get(uid, {}).get(name)
    held = host.devices.entries.get(uid, {}).get(name, {})
    own = own_cpus(state, uid, container)
    devices = {resource: found.ids for resource, found in sorted(held.items())}
    if has_passed_on(state, uid, container):
        devices = {}
    found = placed(
        setup.host,
        host.devices,
        CorePlacement(
            name,
            hint or NO_HINT,
            own,
            tuple(host.memory.entries.get(uid, {}).get(name, ())),
            devices,
        ),
        sits_on(setup, state, uid, container),
    )
    view = container_placement(found, has_hint=hint is not None)
    return PlacedContainer(
        **{field: getattr(view, field) for field in view.__struct_fields__},
        pid=state.pods[uid].containers[name].pid,
    )


# How it was decided.


def decisions_view(
    recent: Sequence[Decision], refusals: Mapping[str, Refusal], uid: str | None, limit: int
) -> list[View]:
    """Decisions with their traces, newest first; then refusals from before the last start."""
    heard = {decision.note.pod.uid for decision in recent}
    before = [r for r in refusals.values() if r.uid not in heard]
    wanted = [d for d in recent if uid is None or d.note.pod.uid == uid]
    found = [decision_view(decision) for decision in reversed(wanted[-limit:])]
    found += [refusal_view(r) for r in reversed(before) if uid is None or r.uid == uid]
    return found[:limit]


def refusal_view(refusal: Refusal) -> View:
    """A refusal from before a restart, as a decision without its trace."""
    return {
        "time": refusal.at,
        "outcome": PodRejected.NAME,
        "pod": refusal.name,
        "namespace": refusal.namespace,
        "uid": refusal.uid,
        "reason": refusal.reason,
        "message": refusal.message,
        "seconds": 0.0,
        "trace": [],
        "why": refusal.why,
        "explanation": refusal.explanation,
    }


def decision_view(decision: Decision) -> View:
    """A remembered decision with its trace and, for a refusal, its explanation as plain values."""
    note, explained = decision.note, decision.explained
    return {
        "time": decision.time,
        "outcome": note.NAME,
        **values_of(note),
        "seconds": decision.seconds,
        "trace": trace_data(note.trace) if note.trace is not None else [],
        **({"why": explained.why} if explained is not None else {}),
        "explanation": explain_view.as_data(explained.explanation) if explained else None,
    }
