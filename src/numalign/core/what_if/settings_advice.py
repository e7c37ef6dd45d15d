"""Which settings suit a workload: every sensible combination is tried on the empty host.

The pods are offered in their order to a host with each combination of policy, scope and options,
and what came of it is counted. Two words need saying. A pod is *aligned* if each of its containers
has all its own CPUs, memory and devices on one NUMA node. *Stranded* are free CPUs whose core is
partly owned by a container, and free memory on nodes that have no free CPU left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from numalign.core.errors import StartError
from numalign.core.explain.alignment import has_own, is_aligned
from numalign.core.explain.explain import empty_state, pod_name
from numalign.core.explain.placement_cost import costs
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.node_fit import Totals
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.cpu.policy import (
    ALIGN_SOCKET,
    FULL_CORES,
    SPREAD_CORES,
    SPREAD_NUMA,
    UNCORE,
)
from numalign.core.kubelet.decisions import Admitted, Placement
from numalign.core.kubelet.devices.devices import DeviceState
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.topology.policy import CLOSEST
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.machine.machine import Machine
from numalign.core.pod import Pod
from numalign.core.settings import Settings

ALPHA_GATE: Final = "CPUManagerPolicyAlphaOptions"
_STRICTEST_FIRST: Final = ("single-numa-node", "restricted", "best-effort", "none")


@dataclass(frozen=True, slots=True)
class Trial:
    settings: Settings
    pods: int
    admitted: int
    refused: tuple[tuple[str, str], ...]  # pod, reason
    with_own: int  # admitted pods that have CPUs, memory or devices of their own
    aligned: int  # of these
    stranded_cpus: int
    stranded_bytes: int
    mean_distance: float | None  # CPUs to memory and devices, over all containers; an estimate

    @property
    def options(self) -> tuple[str, ...]:
        return (*sorted(self.settings.cpu_options), *sorted(self.settings.topology_options))


@dataclass(frozen=True, slots=True)
class Advice:
    """All trials, best first, and why the first is the best."""

    trials: tuple[Trial, ...]
    impossible: tuple[tuple[Settings, str], ...]  # settings with which the kubelet does not start
    reasons: tuple[str, ...]
    complete: bool = True

    @property
    def best(self) -> Trial | None:
        return self.trials[0] if self.trials else None


Going = Callable[[str, int], bool]


def advise(
    machine: Machine,
    now: Settings,
    info: MachineInfo,
    devices: DeviceState,
    totals: Callable[[Settings], Totals],
    pods: Sequence[Pod],
    going: Going,
    barred: frozenset[str] = frozenset(),
) -> Advice:
    """Every combination tried, but for those with options that are ``barred`` on this host."""
    trials: list[Trial] = []
    impossible: list[tuple[Settings, str]] = []
    complete = True
    for number, settings in enumerate(combinations_of(now, info)):
        if not going("settings", number):
            complete = False
            break
        if barred & {*settings.cpu_options, *settings.topology_options}:
            continue
        try:
            host = hosts.build(settings, info)
        except StartError as error:
            impossible.append((settings, str(error)))
            continue
        trials.append(_trial(machine, host, devices, totals(settings), pods))
    trials.sort(key=lambda trial: _rank(trial, now))
    return Advice(tuple(trials), tuple(impossible), tuple(_reasons(trials, now)), complete)


# The combinations.


def combinations_of(now: Settings, info: MachineInfo) -> Iterator[Settings]:
    """Every combination of policy, scope and options that makes sense on this machine."""
    base = replace(now, cpu_policy="static", topology_options=_kept_options(now))
    memory = ["Static", "None"] if now.reserved_memory else ["None"]
    for memory_policy in memory:
        for options in cpu_option_sets(now, info):
            part = replace(
                base,
                memory_policy=memory_policy,
                cpu_options={**_strict(now), **dict.fromkeys(options, "true")},
            )
            yield replace(part, topology_policy="none", topology_scope="container")
            for policy in ("best-effort", "restricted", "single-numa-node"):
                for scope in ("container", "pod"):
                    found = replace(part, topology_policy=policy, topology_scope=scope)
                    yield found
                    if policy != "single-numa-node" and _has_distances(info):
                        closest = {**base.topology_options, CLOSEST: "true"}
                        yield replace(found, topology_options=closest)


def _kept_options(now: Settings) -> dict[str, str]:
    return {key: value for key, value in now.topology_options.items() if key != CLOSEST}


def _strict(now: Settings) -> dict[str, str]:
    """A strict reservation is a wish of the operator and not of the workload: it is kept."""
    return {k: v for k, v in now.cpu_options.items() if k == "strict-cpu-reservation"}


def cpu_option_sets(now: Settings, info: MachineInfo) -> list[tuple[str, ...]]:
    """The sets of CPU options that can make a difference on this machine."""
    threads = max((len(core.threads) for node in info.nodes for core in node.cores), default=1)
    with_cpus = [node for node in info.nodes if node.cores]
    caches = {core.uncore for node in info.nodes for core in node.cores if core.uncore is not None}
    found: list[tuple[str, ...]] = [()]
    if len(with_cpus) > 1:
        found.append((SPREAD_NUMA,))
    if len(caches) > len(with_cpus):
        found.append((UNCORE,))
    if now.gate(ALPHA_GATE) and len(with_cpus) > info.socket_count:
        found.append((ALIGN_SOCKET,))
    if threads > 1:
        found += [(FULL_CORES, *options) for options in found]
        if now.gate(ALPHA_GATE):
            found.append((SPREAD_CORES,))
    return found


def _has_distances(info: MachineInfo) -> bool:
    """Whether some nodes are closer than others."""
    rows = [node.distances for node in info.nodes]
    values = {d for row in rows for d in row or ()}
    return len(info.nodes) > 2 and None not in rows and len(values) > 2


# One trial.


def _trial(
    machine: Machine, host: Host, devices: DeviceState, totals: Totals, pods: Sequence[Pod]
) -> Trial:
    state = empty_state(host, devices)
    placed: list[tuple[Placement, ...]] = []
    refused: list[tuple[str, str]] = []
    for pod in pods:
        after, verdict = verdict_on(host, state, totals, pod)
        if isinstance(verdict, Admitted):
            state = after
            placed.append(verdict.placements)
        else:
            words = refusal(verdict)
            refused.append((pod_name(pod), "" if words is None else words[0]))
            state = hosts.cleaned(host, after)
    own = [placements for placements in placed if any(map(has_own, placements))]
    return Trial(
        host.settings,
        len(pods),
        len(placed),
        tuple(refused),
        len(own),
        sum(1 for placements in own if _are_aligned(host, state, placements)),
        _stranded_cpus(host, state),
        _stranded_bytes(host, state),
        _mean_distance(machine, host, state, placed),
    )


def _are_aligned(host: Host, state: HostState, placements: tuple[Placement, ...]) -> bool:
    return all(is_aligned(host.cpu_topology, state.devices, placed) for placed in placements)


def _stranded_cpus(host: Host, state: HostState) -> int:
    """Free CPUs whose core is partly a container's."""
    if host.cpu is None:
        return 0
    free = state.cpu.shared & ~host.cpu.reserved
    owned = host.cpu_topology.all & ~state.cpu.shared & ~host.cpu.reserved
    return (host.cpu_topology.cores_touched(owned) & free).bit_count()


