"""What changes about the host under running pods: CPUs that go offline and come back, the clock.

The kernel moves processes off such a CPU by itself. A pod whose own CPU it was keeps the rest, or
is ended: by choice, and where nothing is left. The files go on saying that the pod has the CPU, so
it has it again when it comes back; nobody else is given one that is offline.

When the clock is set, what was noted before is moved with it: delays then are as long as they were
meant to be, and ages are right, whatever the clock says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from numalign.apps.agent import notes
from numalign.apps.agent.events import ClockMoved, CpusOnline, Effect, Publish, Save, StopContainer
from numalign.apps.agent.model import AgentPod, AgentSetup, AgentState, ContainerStatus, Phase
from numalign.core.kubelet.host import HostState
from numalign.core.values.sets import format_list

REASON = "CpusOffline"


def online_changed(
    setup: AgentSetup, state: AgentState, event: CpusOnline
) -> tuple[AgentState, list[Effect]]:
    """Some CPUs of the machine are there or not, other than before."""
    offline = setup.host.cpu_topology.all & ~event.online
    if offline == state.offline:
        return state, []
    went, came = offline & ~state.offline, state.offline & ~offline
    state = replace(state, offline=offline)
    effects: list[Effect] = [
        Publish(note(format_list(cpus)))
        for note, cpus in ((notes.CpusOffline, went), (notes.CpusOnline, came))
        if cpus
    ]
    for uid, known in list(state.pods.items()):
        if known.is_terminal or known.deleting:
            continue
        hit = {name: own for name, own in _own(state, uid) if own & went}
        if hit and (setup.ends_without_cpus or any(not own & ~offline for own in hit.values())):
            state, more = _end(setup, state, uid, known, hit)
            effects += more
    return state, effects


def _own(state: AgentState, uid: str) -> Iterator[tuple[str, int]]:
    yield from state.host.cpu.entries.get(uid, {}).items()


def _end(
    setup: AgentSetup, state: AgentState, uid: str, known: AgentPod, hit: dict[str, int]
) -> tuple[AgentState, list[Effect]]:
    lost = [f"container {name} of {format_list(own & state.offline)}" for name, own in hit.items()]
    message = f"CPUs of its own went offline: {'; '.join(lost)}"
    failed = replace(known, phase=Phase.FAILED, reason=REASON, message=message)
    state = replace(state, pods={**state.pods, uid: failed})
    grace = known.grace_seconds(setup.grace_seconds_max)
    stops = [StopContainer(uid, name, grace) for name in known.alive()]
    return state, [Save(state), Publish(notes.PodFinished(known.pod, Phase.FAILED.value)), *stops]


def offline_problems(state: AgentState) -> list[str]:
    """What an operator should know while CPUs are offline, one line each."""
    if not state.offline:
        return []
    found = [f"CPUs {format_list(state.offline)} went offline: bring them back, or restart us"]
    for uid, known in state.pods.items():
        for name, own in _own(state, uid):
            if own & state.offline and not known.is_terminal:
                left = format_list(own & ~state.offline)
                text = f"has {left} left of its own CPUs {format_list(own)}"
                found.append(f"container {name} of pod {'/'.join(known.key)} {text}")
    return found


# No offline CPU is given to anybody: for a decision they are taken out of the pool.


def without_offline(state: AgentState) -> HostState:
    """The host as it is to be decided on."""
    cpu = state.host.cpu
    return replace(state.host, cpu=replace(cpu, shared=cpu.shared & ~state.offline))


def with_offline(state: AgentState, decided: HostState) -> HostState:
    """The same after the decision, with all CPUs."""
    kept = state.host.cpu.shared & state.offline
    return replace(decided, cpu=replace(decided.cpu, shared=decided.cpu.shared | kept))


def clock_moved(state: AgentState, event: ClockMoved) -> tuple[AgentState, list[Effect]]:
    by = event.seconds
    state = replace(
        state,
        pods={uid: _moved_pod(pod, by) for uid, pod in state.pods.items()},
        started_at=state.started_at + by,
    )
    return state, [Save(state), Publish(notes.ClockMoved(by))]


def _moved_pod(pod: AgentPod, by: float) -> AgentPod:
    return replace(
        pod,
        created_at=pod.created_at + by,
        started_at=_later(pod.started_at, by),
        containers={name: _moved_status(status, by) for name, status in pod.containers.items()},
    )


def _moved_status(status: ContainerStatus, by: float) -> ContainerStatus:
    return replace(
        status,
        started_at=_later(status.started_at, by),
        finished_at=_later(status.finished_at, by),
        retry_at=_later(status.retry_at, by),
        probes={k: replace(p, next_at=p.next_at + by) for k, p in status.probes.items()},
    )


def _later(time: float | None, by: float) -> float | None:
    return None if time is None else time + by
