"""How schedulers choose: each scores hosts for a pod, and the best takes it.

``totals`` looks at sums only, as a kube-scheduler does by default. ``upstream`` adds the rules of
the NodeResourceTopologyMatch plugin on what hosts last published. ``numalign`` asks each host's
managers, and scores in one of several ways. ``fragmentation`` places where F_numa grows least.
All hosts are scored; a real kube-scheduler stops at a part of a large fleet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.cluster.nrt_match import match
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.nrt_match.need import NANOS, PodNeed, Why, need_of, offered
from numalign.core.cluster.nrt_match.record import HostRecord, ZoneRecord
from numalign.core.cluster.publish.zones import SINGLE_NUMA_NODE, TopologyConfig
from numalign.core.cluster.scheduling import fragmentation as packing
from numalign.core.cluster.scheduling.fragmentation import Packing
from numalign.core.errors import ConfigError
from numalign.core.fleet.board import UNFIT
from numalign.core.fleet.growth import Growth
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.rooms import Room, Seat
from numalign.core.fleet.simulation.model import SimHost
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.pod import Pod, is_memory_type

Score = Callable[[SimHost, Pod], int]

SCORE_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Scheduler:
    name: str
    score: Score
    # A kube-scheduler takes one of the best by chance, anew for each pod. Ours takes the first.
    is_random_among_equals: bool = False
    staleness_seconds: float | None = None  # how old what hosts publish may be; None: not read


def totals_score(host: SimHost, pod: Pod) -> int:
    """Fit and LeastAllocated by sums of requests."""
    left = host.room.total
    if left.get(PODS, 0) < 1:
        return UNFIT
    ask = host.rooms.ask(pod)
    for name, amount in ask.total.items():
        if amount > left.get(name, 0):
            return UNFIT
    score = 0
    for name in ("cpu", "memory"):
        offer = host.allocatable.get(name, 0)
        if offer:
            score += (left[name] - ask.total.get(name, 0)) * SCORE_MAX // offer
    return score // 2


class _Needs:
    """What pods need in the plugin's words, worked out once for each class."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Pod, PodNeed]] = {}

    def of(self, pod: Pod) -> PodNeed:
        kept = self._kept.get(id(pod))
        if kept is None or kept[0] is not pod:
            kept = self._kept[id(pod)] = (pod, need_of(pod))
        return kept[1]


def upstream(staleness_seconds: float) -> Scheduler:
    needs = _Needs()

    def score(host: SimHost, pod: Pod) -> int:
        by_totals = totals_score(host, pod)
        if by_totals == UNFIT:
            return UNFIT
        need = needs.of(pod)
        if match.filtered(host.record, need).why is not Why.FITS:
            return UNFIT
        return by_totals + match.score(host.record, need, Strategy.LEAST_ALLOCATED, {})

    return Scheduler("upstream", score, True, staleness_seconds)  # noqa: FBT003 - one line reads best


def exact(name: str, inner: Callable[[SimHost, Pod, Seat], int]) -> Scheduler:
    """A scheduler that places only where the host's managers agree, and scores by ``inner``."""

    def score(host: SimHost, pod: Pod) -> int:
        seat = host.rooms.seat(host.state, host.room, pod)
        if seat is None:
            return UNFIT
        found = inner(host, pod, seat)
        # A host that would take the pod apart comes after every host that would not.
        return SCORE_MAX + found if seat.is_aligned else found

    return Scheduler(name, score)


def _by_strategy(strategy: Strategy) -> Callable[[SimHost, Pod, Seat], int]:
    needs = _Needs()

    def score(host: SimHost, pod: Pod, _: Seat) -> int:
        record = record_of(host.name, host, is_single=True)
        return match.score(record, needs.of(pod), strategy, {})

    return score


def _by_packing(packed: Packing) -> Callable[[SimHost, Pod, Seat], int]:
    def score(host: SimHost, _: Pod, seat: Seat) -> int:
        cpus = [[n.get("cpu", 0) for n in room.nodes] for room in (host.room, seat.after)]
        return packing.score(packed, *cpus)

    return score


def _by_fragments(mix: Mix) -> Callable[[SimHost, Pod, Seat], int]:
    growth = Growth(mix)
    known: dict[int, tuple[Room, float]] = {}  # of hosts as they are now

    def score(host: SimHost, _: Pod, seat: Seat) -> int:
        before = known.get(host.index)
        if before is None or before[0] is not host.room:
            amount = growth.amount(host.rooms, host.state, host.room)
            before = known[host.index] = (host.room, amount)
        after = growth.amount(host.rooms, seat.state or host.state, seat.after)
        return growth.score(before[1], after)

    return score


def record_of(name: str, host: SimHost, *, is_single: bool = False) -> HostRecord:
    """What the host publishes now, as the common rules read it."""
    frame = host.frame
    settings = frame.host.settings
    shared = {n: a * NANOS for n, a in host.room.total.items() if is_memory_type(n)}
    zones = tuple(
        ZoneRecord(
            node.id,
            shared | {n: amount * NANOS for n, amount in own.items()},
            dict(zip((n.id for n in frame.host.info.nodes), node.distances or (), strict=False)),
        )
        for node, own in zip(
            sorted(frame.host.info.nodes, key=lambda n: n.id), host.room.nodes, strict=True
        )
    )
    policy = SINGLE_NUMA_NODE if is_single else settings.topology_policy
    config = TopologyConfig(policy, settings.topology_scope)
    return HostRecord(name, config, zones, offered(host.allocatable))


_EXACT: Final[Mapping[str, Callable[[], Callable[[SimHost, Pod, Seat], int]]]] = {
    "least-allocated": lambda: _by_strategy(Strategy.LEAST_ALLOCATED),
    "most-allocated": lambda: _by_strategy(Strategy.MOST_ALLOCATED),
    "balanced": lambda: _by_strategy(Strategy.BALANCED_ALLOCATION),
    "least-numa-nodes": lambda: _by_strategy(Strategy.LEAST_NUMA_NODES),
    "keep-whole": lambda: _by_packing(Packing.KEEP_WHOLE),
    "spread": lambda: _by_packing(Packing.SPREAD),
}
NAMES: Final = ("totals", "upstream", "fragmentation", *(f"numalign/{name}" for name in _EXACT))
STALENESS_SECONDS: Final = 60.0  # an exporter that looks once a minute


def scheduler_of(text: str, mix: Mix) -> Scheduler:
    """The scheduler that a scenario names; ``upstream:SECONDS`` says how stale topologies are."""
    name, _, seconds = text.partition(":")
    if name == "totals" and not seconds:
        return Scheduler("totals", totals_score, is_random_among_equals=True)
    if name == "upstream":
        try:
            stale = float(seconds or STALENESS_SECONDS)
        except ValueError:
            stale = -1.0
        if 0 <= stale < math.inf:
            found = upstream(stale)
            return Scheduler(text, found.score, found.is_random_among_equals, stale)
    if name == "fragmentation" and not seconds:
        return exact("fragmentation", _by_fragments(mix))
    scoring = name.removeprefix("numalign/") if name != "numalign" else "least-allocated"
    if scoring in _EXACT and name.startswith("numalign") and not seconds:
        return exact(text, _EXACT[scoring]())
    raise ConfigError(f"found the scheduler {text!r}, expected one of {', '.join(NAMES)}")