def _stranded_bytes(host: Host, state: HostState) -> int:
    """Free memory on nodes whose CPUs are all owned."""
    if host.cpu is None:
        return 0
    free = state.cpu.shared & ~host.cpu.reserved
    total = 0
    for node, cpus in host.cpu_topology.nodes.items():
        accounts = state.memory.machine.get(node)
        if not cpus & free and accounts is not None:
            total += accounts.tables["memory"].free
    return total


def _mean_distance(
    machine: Machine, host: Host, state: HostState, placed: list[tuple[Placement, ...]]
) -> float | None:
    means = []
    for placements in placed:
        own = tuple(p for p in placements if has_own(p))
        for cost in costs(machine, host.cpu_topology, state.devices, own, state.cpu.shared):
            for reach in (cost.cpu_to_memory, cost.cpu_to_devices):
                if reach is not None and reach.mean is not None:
                    means.append(reach.mean)
    return sum(means) / len(means) if means else None


# The best.


def _rank(trial: Trial, now: Settings) -> tuple[float, ...]:
    """More pods first, then more aligned ones, then nearer, then less stranded.

    Among equals the settings in force, then the strictest policy: it keeps the promise also for
    pods that come later.
    """
    settings = trial.settings
    return (
        -trial.admitted,
        -trial.aligned,
        settings.memory_policy == "None",  # memory of its own is worth more than an estimate
        round(trial.mean_distance or 0.0, 3),
        trial.stranded_cpus,
        trial.stranded_bytes,
        not _is_in_force(settings, now),
        _STRICTEST_FIRST.index(settings.topology_policy),
        len(trial.options),
        settings.topology_scope != now.topology_scope,
    )


def _is_in_force(settings: Settings, now: Settings) -> bool:
    return (
        settings.topology_policy == now.topology_policy
        and (settings.topology_scope == now.topology_scope or now.topology_policy == "none")
        and settings.cpu_options == now.cpu_options
        and settings.topology_options == now.topology_options
        and settings.memory_policy == now.memory_policy
        and now.cpu_policy == "static"
    )


def _reasons(trials: Sequence[Trial], now: Settings) -> Iterator[str]:
    if not trials:
        return
    best = trials[0]
    if best.admitted == best.pods:
        yield "It admits the pod." if best.pods == 1 else f"It admits all {best.pods} pods."
    else:
        most = "more than any other" if _is_alone(trials) else "as many as any"
        yield f"It admits {best.admitted} of {best.pods} pods, {most}."
    if best.with_own:
        yield f"{best.aligned} of {best.with_own} pods with resources of their own are aligned."
    rivals = [
        t
        for t in trials[1:]
        if (t.admitted, t.aligned) == (best.admitted, best.aligned)
        and t.settings.memory_policy == best.settings.memory_policy
    ]
    if not rivals:
        return
    if all((t.mean_distance or 0) > (best.mean_distance or 0) for t in rivals):
        yield "Of those that do as well, its placements reach least far (an estimate)."
    elif all(t.stranded_cpus > best.stranded_cpus for t in rivals):
        yield "Of those that do as well, it strands the fewest CPUs."
    elif _is_in_force(best.settings, now):
        yield "Others do as well; these are the settings in force."
    else:
        yield "Others do as well; this is the strictest of them, which also binds later pods."


def _is_alone(trials: Sequence[Trial]) -> bool:
    return len(trials) < 2 or trials[1].admitted < trials[0].admitted
