"""Which running pods would have to leave so that a refused one fits, fewest first.

Up to three pods the answer is exact. Not all triples are asked about: a set of pods can only help
if what it frees covers what is missing on at least one set of nodes that the policy could choose,
and that is counted before the core is asked. Pods that hold the same are tried once. Beyond three
the pods that free the most are taken one by one, which need not be the fewest; it is said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from numalign.core.explain.demands import Demand, demands
from numalign.core.explain.explain import Step, empty_state, on_empty_host, pod_name
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.kubelet.admission.verdict import OutOf
from numalign.core.kubelet.decisions import MergeStep
from numalign.core.kubelet.host import HostState
from numalign.core.kubelet.topology.hints import HintSet
from numalign.core.pod import counted, pod_requests
from numalign.core.values.sets import ids_of, mask_of
from numalign.core.what_if.search import Change, Kind, Search, freed_of

EXACT_MAX: Final = 3  # pods up to which the answer is exact
NAMED_MAX: Final = 6  # pods that are named in the text
SHOWN_MAX: Final = 3  # different answers of the same size
COUNTED_MAX: Final = 400_000  # sets of pods whose amounts are counted
ASKED_MAX: Final = 1_000  # sets of pods that the core is asked about
TARGETS_MAX: Final = 256  # node sets that are looked at
GREEDY_TARGETS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Holding:
    """What one running pod would free."""

    uid: str
    parts: tuple[tuple[str, int, int], ...]  # resource, mask of nodes, amount

    def gain(self, need: Shortage) -> int:
        """How much of a need it would cover; memory of several nodes counts for each of them."""
        return sum(
            amount
            for resource, where, amount in self.parts
            if resource == need.resource and (where & need.nodes or not where)
        )


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is missing of a resource on some nodes together; 0: enough, yet it is looked at."""

    resource: str
    nodes: int
    missing: int


# What must be free for the pod, if it is to go to one set of nodes.
Target = tuple[Shortage, ...]


def leavings(search: Search) -> Iterator[Change]:
    """The smallest sets of running pods without which the pod is admitted."""
    if not search.explanation.fits_when_empty:
        return
    holdings = _holdings(search)
    targets = _targets(search)
    budget = _Budget()
    for size in range(1, EXACT_MAX + 1):
        found = 0
        for uids in _candidates(holdings, targets, size, budget):
            change = _without(search, uids, exact=True)
            if change is not None:
                found += 1
                yield change
                if found == SHOWN_MAX:
                    return
        if found:
            return
    found = 0
    for change in _greedy(search, holdings, targets):
        found += 1
        yield change
    if not found:
        yield from _drained(search)


@dataclass(slots=True)
class _Budget:
    """How much of the exact search is left."""

    counted: int = COUNTED_MAX
    asked: int = ASKED_MAX

    @property
    def is_spent(self) -> bool:
        return self.counted < 0 or self.asked < 0


def _drained(search: Search) -> Iterator[Change]:
    """The whole host emptied: also of what is still noted for pods that are gone."""
    case = search.case
    verdict = search.admits(case.pod, state=empty_state(case.host, case.before.devices))
    if verdict is not None:
        text = "drain the host, remove its state files and restart the kubelet"
        yield Change(Kind.HOST, text, case.pod, verdict, drained=True, exact=False)


def _without(search: Search, uids: tuple[str, ...], *, exact: bool) -> Change | None:
    case = search.case
    state = freed_of(case.host, case.before, uids)
    verdict = search.admits(case.pod, state=state)
    if verdict is None:
        return None
    names = [_with_owner(pod_name(case.before.pods[uid]), search.owners.get(uid)) for uid in uids]
    text = f"delete or move {_listed(names)}"
    if not exact:
        text += f" ({len(uids)} pods; found step by step, fewer may be enough)"
    return Change(Kind.LEAVE, text, case.pod, verdict, size=len(uids), leaving=uids, exact=exact)


def _with_owner(name: str, owner: str | None) -> str:
    return name if owner is None else f"{name} (of {owner})"


