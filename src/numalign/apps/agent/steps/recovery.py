"""Taking up the work after a restart: what was saved, and what the runtime still runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from numalign.apps.agent import notes
from numalign.apps.agent.events import (
    ContainerExited,
    DevicesReported,
    Effect,
    Publish,
    Save,
    StopContainer,
    Tick,
)
from numalign.apps.agent.model import (
    INTERNAL_ERROR,
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    Phase,
    RunState,
    waiting,
)
from numalign.apps.agent.step import decide, settle
from numalign.apps.agent.steps import deciding, failures, lifecycle, runs
from numalign.core.errors import NumalignError, unexpected
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.admission.verdict import refusal
from numalign.core.kubelet.devices.devices import SavedDevices
from numalign.core.kubelet.state import CpuState, MemoryState

LOST_CODE = 137  # the process is gone and nobody saw how: as after a kill
LOST_TEXT = "it ended while the agent was away"

Key = tuple[str, str]  # pod uid, container


@dataclass(frozen=True, slots=True)
class Ended:
    attempt: int
    code: int
    message: str = ""
    has_run: bool = True  # False: the crash came after it was noted and before it was started


def recovered(
    setup: AgentSetup,
    *,
    cpu: CpuState | None,
    memory: MemoryState | None,
    saved_devices: SavedDevices | None,
    pods: Mapping[str, AgentPod],
    alive: Mapping[Key, int],
    ended: Mapping[Key, Ended],
    now: float,
) -> tuple[AgentState, list[Effect]]:
    """The state after a restart and what to do first; StartError if the files do not fit.

    ``alive`` are the processes that outlived the agent (their pids), ``ended`` the last recorded
    end of each of the others. A pod that nobody could take up is Failed; it must not keep the agent
    from starting, again and again.
    """
    recover = partial(
        _recover,
        setup,
        cpu=cpu,
        memory=memory,
        saved_devices=saved_devices,
        alive=alive,
        ended=ended,
        now=now,
    )
    try:
        return recover(pods=pods)
    except NumalignError:
        raise
    except Exception:
        return recover(pods={uid: _usable(recover, uid, pod) for uid, pod in pods.items()})


def _usable(
    recover: Callable[..., tuple[AgentState, list[Effect]]], uid: str, pod: AgentPod
) -> AgentPod:
    try:
        recover(pods={uid: pod})
    except Exception as error:
        record, plate = failures.nameplate(uid, pod.pod.namespace, pod.pod.name)
        text = unexpected(error)
        return AgentPod(
            record,
            plate,
            pod.source,
            pod.created_at,
            phase=Phase.FAILED,
            reason=INTERNAL_ERROR,
            message=text,
        )
    return pod


def _recover(
    setup: AgentSetup,
    *,
    cpu: CpuState | None,
    memory: MemoryState | None,
    saved_devices: SavedDevices | None,
    pods: Mapping[str, AgentPod],
    alive: Mapping[Key, int],
    ended: Mapping[Key, Ended],
    now: float,
) -> tuple[AgentState, list[Effect]]:
    started = host.start(
        setup.host,
        cpu=cpu,
        memory=memory,
        saved_devices=saved_devices,
        running=frozenset(alive),
    )
    latest = now + setup.backoff_seconds_max  # the clock may have been set while no agent ran
    known = {
        uid: _with_processes(uid, _due_by(pod, latest), alive, ended, now)
        for uid, pod in pods.items()
    }
    # One that has devices and waits to be decided about keeps all that it has until then.
    kept = {
        uid: p.pod
        for uid, p in known.items()
        if p.waits_for_plugin and not p.deleting and uid in started.devices.entries
    }
    # The devices of a pod whose plugin had not answered were never given, so it is decided anew.
    known |= {uid: waiting(pod, _resources(pod)) for uid, pod in known.items() if pod.awaited}
    active = {uid: p.pod for uid, p in known.items() if holds(p)}
    state = AgentState(replace(started, pods={**active, **kept}), known, started_at=now)
    effects: list[Effect] = []
    for uid in active:
        state, more = failures.for_pod(_readmit, setup, state, uid)
        effects += more
    orphans = [StopContainer(uid, name, 0.0) for uid, name in alive if uid not in known]
    strays = [
        StopContainer(uid, name, 0.0)
        for uid, name in alive
        if uid in known and (known[uid].is_terminal or known[uid].deleting)
    ]
    effects = [Save(state), *effects, *orphans, *strays]
    state, more = _catch_up(setup, state, alive, ended, now)
    effects += more
    for resource, found in setup.declared.items():
        event = DevicesReported(resource, found, now, is_plugin=False)
        state, more = decide(setup, state, event)
        effects += more
    state, more = runs.settled(setup, state, state, Tick(now))
    effects += [*more, *runs.watches(state)]
    # Nothing is known of where things are now, so everything is put where it belongs.
    return settle(setup, None, state, effects)


def holds(pod: AgentPod) -> bool:
    """Whether a pod may still hold something: one that has ended does until all is quiet."""
    return any(pod.alive()) or not (pod.is_terminal or pod.deleting or pod.is_undecided)


def _due_by(pod: AgentPod, latest: float) -> AgentPod:
    """The same pod with no container that waits for longer than any back-off is."""
    return replace(
        pod,
        containers={
            name: replace(status, retry_at=min(status.retry_at, latest))
            if status.retry_at is not None
            else status
            for name, status in pod.containers.items()
        },
    )


def _with_processes(
    uid: str, pod: AgentPod, alive: Mapping[Key, int], ended: Mapping[Key, Ended], now: float
) -> AgentPod:
    containers = {}
    for name, status in pod.containers.items():
        pid = alive.get((uid, name))
        last = ended.get((uid, name))
        if pid is not None:
            containers[name] = _asked_anew(
                replace(
                    status, state=RunState.RUNNING, pid=pid, started_at=status.started_at or now
                )
            )
        elif status.state is RunState.STARTING and (
            last is None or last.attempt != status.restarts
        ):
            # Noted, but the crash came before the runtime was told.
            containers[name] = replace(status, state=RunState.WAITING, reason="PodInitializing")
        elif status.is_alive and last is not None and not last.has_run:
            # It failed for no fault of its own; only its number is used up.
            containers[name] = replace(
                status,
                state=RunState.WAITING,
                reason="PodInitializing",
                restarts=status.restarts + 1,
            )
        else:
            containers[name] = status
    return lifecycle.with_phase(replace(pod, containers=containers), now)


def _asked_anew(status: ContainerStatus) -> ContainerStatus:
    """A container that ran on: answers and orders that were on their way are lost."""
    probes = {
        kind: replace(
            probe,
            is_asked=False,
            passed=None if status.is_stopping else probe.passed,
            in_a_row=0,
        )
        for kind, probe in status.probes.items()
    }
    return replace(status, probes=probes, is_hooked=False, is_stopping=False)


def _resources(pod: AgentPod) -> list[str]:
    return sorted({resource for _, resource in pod.awaited})


def _readmit(setup: AgentSetup, state: AgentState, uid: str) -> tuple[AgentState, list[Effect]]:
    known = state.pods[uid]
    decider = deciding.host_of(setup, known.record, known.run)
    after, decision = admit(decider, state.host, known.pod)
    texts = refusal(decision)
    if texts is None:
        return replace(state, host=after), []
    text, message = texts
    failed = replace(known, phase=Phase.FAILED, reason=text, message=f"Pod was rejected: {message}")
    stops: list[Effect] = [StopContainer(uid, name, 0.0) for name in known.alive()]
    state = replace(state, host=after, pods={**state.pods, uid: failed})
    return state, [Publish(notes.PodRejected(known.pod, text, message)), *stops]


def _catch_up(
    setup: AgentSetup,
    state: AgentState,
    alive: Mapping[Key, int],
    ended: Mapping[Key, Ended],
    now: float,
) -> tuple[AgentState, list[Effect]]:
    """Tells of every process that ended meanwhile, then starts what is due."""
    effects: list[Effect] = []
    for uid in list(state.pods):
        state, more = failures.for_pod(_tell_ends, setup, state, uid, alive, ended, now)
        effects += more
    for uid in list(state.pods):
        state, more = failures.for_pod(lifecycle.free_ended, setup, state, uid)
        effects += more
    state, more = lifecycle.start_all_due(setup, state, now)
    return state, effects + more


def _tell_ends(
    setup: AgentSetup,
    state: AgentState,
    uid: str,
    alive: Mapping[Key, int],
    ended: Mapping[Key, Ended],
    now: float,
) -> tuple[AgentState, list[Effect]]:
    effects: list[Effect] = []
    for name, status in state.pods[uid].containers.items():
        if status.is_alive and (uid, name) not in alive:
            last = ended.get((uid, name), Ended(status.restarts, LOST_CODE, LOST_TEXT))
            event = ContainerExited(uid, name, status.restarts, last.code, now, last.message)
            state, more = lifecycle.exited(setup, state, event)
            effects += more
    return state, effects
