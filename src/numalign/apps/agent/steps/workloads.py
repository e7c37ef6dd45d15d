"""Pods to be there as written: new ones come, changed ones are replaced, unwanted ones go."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from numalign.apps.agent.events import Answer, Effect, PodsApplied, PodSubmitted, Wanted
from numalign.apps.agent.model import AgentPod, AgentSetup, AgentState, Phase
from numalign.apps.agent.steps import admission, lifecycle
from numalign.wire.pods.records import PodRecord

Next = tuple[AgentState, list[Effect]]

REPLACED: Final = "replaced"
UNCHANGED: Final = "unchanged"
_RUN_ONCE: Final = frozenset({"Job", "CronJob"})


def applied(setup: AgentSetup, state: AgentState, event: PodsApplied) -> Next:
    """What is not wanted goes first: what it holds may be needed."""
    state, removed, effects = _without_unwanted(setup, state, event)
    for wanted in event.pods:
        state, more = _apply(setup, state, event, wanted)
        effects += more
    if event.request is not None:
        effects.append(Answer(event.request, "", accepted=True, removed=removed))
    return state, effects


def _without_unwanted(
    setup: AgentSetup, state: AgentState, event: PodsApplied
) -> tuple[AgentState, tuple[AgentPod, ...], list[Effect]]:
    names = {wanted.record.metadata.name for wanted in event.pods}
    unwanted = [
        known
        for known in state.pods.values()
        if event.owner is not None
        and known.pod.namespace == event.namespace
        and _owner(known.record) == event.owner
        and known.pod.name not in names
        and (known.successor is not None or not known.deleting)
    ]
    effects: list[Effect] = []
    for known in unwanted:
        state, more = lifecycle.deleted(setup, state, known.pod.uid, None)
        effects += more
    return state, tuple(unwanted), effects


def _apply(setup: AgentSetup, state: AgentState, event: PodsApplied, wanted: Wanted) -> Next:
    record, effects = wanted.record, list[Effect]()
    namespace = record.metadata.namespace or "default"
    old = admission.pod_named(state, namespace, record.metadata.name)
    # One of another owner is not ours to replace: then the submitted pod is refused.
    is_ours = old is not None and _owner(old.record) == _owner(record)
    if old is not None and is_ours:
        if _is_as_written(old, record) and old.asker == event.asker:
            return state, _unchanged(wanted, old)
        state, effects = lifecycle.deleted(setup, state, old.pod.uid, None)
    new = PodSubmitted(
        wanted.uid, record, event.source, event.now, wanted.request, asker=event.asker
    )
    state, more = admission.submitted(setup, state, new)
    result = REPLACED if is_ours else ""
    told = [replace(e, result=result) if isinstance(e, Answer) else e for e in more]
    return state, [*effects, *told]


def _unchanged(wanted: Wanted, old: AgentPod) -> list[Effect]:
    if wanted.request is None:
        return []
    return [Answer(wanted.request, old.pod.uid, accepted=True, result=UNCHANGED)]


def _is_as_written(known: AgentPod, record: PodRecord) -> bool:
    """Whether a pod that runs or will run is just what is asked for; a Job's may have ended."""
    owner = record.metadata.controller
    is_done = known.phase is Phase.SUCCEEDED and owner is not None and owner.kind in _RUN_ONCE
    if known.is_terminal and not is_done:
        return False
    uid = record.metadata.uid
    return uid in {"", known.pod.uid} and _content(known.record) == _content(record)


def _content(record: PodRecord) -> PodRecord:
    """All that a user can write, without what the agent gives."""
    metadata = record.metadata
    plain = msgspec.structs.replace(metadata, uid="", namespace="", creationTimestamp=None)
    return msgspec.structs.replace(record, metadata=plain)


def _owner(record: PodRecord) -> tuple[str, str] | None:
    found = record.metadata.controller
    return None if found is None else (found.kind, found.name)
