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
    PutOff,
    Refusal,
    Successor,
    waiting,
    waiting_for_name,
    waiting_for_room,
)
from numalign.apps.agent.steps import (
    deciding,
    failures,
    host_changes,
    lifecycle,
    memory_policies,
    wishes,
)
from numalign.core.explain.causes import Case
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.decisions import Trace
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod
from numalign.core.views import explanation as explain_view
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import OwnerReference, PodRecord

Next = tuple[AgentState, list[Effect]]

ALREADY_EXISTS: Final = "AlreadyExists"
OUT_OF_PODS: Final = "OutOfpods"
REFUSALS_MAX: Final = 200  # whose explanations are kept
FILE: Final = "file:"  # how the source of a pod from a manifest begins
EXPLANATION_BYTES_MAX: Final = 64 * 1024  # of each


class _NeedsPreferenceError(Exception):
    def __init__(self, preference: Preference) -> None:
        super().__init__(preference.resource)
        self.preference = preference


def submitted(setup: AgentSetup, state: AgentState, event: PodSubmitted) -> Next:
    if is_void(state, event):
        return state, []
    waiting = state.put_off.get(event.uid)
    if waiting is not None and waiting.is_on_its_way:
        others = {uid: one for uid, one in state.put_off.items() if uid != event.uid}
        state = replace(state, put_off=others)
    return _decided(setup, state, event)


def is_void(state: AgentState, event: PodSubmitted) -> bool:
    """Whether the manifest of a pod that comes again was removed or changed meanwhile."""
    one = state.put_off.get(event.uid)
    wanted = one is not None and (one.record, one.source) == (event.record, event.source)
    return event.is_again and not wanted


def _decided(setup: AgentSetup, state: AgentState, event: PodSubmitted) -> Next:
    known = state.pods.get(event.uid)
    if known is not None and known.deleting:
        return _again(state, event, known)
    if known is not None:
        return _known(state, event, known)
    if text := _limit_reached(setup, state, event.record):
        return _refuse_for_now(state, event, OUT_OF_PODS, text)
    pod = core_pod(event.record, uid=event.uid)
    if (taken := pod_named(state, pod.namespace, pod.name)) is not None:
        return _refuse_for_now(state, event, ALREADY_EXISTS, _taken_text(pod, taken))
    if _predecessors(state, event.uid, event.record, event.source):
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
    before_it = host_changes.without_offline(state) if state.offline else state.host
    try:
        after, verdict = verdict_on(
            deciding_host, before_it, setup.totals, pod, preferred=preferred, trace=trace
        )
    except _NeedsPreferenceError as need:
        state, event = put_on_its_way(state, event, "")
        return state, [AskPreference(need.preference, event)]
    if state.offline:
        after = host_changes.with_offline(state, after)
    texts = refusal(verdict)
    if texts is None and (fault := memory_policies.fault(setup, after, event.record, pod)):
        return _reject_policy(setup, state, event, fault, after, pod)
    if texts is None:
        return _admit(setup, state, after, event, pod, trace)
    if texts[0] == OUT_OF_PODS and event.request is None and event.run is None:
        text = f"found {len(state.host.pods)} pods, which is the limit of this host (podsMax)"
        return _refuse_for_now(state, event, OUT_OF_PODS, f"{text}; it waits for one to end")
    case = Case(deciding_host, before_it, after, setup.totals, pod, verdict, trace)
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


def _new(event: PodSubmitted, pod: Pod, reason: str = "") -> AgentPod:
    return AgentPod(
        event.record,
        pod,
        event.source,
        event.now,
        containers={c.name: ContainerStatus(reason=reason) for c in pod.in_order},
        record_bytes=len(msgspec.json.encode(event.record)),
        run=event.run,
        asker=event.asker,
    )


def _known(state: AgentState, event: PodSubmitted, known: AgentPod) -> Next:
    """One that is there already; its manifest may have moved to a file of another name."""
    answer = _answer(event.request, known, event.uid)
    if event.request is not None or event.source == known.source:
        return state, answer
    moved = replace(known, source=event.source)
    state = replace(state, pods={**state.pods, event.uid: moved})
    return state, [Save(state), *answer]


def _limit_reached(setup: AgentSetup, state: AgentState, record: PodRecord) -> str:
    """Why there is no room for another manifest: a start reads no more than it may."""
    if len(state.pods) >= setup.pods_known_max:
        text = f"found {len(state.pods)} pods, expected fewer than {setup.pods_known_max}"
        return f"{text}; delete some that have ended"
    size = sum(known.record_bytes for known in state.pods.values())
    size += len(msgspec.json.encode(record))
    if size > setup.records_bytes_max:
        text = f"found {size} bytes of manifests, expected at most {setup.records_bytes_max}"
        return f"{text}; delete pods, or make them shorter"
    return ""


