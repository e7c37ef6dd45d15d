"""From admission to the end: which container starts when, what an exit means, what moves.

Init containers run one after the other; one with restartPolicy Always (a sidecar) only has to be
running before the next starts, and runs until the app containers have ended. A container that is to
run again waits longer after each failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from numalign.apps.agent import notes
from numalign.apps.agent.events import (
    Answer,
    ContainerExited,
    ContainerPostponed,
    ContainerStarted,
    DevicesPrestarted,
    Effect,
    ForgetPod,
    PrestartDevices,
    Publish,
    ReleasePod,
    Save,
    SourcesReady,
    StartContainer,
    StopContainer,
)
from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    Phase,
    RunState,
    Successor,
    placed_cpus,
    placed_mempolicy,
    placed_nodes,
    waiting_for_name,
)
from numalign.apps.agent.steps import failures, hooks
from numalign.core.kubelet import host
from numalign.core.kubelet.devices.plugin_answer import merged
from numalign.core.pod import Container
from numalign.wire.pods.manifests import core_pod

Next = tuple[AgentState, list[Effect]]

PULL_FAILED: Final = "ErrImagePull"
PULL_WAITS: Final = "ImagePullBackOff"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
NEVER_RAN_CODE: Final = 128  # as for a command that cannot be started


def start_due(setup: AgentSetup, state: AgentState, uid: str, now: float) -> Next:
    known = state.pods[uid]
    if known.is_terminal or known.deleting or known.awaited or known.is_undecided:
        return state, []
    if uid not in state.host.pods:
        return state, []
    effects: list[Effect] = []
    for container in _due(known, now):
        state, start = _starting(setup, state, uid, container)
        effects += start
    return state, effects


def _due(known: AgentPod, now: float) -> list[Container]:
    for container in known.pod.init_containers:
        status = known.containers[container.name]
        if status.state is RunState.WAITING:
            return [container] if _may_start(status, now) else []
        if status.state is RunState.STARTING:
            return []
        if status.state is RunState.RUNNING and not container.is_restartable:
            return []
        if status.state is RunState.RUNNING and not status.is_started:
            return []  # a sidecar whose startup probe or hook is to let the next one start
    due = []
    for container in known.pod.in_order:
        status = known.containers[container.name]
        if status.is_hooked and status.state is RunState.RUNNING:
            break  # as the kubelet: the next one starts when the hook has ended
        if status.state is RunState.WAITING and _may_start(status, now):
            due.append(container)
            if hooks.has_post_start(known, container.name):
                break
    return due


def _may_start(status: ContainerStatus, now: float) -> bool:
    return status.retry_at is None or status.retry_at <= now


def _starting(setup: AgentSetup, state: AgentState, uid: str, container: Container) -> Next:
    state = replace(state, host=host.container_started(state.host, uid, container.name))
    status = replace(
        state.pods[uid].containers[container.name],
        state=RunState.STARTING,
        reason="ContainerCreating",
        retry_at=None,
    )
    state = with_status(state, uid, container.name, status)
    devices = tuple(_told_before_starts(state, uid, container.name))
    if devices:
        effect: Effect = PrestartDevices(uid, container.name, status.restarts, devices)
    else:
        effect = _start(setup, state, uid, container)
    # On disk first: that it was started, and that finished init containers gave memory back.
    return state, [Save(state), effect]


def _told_before_starts(
    state: AgentState, uid: str, name: str
) -> Iterable[tuple[str, tuple[str, ...]]]:
    """The devices of a container whose plugins want to know before it starts, by resource."""
    for container, resource in sorted(state.pods[uid].allocations):
        source = state.sources.get(resource)
        if container == name and source is not None and source.needs_prestart:
            yield resource, state.host.devices.held(uid, container, resource)


def _start(setup: AgentSetup, state: AgentState, uid: str, container: Container) -> StartContainer:
    known = state.pods[uid]
    answers = [a for (name, _), a in sorted(known.allocations.items()) if name == container.name]
    return StartContainer(
        uid,
        container.name,
        known.containers[container.name].restarts,
        placed_cpus(setup, state, uid, container),
        placed_nodes(state, uid, container.name),
        known,
        merged(answers),
        placed_mempolicy(setup, state, uid, container.name),
    )


def start_prepared(
    setup: AgentSetup, state: AgentState, event: DevicesPrestarted, known: AgentPod
) -> Next:
    """Starts a container whose device plugins know of it by now."""
    uid, name = event.uid, event.container
    status = known.containers[name]
    if status.state is not RunState.STARTING or status.restarts != event.attempt:
        return state, []
    if known.deleting or known.is_terminal:
        gone = ContainerExited(uid, name, event.attempt, NEVER_RAN_CODE, event.now)
        return exited(setup, state, gone)
    container = next(c for c in known.pod.in_order if c.name == name)
    return state, [_start(setup, state, uid, container)]


def with_status(state: AgentState, uid: str, name: str, status: ContainerStatus) -> AgentState:
    known = state.pods[uid]
    known = replace(known, containers={**known.containers, name: status})
    return replace(state, pods={**state.pods, uid: known})


def started(setup: AgentSetup, state: AgentState, event: ContainerStarted) -> Next:
    uid, name, now = event.uid, event.container, event.now
    known = state.pods.get(uid)
    if known is None:
        return state, [StopContainer(uid, name, 0.0)]
    status = known.containers[name]
    if status.state is not RunState.STARTING or status.restarts != event.attempt:
        return state, []  # its end was told first
    status = replace(
        status,
        state=RunState.RUNNING,
        reason="",
        message="",
        pid=event.pid,
        id=event.id,
        started_at=now,
        postponed=0,
        is_stopping=False,
    )
    known = state.pods[uid]
    if known.deleting or known.is_terminal:
        return with_status(state, uid, name, status), [StopContainer(uid, name, 0.0)]
    status, hooked = hooks.begun(setup, known, name, status, now)
    state = with_status(state, uid, name, status)
    known = state.pods[uid]
    state = replace(state, pods={**state.pods, uid: with_phase(known, now)})
    note = Publish(notes.ContainerStarted(known.pod, name, event.pid))
    effects: list[Effect] = [Save(state), note, *hooked]
    state, more = start_due(setup, state, uid, now)
    return state, effects + more


def with_phase(known: AgentPod, now: float) -> AgentPod:
    """The same pod, running once an app container of it runs."""
    running = any(known.containers[c.name].state is RunState.RUNNING for c in known.pod.containers)
    if known.phase is not Phase.PENDING or not running:
        return known
    return replace(known, phase=Phase.RUNNING, started_at=known.started_at or now)


def exited(setup: AgentSetup, state: AgentState, event: ContainerExited) -> Next:
    uid, name, code, now = event.uid, event.container, event.code, event.now
    known = state.pods.get(uid)
    if known is None:
        return state, [ForgetPod(uid)]  # one that nobody knows any more has ended
    status = known.containers.get(name)
    if status is None or not status.is_alive or status.restarts != event.attempt:
        return state, []
    container = next(c for c in known.pod.in_order if c.name == name)
    ended = known.deleting or known.is_terminal
    if not ended and _runs_again(known, container, code):
        return _retried(setup, state, event)
    status = replace(
        status,
        state=RunState.EXITED,
        reason=event.reason or ("Completed" if code == 0 else "Error"),
        message=event.message,
        pid=None,
        finished_at=now,
        exit_code=code,
        probes={},
        is_hooked=False,
    )
    state = with_status(state, uid, name, status)
    note = Publish(notes.ContainerExited(known.pod, name, code))
    if ended:
        state, effects = _settled(setup, state, uid)
    elif container.is_regular_init and code != 0:
        state, effects = _finished(setup, state, uid, Phase.FAILED)
    elif _apps_done(state.pods[uid]):
        state, effects = _finished(setup, state, uid, _outcome(state.pods[uid]))
    else:
        state, effects = start_due(setup, state, uid, now)
    return state, [Save(state), note, *effects]


def _runs_again(known: AgentPod, container: Container, code: int) -> bool:
    if container.is_restartable:
        return True
    if container.is_init:
        return code != 0 and known.restart_policy != "Never"
    if known.restart_policy == "Always":
        return True
    return known.restart_policy == "OnFailure" and code != 0


def _retried(setup: AgentSetup, state: AgentState, event: ContainerExited) -> Next:
    uid, name, code, now = event.uid, event.container, event.code, event.now
    before = state.pods[uid].containers[name]
    ran = now - before.started_at if before.started_at is not None else 0.0
    restarts = before.restarts + 1
    power = 0 if ran >= setup.backoff_reset_seconds else min(restarts - 1, 30)
    delay = min(setup.backoff_seconds * 2**power, setup.backoff_seconds_max)
    status = replace(
        before,
        state=RunState.WAITING,
        reason="CrashLoopBackOff",
        message=event.message or f"back-off {delay:g}s restarting failed container",
        pid=None,
        finished_at=now,
        exit_code=code,
        restarts=restarts,
        retry_at=now + delay,
        probes={},
        is_hooked=False,
    )
    state = with_status(state, uid, name, status)
    note = notes.ContainerExited(state.pods[uid].pod, name, code, delay)
    return state, [Save(state), Publish(note)]


def postponed(setup: AgentSetup, state: AgentState, event: ContainerPostponed) -> Next:
    """A container has to wait (its image is not there): it is tried again, and not counted."""
    uid, name, now = event.uid, event.container, event.now
    known = state.pods.get(uid)
    if known is None:
        return state, []
    before = known.containers[name]
    if before.state is not RunState.STARTING or before.restarts != event.attempt:
        return state, []
    if known.deleting or known.is_terminal:
        gone = ContainerExited(uid, name, event.attempt, NEVER_RAN_CODE, now, event.message)
        return exited(setup, state, gone)
    delay = min(setup.backoff_seconds * 2 ** min(before.postponed, 30), setup.backoff_seconds_max)
    status = replace(
        before,
        state=RunState.WAITING,
        reason=event.reason,
        message=event.message,
        retry_at=now + delay,
        postponed=before.postponed + 1,
    )
    # The kubelet names the first failure of a pull, and from then on the waiting for the next.
    if event.reason == PULL_FAILED and before.postponed:
        text = f"Back-off pulling image: {event.message}"
        status = replace(status, reason=PULL_WAITS, message=text)
    state = with_status(state, uid, name, status)
    note = notes.ContainerPostponed(known.pod, name, event.reason, delay, event.message)
    return state, [Save(state), Publish(note)]


def _apps_done(known: AgentPod) -> bool:
    return all(known.containers[c.name].state is RunState.EXITED for c in known.pod.containers)


def _outcome(known: AgentPod) -> Phase:
    codes = [known.containers[c.name].exit_code for c in known.pod.containers]
    return Phase.SUCCEEDED if all(code == 0 for code in codes) else Phase.FAILED


def _finished(setup: AgentSetup, state: AgentState, uid: str, phase: Phase) -> Next:
    """The pod is over: what still runs is stopped, and what it held is freed when all is quiet."""
    known = replace(state.pods[uid], phase=phase)
    state = replace(state, pods={**state.pods, uid: known})
    stops = stop_all(setup, known)
    note = Publish(notes.PodFinished(known.pod, phase.value))
    state, effects = _settled(setup, state, uid)
    return state, [*effects, note, *stops]


def _settled(setup: AgentSetup, state: AgentState, uid: str) -> Next:
    """Frees what a pod held once none of its containers is left, and forgets a deleted one."""
    known = state.pods[uid]
    if any(known.alive()):
        return state, [Save(state)]
    freed = host.cleaned(setup.host, host.ended(state.host, uid))
    if not known.deleting:
        state = replace(state, host=freed)
        return state, [Save(state), ReleasePod(uid)]
    pods = {key: pod for key, pod in state.pods.items() if key != uid}
    if known.successor is not None:
        pods[uid] = _beginning_anew(known, known.successor)
    state = replace(state, host=freed, pods=pods)
    return state, [Save(state), ForgetPod(uid), Publish(notes.PodDeleted(known.pod))]


def _beginning_anew(known: AgentPod, asked: Successor) -> AgentPod:
    pod = core_pod(asked.record, uid=known.pod.uid)
    new = AgentPod(asked.record, pod, asked.source, known.created_at, asker=asked.asker)
    containers = {c.name: ContainerStatus() for c in pod.in_order}
    return waiting_for_name(replace(new, containers=containers))


def free_ended(setup: AgentSetup, state: AgentState, uid: str) -> Next:
    """Frees what a pod that has ended still held, if nothing of it runs any more."""
    known = state.pods[uid]
    if not (known.is_terminal or known.deleting) or any(known.alive()):
        return state, []
    if uid not in state.host.pods and not known.deleting:
        return state, []
    return _settled(setup, state, uid)


def deleted(setup: AgentSetup, state: AgentState, uid: str, request: int | None) -> Next:
    """Somebody wants a pod to be gone."""
    known = state.pods.get(uid)
    if uid in state.put_off:
        others = {key: one for key, one in state.put_off.items() if key != uid}
        state = replace(state, put_off=others)
    if known is None:
        answer: list[Effect] = []
        if request is not None:
            answer = [
                Answer(request, uid, accepted=False, reason="NotFound", message="no such pod")
            ]
        return state, answer
    known = replace(known, deleting=True, successor=None, awaited=frozenset())
    state = replace(state, pods={**state.pods, uid: known})
    stops = stop_all(setup, known)
    state, effects = _settled(setup, state, uid)
    answer = [] if request is None else [Answer(request, uid, accepted=True)]
    return state, [*effects, *answer, *stops]


def clean_up(state: AgentState, uid: str) -> list[Effect]:
    """What is to be removed of a pod by now."""
    known = state.pods.get(uid)
    if known is None:
        return [ForgetPod(uid)]
    return [ReleasePod(uid)] if known.is_terminal and not any(known.alive()) else []


def stop_again(state: AgentState, uid: str, name: str) -> list[Effect]:
    """Ends a container that is not to run, if it still does."""
    known = state.pods.get(uid)
    if known is None:
        return [StopContainer(uid, name, 0.0)]
    is_over = known.deleting or known.is_terminal
    return [StopContainer(uid, name, 0.0)] if is_over and name in known.alive() else []


def stop_all(setup: AgentSetup, known: AgentPod) -> list[Effect]:
    """Asks every container of a pod to end."""
    grace = known.grace_seconds(setup.grace_seconds_max)
    return [hooks.stop(setup, known, name, grace) for name in known.alive()]


def end_overdue(setup: AgentSetup, state: AgentState, now: float) -> Next:
    """Ends pods that were active for longer than they may be."""
    effects: list[Effect] = []
    for uid, known in list(state.pods.items()):
        if not (known.is_terminal or known.deleting or known.is_undecided):
            state, more = failures.for_pod(_end_if_overdue, setup, state, uid, now)
            effects += more
    return state, effects


def _end_if_overdue(setup: AgentSetup, state: AgentState, uid: str, now: float) -> Next:
    known = state.pods[uid]
    limit = known.record.spec.activeDeadlineSeconds
    if limit is None or now - known.created_at < limit:
        return state, []
    text = "Pod was active on the node longer than the specified deadline"
    late = replace(known, reason=DEADLINE_EXCEEDED, message=text, awaited=frozenset())
    state = replace(state, pods={**state.pods, uid: late})
    state, more = _finished(setup, state, uid, Phase.FAILED)
    return state, [Save(state), *more]


def start_all_due(setup: AgentSetup, state: AgentState, now: float) -> Next:
    effects: list[Effect] = []
    for uid, known in list(state.pods.items()):
        if any(status.state is RunState.WAITING for status in known.containers.values()):
            state, more = failures.for_pod(start_due, setup, state, uid, now)
            effects += more
    return state, effects


def sources_ready(setup: AgentSetup, state: AgentState, event: SourcesReady) -> Next:
    """All sources of pods have spoken: what nobody asks for any more is freed."""
    del event
    state = replace(state, host=host.cleaned(setup.host, host.sources_ready(state.host)))
    return state, [Save(state)]
