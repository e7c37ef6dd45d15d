"""How many more pods of a shape fit, exactly: each host is filled by its own managers.

What stops a host from taking one more is told too: a resource that is used up in total, one of
which no NUMA node has enough, or several that no NUMA node has together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from numalign.core.cluster.scheduling.rebuild import Frame, free_by_node
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.kubelet.admission.verdict import OutOf, Verdict, verdict_on
from numalign.core.kubelet.decisions import Admitted, Broken, Rejected
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod, pod_limits
from numalign.core.what_if import largest_fit

PODS_MAX: Final = 4_096  # of one shape on one host; a kubelet takes 110 unless told otherwise


class Where(StrEnum):
    """Where there is too little."""

    TOTAL = "total"  # on the whole host
    NODE = "numa-node"  # on every NUMA node
    TOGETHER = "together"  # each is there, but not all of them on the same NUMA nodes
    RULE = "rule"  # a rule of the kubelet or the scheduler, whatever is free


@dataclass(frozen=True, slots=True)
class Binding:
    """What stops a host from taking one more."""

    where: Where
    resources: tuple[str, ...]
    message: str = ""  # the kubelet's, for a rule

    @property
    def words(self) -> str:
        names = " and ".join(self.resources)
        match self.where:
            case Where.TOTAL:
                return f"{names} in total"
            case Where.NODE:
                return f"{names} on a NUMA node"
            case Where.TOGETHER:
                return f"{names} on the same NUMA node"
            case Where.RULE:
                return self.message


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many more fit on one host, and what binds then."""

    count: int
    binding: Binding


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of a fleet at one moment."""

    name: str
    frame: Frame
    state: HostState
    pool: str = ""


def filled(frame: Frame, state: HostState, pod: Pod) -> Capacity:
    """How many pods like this one the host takes before it refuses one."""
    host = frame.host
    state = hosts.cleaned(host, state)
    totals = largest_fit.left(host, state, frame.totals)
    wanted = pod.requests_counted(host.settings)
    for count in range(PODS_MAX):
        more = replace(pod, uid=f"capacity-{count}")
        # The totals are what is left, so the others need not be summed up for each pod.
        after, verdict = verdict_on(host, state, totals, more, others=())
        if not isinstance(verdict, Admitted):
            return Capacity(count, _binding(frame, state, pod, verdict))
        state = after
        for name, amount in wanted.items():
            totals[name] = totals.get(name, 0) - amount
        totals[PODS] -= 1
    return Capacity(PODS_MAX, Binding(Where.RULE, (PODS,), f"counting ends at {PODS_MAX} pods"))


def _binding(frame: Frame, state: HostState, pod: Pod, verdict: Verdict) -> Binding:
    match verdict:
        case OutOf(shortages):
            return Binding(Where.TOTAL, tuple(s.resource for s in shortages))
        case Broken(_, statement):
            return Binding(Where.RULE, (), statement)
        case Rejected():
            return _refused(frame, state, pod, verdict)
        case Admitted():
            raise AssertionError("an admitted pod is bound by nothing")


def _refused(frame: Frame, state: HostState, pod: Pod, verdict: Rejected) -> Binding:
    settings = frame.host.settings
    of_container = next((c for c in pod.in_order if c.name == verdict.container), None)
    limits = pod_limits(pod, settings) if of_container is None else of_container.limits
    free = free_by_node(frame, state).values()
    tracked = {name for own in free for name in own}
    asked = {name: q.nanos for name, q in limits.items() if name in tracked and q.nanos}
    unknown = tuple(sorted(n for n in limits if "/" in n and n not in tracked))
    if unknown:
        return Binding(Where.TOTAL, unknown)
    summed = {name: sum(own.get(name, 0) for own in free) for name in asked}
    used_up = tuple(name for name in sorted(asked) if summed[name] < asked[name])
    if used_up:
        return Binding(Where.TOTAL, used_up)
    most = {name: max(own.get(name, 0) for own in free) for name in asked}
    short = tuple(name for name in sorted(asked) if most[name] < asked[name])
    if short:
        return Binding(Where.NODE, short)
    if verdict.provider is not None or len(asked) < 2:
        return Binding(Where.RULE, tuple(sorted(asked)), verdict.message)
    return Binding(Where.TOGETHER, tuple(sorted(asked)))


def state_key(frame: Frame, state: HostState) -> tuple[object, ...]:
    """The same for hosts of one frame that decide alike about every new pod."""
    left = largest_fit.left(frame.host, state, frame.totals)
    accounts = tuple(
        (node, own.assignments, own.cells, tuple(t.free for t in own.tables.values()))
        for node, own in sorted(state.memory.machine.items())
    )
    busy = tuple(sorted(state.devices.busy.items()))
    return (id(frame), state.cpu.shared, accounts, busy, tuple(sorted(left.items())))


Objection = Callable[[str], str | None]  # why a host is not for a pod, whatever room it has


def capacities(
    fleet: Iterable[FleetHost], pod: Pod, objection: Objection = lambda _: None
) -> dict[str, Capacity]:
    """How many more fit on each host; hosts that are alike are filled once."""
    known: dict[tuple[object, ...], Capacity] = {}
    found: dict[str, Capacity] = {}
    for host in fleet:
        why = objection(host.name)
        if why is not None:
            found[host.name] = Capacity(0, Binding(Where.RULE, (), why))
            continue
        key = state_key(host.frame, host.state)
        if key not in known:
            known[key] = filled(host.frame, host.state, pod)
        found[host.name] = known[key]
    return found


def by_pool(fleet: Iterable[FleetHost], found: Mapping[str, Capacity]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for host in fleet:
        counts[host.pool] = counts.get(host.pool, 0) + found[host.name].count
    return dict(sorted(counts.items()))