def _without_decision(state: AgentState, event: PodSubmitted, new: AgentPod) -> Next:
    state = replace(state, pods={**state.pods, event.uid: new})
    return state, [Save(state), *_answer_new(event, new)]


# One namespace and name, one pod.


def pod_named(state: AgentState, namespace: str, name: str) -> AgentPod | None:
    """The pod of this name that is not on its way out."""
    key = namespace, name
    return next((p for p in state.pods.values() if p.key == key and not p.deleting), None)


def _taken_text(pod: Pod, taken: AgentPod) -> str:
    owner = taken.record.metadata.controller
    of = f", one of {owner.kind} {owner.name}" if owner else ""
    return (
        f"pod {pod.namespace}/{pod.name} exists already{of} (from {taken.source}); delete it "
        "first, or give this one another name"
    )


def put_on_its_way(
    state: AgentState, event: PodSubmitted, why: str
) -> tuple[AgentState, PodSubmitted]:
    """Remembers that a pod will come again by its event, which a deletion meanwhile makes void.

    Who waits for an answer is not put off: without one nobody takes the pod for made.
    """
    if event.request is not None or event.run is not None:
        return state, event
    waiting = PutOff(event.record, event.source, why, event.asker, is_on_its_way=True)
    state = replace(state, put_off={**state.put_off, event.uid: waiting})
    return state, replace(event, is_again=True)


def _refuse_for_now(state: AgentState, event: PodSubmitted, reason: str, text: str) -> Next:
    """No to who asks; the pod of a manifest is told of once and taken up when it can be."""
    if event.request is not None:
        return state, refuse(event, reason, text)
    was = state.put_off.get(event.uid)
    put_off = {**state.put_off, event.uid: PutOff(event.record, event.source, text, event.asker)}
    state = replace(state, put_off=put_off)
    if was is not None:
        return state, []
    pod = core_pod(event.record, uid=event.uid)
    return state, [Publish(notes.PodRejected(pod, reason, text))]


def _predecessors(state: AgentState, uid: str, record: PodRecord, source: str) -> bool:
    """Whether pods that it replaces still hold what it may need: of its name, owner or file."""
    name, owner = record.metadata.name, record.metadata.controller
    namespace = record.metadata.namespace or "default"
    return any(
        known.deleting
        and other != uid
        and (
            (source.startswith(FILE) and known.source == source)
            or (known.pod.namespace == namespace and known.pod.name == name)
            or (known.pod.namespace == namespace and owner and _owner_of(known) == owner)
        )
        for other, known in state.pods.items()
    )


def _owner_of(known: AgentPod) -> OwnerReference | None:
    return known.record.metadata.controller


def _again(state: AgentState, event: PodSubmitted, known: AgentPod) -> Next:
    """Asked for while it ends, as by a file that was changed and changed back."""
    anew = replace(known, successor=Successor(event.record, event.source, event.asker))
    state = replace(state, pods={**state.pods, event.uid: anew})
    return state, [Save(state), *_answer(event.request, anew, event.uid)]


def retry_deferred(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """Decides about pods that waited for a plugin or a name, where that is possible by now."""
    effects: list[Effect] = []
    for uid, known in list(state.pods.items()):
        if (known.waits_for_plugin and not _plugins_awaited(setup, state, known.pod, now)) or (
            known.waits_for_name and not _predecessors(state, uid, known.record, known.source)
        ):
            state, more = failures.for_pod(_decide_anew, setup, state, uid, now)
            effects += more
    state, more = _retry_put_off(setup, state, now)
    return state, effects + more


def _retry_put_off(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """Takes up pods of manifests for which there is room, or whose name is free, by now."""
    effects: list[Effect] = []
    limit = min(setup.pods_known_max, setup.totals.get("pods", setup.pods_known_max))
    for uid, one in list(state.put_off.items()):
        if one.is_on_its_way:
            continue
        if len(state.host.pods) >= limit or _limit_reached(setup, state, one.record):
            break
        metadata = one.record.metadata
        if pod_named(state, metadata.namespace or "default", metadata.name) is None:
            others = {key: other for key, other in state.put_off.items() if key != uid}
            event = PodSubmitted(uid, one.record, one.source, now, asker=one.asker)
            state, more = submitted(setup, replace(state, put_off=others), event)
            effects += more
    return state, effects


def _decide_anew(setup: AgentSetup, state: AgentState, uid: str, now: float) -> Next:
    known = state.pods[uid]
    others = {key: pod for key, pod in state.pods.items() if key != uid}
    event = PodSubmitted(uid, known.record, known.source, now, run=known.run, asker=known.asker)
    return submitted(setup, replace(state, pods=others), event)


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
    new = replace(
        _new(event, pod, reason="PodInitializing"),
        awaited=frozenset((e.container, e.resource) for e in wanted),
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
    text = f"Pod was rejected: {message}"
    new = replace(_new(event, pod), phase=Phase.FAILED, reason=reason, message=text)
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
