"""Commands that ``numalign run`` has in the foreground: answered, queued, and gone at their end.

A run is a pod like any other with three differences. It is answered when its process is in its
place, not when it is admitted. One that waits is decided about again when something is free; those
who wait are served strictly in the order in which they came, so that none starves. And nothing of
it is kept when it is over: whoever called it has heard how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from numalign.apps.agent.events import (
    Answer,
    CallerGone,
    Effect,
    Event,
    PodSubmitted,
    RefusalExplained,
    Tick,
    WatchCaller,
)
from numalign.apps.agent.model import (
    RUN_SOURCE,
    AgentPod,
    AgentSetup,
    AgentState,
    Run,
    RunState,
)
from numalign.apps.agent.steps import admission, deciding, lifecycle
from numalign.core.kubelet.admission.verdict import refusal, verdict_on

Next = tuple[AgentState, list[Effect]]

NOT_SUPPORTED: Final = "RunNotSupported"
ALREADY_RUNS: Final = "AlreadyRunning"
NOT_STARTED: Final = "StartError"
EXPLAIN_SECONDS_MAX: Final = 5.0  # then a refused run is answered without an explanation


def submitted(setup: AgentSetup, state: AgentState, event: PodSubmitted, run: Run) -> Next:
    """Somebody wants a command to run, or asks again what became of it."""
    if not setup.runs_processes:
        text = "this agent does not run processes; start it with --runtime process"
        return state, admission.refuse(event, NOT_SUPPORTED, text)
    known = state.pods.get(event.uid)
    is_retry = known is not None and known.waits_for_room and bool(event.preferences)
    if known is not None and known.run is not None and not is_retry:
        return _with_run(state, event.uid, replace(known.run, request=run.request)), []
    if (other := _command_of(state, event.uid, run)) is not None:
        text = (
            f"process {run.caller.pid} is the command of pod {other.pod.namespace}/"
            f"{other.pod.name} already; start it as a process of its own"
        )
        return state, admission.refuse(event, ALREADY_RUNS, text)
    if not run.ticket:
        run = replace(run, ticket=1 + max((r.ticket for r in _runs(state).values()), default=0))
    after, effects = _decided(setup, state, replace(event, run=run))
    watch: list[Effect] = [] if known else [WatchCaller(event.uid, run.caller)]
    return after, [*effects, *watch]


def _command_of(state: AgentState, uid: str, run: Run) -> AgentPod | None:
    """The other run whose command this very process is, as after exec of ``numalign run``."""
    others = (pod for key, pod in state.pods.items() if key != uid and pod.run is not None)
    return next((pod for pod in others if pod.run and pod.run.caller == run.caller), None)


def _decided(setup: AgentSetup, state: AgentState, event: PodSubmitted) -> Next:
    """The decision; one that waits stays where it is while a device plugin is asked."""
    others = {uid: pod for uid, pod in state.pods.items() if uid != event.uid}
    after, effects = admission.submitted(setup, replace(state, pods=others), event)
    return (after if event.uid in after.pods else state), effects


def caller_gone(setup: AgentSetup, state: AgentState, event: CallerGone) -> Next:
    """Nobody is left to become the command; what runs already ends by itself."""
    known = state.pods.get(event.uid)
    if known is None or known.run is None or known.deleting or any(known.alive()):
        return state, []
    return lifecycle.deleted(setup, state, event.uid, None)


def settled(setup: AgentSetup, before: AgentState, state: AgentState, event: Event) -> Next:
    """What an event means for runs: some may fit now, some have an answer, some are over."""
    gone = [
        Answer(run.request, uid, accepted=False, reason="Deleted", message="it was deleted")
        for uid, run in _runs(before).items()
        if run.request is not None and uid not in state.pods
    ]
    if not (runs := _runs(state)):
        return state, [*gone]
    now = event.now if isinstance(event, Tick) else None
    effects: list[Effect] = []
    if isinstance(event, RefusalExplained) and event.uid in runs:
        explained = replace(runs[event.uid], is_explained=True)
        state = _with_run(state, event.uid, explained)
    if now is not None or state.host is not before.host:
        at = getattr(event, "now", state.started_at)
        state, effects = _served(setup, state, at)
    for uid in _runs(state):
        state, more = _settled_one(setup, state, uid, now)
        effects += more
    return state, [*gone, *effects]


def _served(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """Admits those who wait, first come first served, up to the first that does not fit."""
    effects: list[Effect] = []
    while (head := deciding.first_waiting(state)) is not None and head.run is not None:
        uid = head.pod.uid
        host = deciding.host_of(setup, head.record, head.run)
        _, verdict = verdict_on(host, state.host, setup.totals, head.pod)
        if refusal(verdict) is not None:
            break
        event = PodSubmitted(uid, head.record, RUN_SOURCE, now, run=head.run)
        state, more = _decided(setup, state, event)
        effects += more
        if state.pods[uid].waits_for_room:
            break
    return state, effects


def _settled_one(setup: AgentSetup, state: AgentState, uid: str, now: float | None) -> Next:
    known = state.pods[uid]
    run = known.run
    assert run is not None, "only runs are settled here"
    is_late = now is not None and now - known.created_at > EXPLAIN_SECONDS_MAX
    if not (run.is_explained or is_late):
        return state, []
    answers = _answers(known, run)
    if answers:
        state = _with_run(state, uid, replace(run, request=None))
    if not known.is_undecided and not known.is_terminal and uid in state.refusals:
        refusals = {key: one for key, one in state.refusals.items() if key != uid}
        state = replace(state, refusals=refusals)  # it did not fit before, but does now
    if not known.is_terminal or known.deleting or any(known.alive()):
        return state, answers
    state, effects = lifecycle.deleted(setup, state, uid, None)
    return state, [*answers, *effects]


def _answers(known: AgentPod, run: Run) -> list[Effect]:
    """What the caller is told now, if there is something to tell."""
    uid = known.pod.uid
    if run.request is None:
        return []
    if known.is_undecided:
        return [Answer(run.request, uid, accepted=True, reason=known.reason, message=known.message)]
    [status] = known.containers.values()
    if status.state is RunState.RUNNING:
        return [Answer(run.request, uid, accepted=True)]
    if known.is_terminal or known.deleting:
        message = (known.message or status.message).removeprefix("Pod was rejected: ")
        reason = known.reason or NOT_STARTED
        return [Answer(run.request, uid, accepted=False, reason=reason, message=message)]
    return []


def watches(state: AgentState) -> list[Effect]:
    """After a restart: tell when those who wait are gone."""
    return [
        WatchCaller(uid, run.caller)
        for uid, run in _runs(state).items()
        if not any(state.pods[uid].alive())
    ]


def _runs(state: AgentState) -> Mapping[str, Run]:
    return {uid: pod.run for uid, pod in state.pods.items() if pod.run is not None}


def _with_run(state: AgentState, uid: str, run: Run) -> AgentState:
    return replace(state, pods={**state.pods, uid: replace(state.pods[uid], run=run)})