def _listed(names: list[str]) -> str:
    if len(names) > NAMED_MAX:
        names = [*names[:NAMED_MAX], f"{len(names) - NAMED_MAX} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# What the others hold.


def _holdings(search: Search) -> list[Holding]:
    case = search.case
    uids = [uid for uid in case.before.pods if uid != case.pod.uid]
    if isinstance(case.verdict, OutOf):
        settings = case.host.settings
        found = []
        for uid in uids:
            asked = pod_requests(case.before.pods[uid], settings)
            parts = [(name, 0, counted(name, amount)) for name, amount in asked.items()]
            found.append(Holding(uid, ((PODS, 0, 1), *parts)))
        return found
    return [_holding(search, uid) for uid in uids]


def _holding(search: Search, uid: str) -> Holding:
    state, places = search.case.before, search.case.host.cpu_topology
    parts = [
        ("cpu", bit, (cpus & held).bit_count())
        for held in (_cpus_of(state, uid),)
        for bit, cpus in places.node_bits
        if cpus & held
    ]
    blocks = state.memory.pod_blocks.get(uid)
    if blocks is None:
        own = state.memory.entries.get(uid, {})
        blocks = tuple(block for found in own.values() for block in found)
    parts += [(block.type, mask_of(block.nodes), block.size) for block in blocks]
    for resources in state.devices.entries.get(uid, {}).values():
        for name, held_devices in resources.items():
            resource = state.devices.resources.get(name)
            for device in held_devices.ids:
                nodes = () if resource is None else resource.nodes_of.get(device, ())
                parts.append((name, mask_of(n for n in nodes if n >= 0), 1))
    return Holding(uid, tuple(sorted(parts)))


def _cpus_of(state: HostState, uid: str) -> int:
    held = state.cpu.pod_sets.get(uid, 0)
    for cpus in state.cpu.entries.get(uid, {}).values():
        held |= cpus
    return held


# Where the pod could go.


def _targets(search: Search) -> list[Target]:
    """The sets of nodes that could hold the pod, those that lack the least first.

    Whatever the nodes, the whole host must have room for the whole pod.
    """
    case = search.case
    everywhere = case.host.all_nodes
    if isinstance(case.verdict, OutOf):
        return [tuple(Shortage(s.resource, everywhere, s.missing) for s in case.verdict.shortages)]
    whole = demands(Draft(case.host, case.before, case.pod), None)
    overall = _needs(whole, everywhere)
    if search.explanation.step in {Step.ALLOCATION, Step.SMT_ALIGNMENT}:
        return [overall]
    failing = next((c for c in case.pod.in_order if c.name == search.explanation.container), None)
    wanted = demands(Draft(case.host, case.after, case.pod), failing)
    found = [
        (nodes, _needs(wanted, nodes)) for nodes in _node_sets(search) if _holds(wanted, nodes)
    ]
    found.sort(key=lambda item: (_lack(item[1], wanted), item[0]))
    return [(*needs, *overall) for _, needs in found] or [overall]


def _needs(wanted: Mapping[str, Demand], nodes: int) -> Target:
    return tuple(
        Shortage(name, nodes, max(0, demand.asked - _free(demand, nodes)))
        for name, demand in wanted.items()
    )


def _free(demand: Demand, nodes: int) -> int:
    return sum(room.free for room in demand.rooms if room.nodes & nodes or not room.nodes)


def _holds(wanted: Mapping[str, Demand], nodes: int) -> bool:
    """Whether the nodes would have enough without any pod."""
    return all(
        sum(r.most for r in demand.rooms if r.nodes & nodes or not r.nodes) >= demand.asked
        for demand in wanted.values()
    )


def _lack(needs: Target, wanted: Mapping[str, Demand]) -> float:
    return sum(need.missing / max(1, wanted[need.resource].asked) for need in needs)


def _node_sets(search: Search) -> list[int]:
    """The sets of nodes that the policy could choose, all of the one right size."""
    everywhere = search.case.host.all_nodes
    size = _width(search)
    nodes = ids_of(everywhere)
    found = []
    for chosen in combinations(nodes, size):
        found.append(mask_of(chosen))
        if len(found) > TARGETS_MAX:
            return [everywhere]  # too many: only what the whole host lacks is counted
    return found


def _width(search: Search) -> int:
    """How many nodes the pod takes where nothing is in its way; all if that leaves a choice."""
    topology = search.case.host.topology
    everywhere = search.case.host.all_nodes
    if topology is None or topology.name == "best-effort":
        return everywhere.bit_count()
    if topology.name == "single-numa-node":
        return 1
    alone = on_empty_host(search.case)
    for step in alone.trace.steps:
        if isinstance(step, MergeStep) and step.container == search.explanation.container:
            sets = [a for answer in step.answers.values() for a in (answer or {}).values()]
            hints = [a for a in sets if isinstance(a, HintSet)]
            if hints and all(a.socket_rule is None for a in hints):
                return hints[0].preferred_count
    return everywhere.bit_count()


# Sets of pods.


def _candidates(
    holdings: list[Holding], targets: list[Target], size: int, budget: _Budget
) -> Iterator[tuple[str, ...]]:
    """The sets of so many pods that could free enough somewhere, each kind of set once."""
    seen: set[tuple[tuple[tuple[str, int, int], ...], ...]] = set()
    for target in targets:
        relevant = _relevant(holdings, target, size)
        needs = [need for need in target if need.missing > 0]
        gains = [[one.gain(need) for need in needs] for one in relevant]
        if not _is_reachable(gains, needs, size):
            continue
        for chosen in combinations(range(len(relevant)), size):
            budget.counted -= 1
            if budget.is_spent:
                return
            if any(
                sum([gains[i][k] for i in chosen]) < need.missing for k, need in enumerate(needs)
            ):
                continue
            key = tuple(relevant[i].parts for i in chosen)
            if key not in seen:
                seen.add(key)
                budget.asked -= 1
                yield tuple(relevant[i].uid for i in chosen)


def _relevant(holdings: list[Holding], target: Target, size: int) -> list[Holding]:
    """The pods that hold something wanted there; of those that hold the same, as many as count."""
    alike: dict[tuple[tuple[str, int, int], ...], int] = {}
    found = []
    for one in holdings:
        if not any(one.gain(need) for need in target):
            continue
        alike[one.parts] = alike.get(one.parts, 0) + 1
        if alike[one.parts] <= size:
            found.append(one)
    return sorted(found, key=lambda one: one.parts)


def _is_reachable(gains: list[list[int]], needs: list[Shortage], size: int) -> bool:
    return all(
        sum(sorted((gain[k] for gain in gains), reverse=True)[:size]) >= need.missing
        for k, need in enumerate(needs)
    )


def _greedy(search: Search, holdings: list[Holding], targets: list[Target]) -> Iterator[Change]:
    """More than three pods: those that free the most, then without the needless ones."""
    best: Change | None = None
    for target in targets[:GREEDY_TARGETS_MAX]:
        uids = _taken_greedily(search, holdings, target)
        if uids is None:
            continue
        for uid in list(uids):
            fewer = tuple(other for other in uids if other != uid)
            if fewer and _is_enough(search, fewer):
                uids = fewer
        if best is None or len(uids) < len(best.leaving):
            best = _without(search, uids, exact=False) or best
    if best is not None:
        yield best


def _is_enough(search: Search, uids: tuple[str, ...]) -> bool:
    state = freed_of(search.case.host, search.case.before, uids)
    return search.admits(search.case.pod, state=state) is not None


def _taken_greedily(
    search: Search, holdings: list[Holding], target: Target
) -> tuple[str, ...] | None:
    left = [need.missing for need in target]
    pool = [(one, [one.gain(need) for need in target]) for one in holdings]
    pool = [(one, gains) for one, gains in pool if any(gains)]
    taken: list[str] = []
    while pool:
        best = max(range(len(pool)), key=lambda i: (_worth(pool[i][1], left), -i))
        one, gains = pool.pop(best)
        taken.append(one.uid)
        left = [max(0, amount - gain) for amount, gain in zip(left, gains, strict=True)]
        if not any(left) and _is_enough(search, tuple(taken)):
            return tuple(taken)
    return None


def _worth(gains: list[int], left: list[int]) -> float:
    """How much of what is missing a pod would free; where nothing is, how much it holds at all."""
    if not any(left):
        return sum(1.0 for gain in gains if gain)
    return sum(min(1.0, g / amount) for g, amount in zip(gains, left, strict=True) if amount)
