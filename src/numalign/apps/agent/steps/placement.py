"""Where everything has to be after a change: containers, the runtime's helpers, QoS weights.

All of it follows from the state alone, so it is worked out in one place and not by each rule that
changes the state. What must move does so before anything starts: a new container must never find
an older one on the CPUs that it has for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from numalign.apps.agent.events import (
    Effect,
    Pin,
    PinContainers,
    PinHelpers,
    SetQosWeights,
    StartContainer,
)
from numalign.apps.agent.model import (
    AgentSetup,
    AgentState,
    RunState,
    placed_cpus,
    placed_nodes,
    shared_cpus,
)
from numalign.core.kubelet.cgroup_limits import Limits, limits_of_qos
from numalign.core.pod import Qos

Weights = tuple[tuple[Qos, Limits], ...]


def moves(setup: AgentSetup, before: AgentState | None, after: AgentState) -> Iterator[Effect]:
    """What has to be moved from one state to the next; everything if there was none before."""
    helpers = helper_cpus(setup, after)
    if helpers and (before is None or helpers != helper_cpus(setup, before)):
        yield PinHelpers(helpers)
    if before is None or before.host.pods is not after.host.pods:
        weights = qos_weights(setup, after)
        if before is None or weights != qos_weights(setup, before):
            yield SetQosWeights(weights)
    if before is None or before.offline != after.offline:
        pinned = tuple(pins(setup, after))
    elif before.host.cpu.shared != after.host.cpu.shared:
        pinned = tuple(pin for pin in pins(setup, after) if not _is_exclusive(after, pin))
    else:
        pinned = ()
    if pinned:
        yield PinContainers(pinned)


def placed(setup: AgentSetup, state: AgentState, effects: Iterable[Effect]) -> Iterator[Effect]:
    """The same effects with every start where its container belongs in this state.

    Of several events decided together, a later one may have moved the shared pool.
    """
    for effect in effects:
        if isinstance(effect, StartContainer):
            pod = effect.pod.pod
            container = next(c for c in pod.in_order if c.name == effect.container)
            cpus = placed_cpus(setup, state, effect.uid, container)
            nodes = placed_nodes(state, effect.uid, effect.container)
            yield replace(effect, cpus=cpus, nodes=nodes)
        else:
            yield effect


def helper_cpus(setup: AgentSetup, state: AgentState) -> int:
    """The CPUs for the runtime's own helpers: the shared pool, or the reserved ones without one."""
    return shared_cpus(setup, state)


def qos_weights(setup: AgentSetup, state: AgentState) -> Weights:
    """The shares of CPU time of the QoS classes that have a group of their own."""
    pods, settings = list(state.host.pods.values()), setup.host.settings
    return tuple(
        (qos, limits_of_qos(qos, pods, settings)) for qos in (Qos.BURSTABLE, Qos.BEST_EFFORT)
    )


def pins(setup: AgentSetup, state: AgentState) -> Iterator[Pin]:
    """Where every container that may have a process has to be."""
    for uid, known in state.pods.items():
        for container in known.pod.in_order:
            if known.containers[container.name].is_alive:
                cpus = placed_cpus(setup, state, uid, container)
                nodes = placed_nodes(state, uid, container.name)
                yield Pin(uid, container.name, cpus, nodes)


def running_pins(setup: AgentSetup, state: AgentState) -> tuple[Pin, ...]:
    """Where every container that has a process has to be."""
    return tuple(
        pin
        for pin in pins(setup, state)
        if state.pods[pin.uid].containers[pin.container].state is RunState.RUNNING
    )


def _is_exclusive(state: AgentState, pin: Pin) -> bool:
    return pin.container in state.host.cpu.entries.get(pin.uid, {})
