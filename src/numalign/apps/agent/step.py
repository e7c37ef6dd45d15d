"""The agent's decisions: what it becomes after an event, and what must then be done, in order.

State is saved before anything that follows from it: a crash in between must not leave a running
container on CPUs that the files call free. The order of the effects is

    save, move what must move, then answers, starts, stops and notes as the events came

and the driver keeps to it. Several events may be decided together: they are saved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from numalign.apps.agent import events, notes
from numalign.apps.agent.model import AgentSetup, AgentState, Run
from numalign.apps.agent.steps import (
    admission,
    devices,
    failures,
    host_changes,
    lifecycle,
    placement,
    probes,
    runs,
    workloads,
)
from numalign.core.errors import unexpected
from numalign.core.kubelet import state_checks

Next = tuple[AgentState, list[events.Effect]]
RUNS = "runs"  # whose fault it is, where it is that of no event


def step(setup: AgentSetup, state: AgentState, *happened: events.Event) -> Next:
    """What the agent becomes, and what must now be done, in that order."""
    after, effects = state, list[events.Effect]()
    for event in happened:
        after, more = _decide_or_fail(setup, after, event)
        effects += more
    return settle(setup, state, after, effects)


def _decide_or_fail(setup: AgentSetup, state: AgentState, event: events.Event) -> Next:
    try:
        after, effects = decide(setup, state, event)
    except Exception as error:  # the object fails, never the agent
        return failures.fail_event(setup, state, event, error)
    after = failures.without_fault(after, type(event).__name__)
    try:
        settled, about_runs = runs.settled(setup, state, after, event)
    except Exception as error:  # one odd run must not stop all else that happens
        return failures.with_fault(after, RUNS, unexpected(error)), effects
    return failures.without_fault(settled, RUNS), [*effects, *about_runs]


def settle(
    setup: AgentSetup,
    before: AgentState | None,
    after: AgentState,
    effects: Sequence[events.Effect],
) -> Next:
    """Puts the effects of decisions in order: saved once and first, then moves, then the rest.

    Nothing is saved, and nothing is done, if the decisions have broken a conservation law.
    """
    rest = [effect for effect in effects if not isinstance(effect, events.Save)]
    is_saved = len(rest) < len(effects)
    if is_saved and (breach := next(state_checks.law_breaches(setup.host, after.host), "")):
        return _halt(before or after, breach, rest)
    saves: list[events.Effect] = [events.Save(after)] if is_saved else []
    moves = placement.moves(setup, before, after)
    return after, [*saves, *moves, *placement.placed(setup, after, rest)]


def _halt(state: AgentState, breach: str, effects: Sequence[events.Effect]) -> Next:
    """Keeps the last state that was right, and decides nothing more."""
    problem = (
        f"stopped deciding: {breach}. The state on disk is the last one that was right. Keep it "
        "for a bug report, and restart the agent; containers go on running."
    )
    asked = [effect for effect in effects if isinstance(effect, events.Answer)]
    answers = [replace(a, accepted=False, reason="AgentHalted", message=problem) for a in asked]
    return replace(state, halted=problem), [*answers, events.Publish(notes.AgentHalted(problem))]


def not_saved(
    setup: AgentSetup, state: AgentState, happened: Sequence[events.Event], error: str
) -> Next:
    """What to do about events whose outcome could not be saved.

    What only gives something back is done all the same: that is how a full disk gets free. The
    files then say that a pod holds what it no longer does, which does no harm. Of the rest nothing
    is decided: who waits is told, and what merely happened is handed in again later.
    """
    after, freeing, effects = state, list[events.Effect](), list[events.Effect]()
    for event in happened:
        if _only_frees(after, event):
            after, more = _freed(setup, after, event)
            freeing += more
        elif answers := failures.answer_all(event, "StateNotSaved", error):
            effects += answers
        else:
            after, again = _again(after, event, error)
            effects += [events.Redeliver(one, setup.save_retry_seconds) for one in again]
    if not freeing:
        return after, effects
    after, done = settle(setup, state, after, freeing)
    done = [effect for effect in done if not isinstance(effect, events.Save)]
    later = events.Redeliver(events.SaveDue(), setup.save_retry_seconds)
    return after, [*done, *effects, later]


def _again(
    state: AgentState, event: events.Event, error: str
) -> tuple[AgentState, list[events.Event]]:
    """What is to be handed in again of an event that nobody waits for."""
    match event:
        case events.Tick() | events.RepairDue():
            return state, []  # these come by themselves, and must not become more and more
        case events.PodSubmitted():
            if admission.is_void(state, event):
                return state, []
            state, event = admission.put_on_its_way(state, event, error)
            return state, [event]
        case _:
            return state, [event]


def _only_frees(state: AgentState, event: events.Event) -> bool:
    match event:
        case events.PodDeleted():
            return True
        case events.ContainerExited(uid):
            known = state.pods.get(uid)
            return known is None or known.deleting
        case _:
            return False


def _freed(setup: AgentSetup, state: AgentState, event: events.Event) -> Next:
    """The same as ``decide``, but nobody who waits for what becomes free is decided about."""
    match event:
        case events.PodDeleted(uid, _, request):
            return lifecycle.deleted(setup, state, uid, request)
        case events.ContainerExited():
            return lifecycle.exited(setup, state, event)
        case _:
            return state, []


def decide(setup: AgentSetup, state: AgentState, event: events.Event) -> Next:  # noqa: PLR0912 - one table
    """What one event leads to; the effects are not in their final order yet (see ``settle``)."""
    if state.halted:
        return state, failures.answer_all(event, "AgentHalted", state.halted)
    match event:
        case events.PodSubmitted(run=Run() as run):
            return runs.submitted(setup, state, event, run)
        case events.PodSubmitted():
            return admission.submitted(setup, state, event)
        case events.CallerGone():
            return runs.caller_gone(setup, state, event)
        case events.PodsApplied():
            return workloads.applied(setup, state, event)
        case events.PodDeleted(uid, _, request):
            return lifecycle.deleted(setup, state, uid, request)
        case events.DevicesReported():
            return devices.reported(setup, state, event)
        case events.DevicesGone(resource, _):
            return devices.gone(state, resource)
        case events.DevicesAllocated():
            return devices.allocated(setup, state, event)
        case events.DevicesRefused():
            return devices.refused(setup, state, event)
        case events.DevicesPrestarted():
            return devices.prestarted(setup, state, event)
        case events.ContainerStarted():
            return lifecycle.started(setup, state, event)
        case events.ContainerExited():
            state, effects = lifecycle.exited(setup, state, event)
            # Somebody may have waited for just this pod to be gone.
            state, more = admission.retry_deferred(setup, state, event.now)
            return state, effects + more
        case events.ContainerPostponed():
            return lifecycle.postponed(setup, state, event)
        case events.ProbeAnswered():
            return probes.answered(setup, state, event)
        case events.PostStartEnded():
            return probes.post_start_ended(setup, state, event)
        case events.RefusalExplained():
            return admission.explained(state, event)
        case events.RepairDue():
            return state, _repairs(setup, state)
        case events.CleanUpDue(uid):
            return state, lifecycle.clean_up(state, uid)
        case events.StopDue(uid, container):
            return state, lifecycle.stop_again(state, uid, container)
        case events.SaveDue():
            return state, [events.Save(state)]
        case events.CpusOnline():
            return host_changes.online_changed(setup, state, event)
        case events.ClockMoved():
            return host_changes.clock_moved(state, event)
        case events.DriftRepaired(found):
            return state, [events.Publish(notes.DriftRepaired(text)) for text in found]
        case events.SourcesReady():
            return lifecycle.sources_ready(setup, state, event)
        case events.Tick(now):
            state, effects = admission.retry_deferred(setup, state, now)
            state, more = lifecycle.start_all_due(setup, state, now)
            state, ended = lifecycle.end_overdue(setup, state, now)
            state, asked = probes.ask_due(setup, state, now)
            return state, [*effects, *more, *ended, *asked]
        case _:
            assert_never(event)


def _repairs(setup: AgentSetup, state: AgentState) -> list[events.Effect]:
    """Everything that somebody may have changed behind our back, or that was refused before."""
    helpers = placement.helper_cpus(setup, state)
    return [
        *([events.PinHelpers(helpers)] if helpers else []),
        events.SetQosWeights(placement.qos_weights(setup, state)),
        events.RepairDrift(placement.running_pins(setup, state), state.pods),
    ]
