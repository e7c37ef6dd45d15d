"""Deciding about a pod: admitted, refused, or put off until its device plugins are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from numalign.apps.agent import notes
from numalign.apps.agent.events import (
    AllocateDevices,
    Answer,
    AskPreference,
    Effect,
    Explain,
    PodSubmitted,
    Preference,
    Publish,
    RefusalExplained,
    Save,
    SaveRefusals,
)
from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    DeviceSource,
    Phase,
    Refusal,
    waiting,
    waiting_for_name,
    waiting_for_room,
)
from numalign.apps.agent.steps import deciding, lifecycle, memory_policies, wishes
from numalign.core.explain.causes import Case
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.decisions import Trace
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod
from numalign.core.views import explanation as explain_view
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import PodRecord

Next = tuple[AgentState, list[Effect]]

ALREADY_EXISTS: Final = "AlreadyExists"
REFUSALS_MAX: Final = 200  # whose explanations are kept
EXPLANATION_BYTES_MAX: Final = 64 * 1024  # of each


class _NeedsPreferenceError(Exception):
    def __init__(self, preference: Preference) -> None:
        super().__init__(preference.resource)
        self.preference = preference


def submitted(setup: AgentSetup, state: AgentState, event: PodSubmitted) -> Next:
    known = state.pods.get(event.uid)
    if known is not None and known.deleting:
        return _again(state, event, known)
    if known is not None:
        return state, _answer(event.request, known, event.uid)
    if len(state.pods) >= setup.pods_known_max:
        text = f"found {len(state.pods)} pods, expected fewer than {setup.pods_known_max}"
        return state, refuse(event, "OutOfpods", f"{text}; delete some that have ended")
    pod = core_pod(event.record, uid=event.uid)
    if (taken := pod_named(state, pod.namespace, pod.name)) is not None:
        return state, _refuse_taken(event, pod, taken)
    if _predecessors(state, event.uid, event.record):
        new = waiting_for_name(_new(event, pod))
        return _without_decision(state, event, new)
    if faults := wishes.refusals(setup, event.record, event.asker):
        return _refuse_wishes(state, event, pod, "; ".join(faults))
    missing = _plugins_awaited(setup, state, pod, event.now)
    if missing:
        return _defer(state, event, pod, missing)
    deciding_host = deciding.host_of(setup, event.record, event.run)
    waits = event.run is not None and event.run.waits
    if waits and not deciding.may_fit(setup, state, deciding_host, pod):
        waits = False  # for ever
    if event.run is not None and waits and (before := deciding.is_behind(state, event.run)):
        text = f"it waits behind {before} other{'s' if before > 1 else ''} that came before it"
        return _without_decision(state, event, waiting_for_room(_new(event, pod), text))

    def preferred(
        resource: str, offered: tuple[str, ...], must: tuple[str, ...], count: int
    ) -> tuple[str, ...]:
        preference = Preference(resource, offered, must, count)
        if preference not in event.preferences:
            raise _NeedsPreferenceError(preference)
        return event.preferences[preference]

    trace = Trace()
    try:
        after, verdict = verdict_on(
            deciding_host, state.host, setup.totals, pod, preferred=preferred, trace=trace
        )
    except _NeedsPreferenceError as need:
        return state, [AskPreference(need.preference, event)]
    texts = refusal(verdict)
    if texts is None and (fault := memory_policies.fault(setup, after, event.record, pod)):
        return _reject_policy(setup, state, event, fault, after, pod)
    if texts is None:
        return _admit(setup, state, after, event, pod, trace)
    case = Case(deciding_host, state.host, after, setup.totals, pod, verdict, trace)
    if event.run is not None:
        event = replace(event, run=replace(event.run, is_explained=False))
    if waits:
        new = waiting_for_room(_new(event, pod), f"it does not fit yet: {texts[0]}: {texts[1]}")
        state, effects = _without_decision(state, event, new)
        return state, [*effects, Explain(case)]
    return _reject(setup, state, event, texts, case)


def _refuse_wishes(state: AgentState, event: PodSubmitted, pod: Pod, text: str) -> Next:
    """Refuses a pod for what its containers would not be given, before anything is decided."""
    message = f"Pod was rejected: {text}"
    failed = replace(
        _new(event, pod), phase=Phase.FAILED, reason=wishes.NOT_SUPPORTED, message=message
    )
    state = replace(state, pods={**state.pods, event.uid: failed})
    note = Publish(notes.PodRejected(pod, wishes.NOT_SUPPORTED, text))
    return state, [Save(state), *refuse(event, wishes.NOT_SUPPORTED, text), note]


def _plugins_awaited(setup: AgentSetup, state: AgentState, pod: Pod, now: float) -> list[str]:
    """Resources of the pod whose plugin was there before a restart and is not back yet."""
    if now - state.started_at >= setup.plugin_grace_seconds:
        return []
    known = state.host.devices.resources
    wanted = {name for container in pod.in_order for name in container.limits}
    return sorted(name for name in wanted if name in known and name not in state.sources)


def _defer(state: AgentState, event: PodSubmitted, pod: Pod, missing: Sequence[str]) -> Next:
    """Keeps a pod without a decision until its device plugin is back, or long enough.

    One that has devices already, by a state file that somebody else left, keeps all that it has.
    """
    new = waiting(_new(event, pod), missing)
    if event.uid in state.host.devices.entries:
        active = {**state.host.pods, event.uid: pod}
        state = replace(state, host=replace(state.host, pods=active))
    state, effects = _without_decision(state, event, new)
    return state, [*effects, Publish(notes.PodDeferred(pod, tuple(missing)))]


def _new(event: PodSubmitted, pod: Pod) -> AgentPod:
    containers = {c.name: ContainerStatus() for c in pod.in_order}
    return AgentPod(
        event.record,
        pod,
        event.source,
        event.now,
        containers=containers,
        run=event.run,
        asker=event.asker,
    )


def _without_decision(state: AgentState, event: PodSubmitted, new: AgentPod) -> Next:
    state = replace(state, pods={**state.pods, event.uid: new})
    return state, [Save(state), *_answer_new(event, new)]


# One namespace and name, one pod.


def pod_named(state: AgentState, namespace: str, name: str) -> AgentPod | None:
    """The pod of this name that is not on its way out."""
    key = namespace, name
    return next((p for p in state.pods.values() if p.key == key and not p.deleting), None)


def _refuse_taken(event: PodSubmitted, pod: Pod, taken: AgentPod) -> list[Effect]:
    owner = taken.record.metadata.controller
    of = f", one of {owner.kind} {owner.name}" if owner else ""
    text = (
        f"pod {pod.namespace}/{pod.name} exists already{of} (from {taken.source}); delete it "
        "first, or give this one another name"
    )
    if event.request is not None:
        return refuse(event, ALREADY_EXISTS, text)
    return [Publish(notes.PodRejected(pod, ALREADY_EXISTS, text))]


def _predecessors(state: AgentState, uid: str, record: PodRecord) -> bool:
    """Whether pods that this one replaces still hold what it may need: of its name or owner."""
    name, owner = record.metadata.name, record.metadata.controller
    namespace = record.metadata.namespace or "default"
    return any(
        known.deleting
        and other != uid
        and known.pod.namespace == namespace
        and (known.pod.name == name or (owner and known.record.metadata.controller == owner))
        for other, known in state.pods.items()
    )


def _again(state: AgentState, event: PodSubmitted, known: AgentPod) -> Next:
    """Asked for while it ends, as by a file that was changed and changed back."""
    pod = core_pod(event.record, uid=event.uid)
    anew = replace(
        known, record=event.record, pod=pod, source=event.source, again=True, asker=event.asker
    )
    state = replace(state, pods={**state.pods, event.uid: anew})
    return state, [Save(state), *_answer(event.request, anew, event.uid)]


def retry_deferred(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """Decides about pods that waited for a plugin or a name, where that is possible by now."""
    effects: list[Effect] = []
    for uid, known in list(state.pods.items()):
        if (known.waits_for_plugin and not _plugins_awaited(setup, state, known.pod, now)) or (
            known.waits_for_name and not _predecessors(state, uid, known.record)
        ):
            others = {key: pod for key, pod in state.pods.items() if key != uid}
            event = PodSubmitted(
                uid, known.record, known.source, now, run=known.run, asker=known.asker
            )
            state, more = submitted(setup, replace(state, pods=others), event)
            effects += more
    return state, effects


def _admit(
    setup: AgentSetup,
    state: AgentState,
    after: HostState,
    event: PodSubmitted,
    pod: Pod,
    trace: Trace,
) -> Next:
    wanted = [
        AllocateDevices(pod.uid, container, resource, held.ids)
        for container, resources in after.devices.entries.get(pod.uid, {}).items()
        for resource, held in resources.items()
        if state.sources.get(resource, DeviceSource(is_plugin=False)).is_plugin
    ]
    new = AgentPod(
        event.record,
        pod,
        event.source,
        event.now,
        containers={c.name: ContainerStatus(reason="PodInitializing") for c in pod.in_order},
        awaited=frozenset((e.container, e.resource) for e in wanted),
        run=event.run,
        asker=event.asker,
    )
    state = replace(state, host=after, pods={**state.pods, pod.uid: new})
    effects: list[Effect] = [
        Save(state),
        *_answer_new(event, new),
        Publish(notes.PodAdmitted(pod, trace)),
        *memory_policies.not_set(setup, event.record, pod),
        *wishes.tell(setup, new),
        *wanted,
    ]
    if wanted:
        return state, effects
    state, more = lifecycle.start_due(setup, state, pod.uid, event.now)
    return state, effects + more


def _reject(
    setup: AgentSetup,
    state: AgentState,
    event: PodSubmitted,
    texts: tuple[str, str],
    case: Case,
) -> Next:
    state, effects = _refused(setup, state, event, texts, case.after, case.pod, case.trace)
    return state, [*effects, Explain(case)]


def _reject_policy(
    setup: AgentSetup, state: AgentState, event: PodSubmitted, text: str, after: HostState, pod: Pod
) -> Next:
    """Refuses a pod that fits but whose memory policy cannot be carried out there."""
    texts = memory_policies.REASON, text
    return _refused(setup, state, event, texts, host.ended(after, pod.uid), pod, None)


def _refused(
    setup: AgentSetup,
    state: AgentState,
    event: PodSubmitted,
    texts: tuple[str, str],
    after: HostState,
    pod: Pod,
    trace: Trace | None,
) -> Next:
    reason, message = texts
    new = AgentPod(
        event.record,
        pod,
        event.source,
        event.now,
        phase=Phase.FAILED,
        reason=reason,
        message=f"Pod was rejected: {message}",
        containers={c.name: ContainerStatus() for c in pod.in_order},
        run=event.run,
        asker=event.asker,
    )
    state = replace(
        state, host=host.cleaned(setup.host, after), pods={**state.pods, event.uid: new}
    )
    note = notes.PodRejected(pod, reason, message, trace=trace)
    answer = [] if event.run else refuse(event, reason, message)
    return state, [Save(state), *answer, Publish(note)]


def explained(state: AgentState, event: RefusalExplained) -> Next:
    """It is known by now why a pod was refused: that is told, and kept for after a restart."""
    known = state.pods.get(event.uid)
    if known is None:
        return state, []
    found = event.explanation
    refusal = Refusal(
        event.uid,
        known.created_at,
        *known.key,
        found.reason,
        found.message,
        found.sentence,
        _kept(explain_view.as_data(found)),
    )
    others = {uid: r for uid, r in state.refusals.items() if uid in state.pods and uid != event.uid}
    refusals = dict([*others.items(), (event.uid, refusal)][-REFUSALS_MAX:])
    state = replace(state, refusals=refusals)
    note = notes.RefusalExplained(known.pod, found.sentence, found)
    return state, [Publish(note), SaveRefusals(refusals)]


def _kept(explanation: dict[str, Any]) -> dict[str, Any] | None:
    """As much of an explanation as may be kept: without its longest part, or nothing."""
    for found in (explanation, {**explanation, "hints": None}):
        if len(msgspec.json.encode(found)) <= EXPLANATION_BYTES_MAX:
            return found
    return None


def refuse(event: PodSubmitted, reason: str, message: str) -> list[Effect]:
    """The answer to somebody whose pod is not accepted."""
    if event.request is None:
        return []
    return [Answer(event.request, event.uid, accepted=False, reason=reason, message=message)]


def _answer_new(event: PodSubmitted, new: AgentPod) -> list[Effect]:
    """The answer about a new pod; a run's caller hears when there is more to tell (``runs``)."""
    return [] if event.run else _answer(event.request, new, event.uid)


def _answer(request: int | None, pod: AgentPod, uid: str) -> list[Effect]:
    if request is None:
        return []
    accepted = pod.phase is not Phase.FAILED
    return [Answer(request, uid, accepted, pod.reason, pod.message)]
