"""A plan of moves for a cluster, as plain values for table, JSON and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from numalign.core.fleet.capacity import FleetHost
from numalign.core.fleet.defrag.align import aligned
from numalign.core.fleet.defrag.descent import lowered
from numalign.core.fleet.defrag.make_room import Search, room_for
from numalign.core.fleet.defrag.places import Move, Places, first_refused
from numalign.core.fleet.measures import Mix, ReferencePod
from numalign.core.pod import Pod
from numalign.wire.kubernetes.budgets import Budget
from numalign.wire.kubernetes.scheduling import ClusterPod

# Controllers that make another pod elsewhere once one is evicted.
REPLACED_BY: Final = frozenset({"ReplicaSet", "StatefulSet", "Job", "ReplicationController"})
MIX_SIZE_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may be moved."""

    selector: Callable[[Mapping[str, str]], bool] = lambda _: True
    namespaces: frozenset[str] = frozenset()  # empty: all
    priority_max: int | None = None
    budgets: tuple[Budget, ...] = ()

    def objection(self, pod: ClusterPod) -> str | None:
        """Why a pod must stay; None if it may be moved."""
        if pod.is_over or not pod.host or pod.is_deleted:
            return "not running"
        if pod.owner.partition("/")[0] not in REPLACED_BY:
            return "nothing would replace it"
        if self.namespaces and pod.pod.namespace not in self.namespaces:
            return "in another namespace"
        if not self.selector(pod.labels):
            return "not selected"
        if self.priority_max is not None and pod.priority > self.priority_max:
            return "too important"
        for budget in self.budgets:
            if budget.covers(pod.pod.namespace, pod.labels) and budget.allowed < 1:
                return f"disruption budget {budget.name}"
        return None


@dataclass(frozen=True, slots=True)
class DefragPlan:
    """What to do, in this order; every step was proven by the managers of both hosts."""

    goal: str
    moves: tuple[Move, ...] = ()
    lower_bound: int | None = None  # no plan for this goal has fewer moves
    targets: Mapping[str, str] = field(default_factory=dict)  # pod that is let in -> host
    unresolved: tuple[str, ...] = ()
    before: float | None = None  # F_numa, in CPUs
    after: float | None = None
    stays: Mapping[str, int] = field(default_factory=dict)  # why pods may not move -> how many

    def record(self) -> dict[str, Any]:
        return {
            "goal": self.goal,
            "moves": [
                {"pod": m.name, "from": m.origin, "to": m.target, "uid": m.pod} for m in self.moves
            ],
            "lowerBound": self.lower_bound,
            "targets": dict(self.targets),
            "unresolved": list(self.unresolved),
            "fNumaCpus": None
            if self.before is None
            else {"before": self.before, "after": self.after},
            "notMovable": dict(self.stays),
        }


@dataclass(frozen=True, slots=True)
class Question:
    """A fleet and who may be moved in it."""

    fleet: Places
    movable: frozenset[str]
    names: dict[str, str]
    stays: dict[str, int]


def question_of(hosts: Iterable[FleetHost], pods: Iterable[ClusterPod], rules: Rules) -> Question:
    known = {pod.pod.uid: pod for pod in pods}
    movable: set[str] = set()
    stays: dict[str, int] = {}
    for uid, pod in known.items():
        why = rules.objection(pod)
        if why is None:
            movable.add(uid)
        elif pod.host and not pod.is_over:
            stays[why] = stays.get(why, 0) + 1
    names = {uid: f"{pod.pod.namespace}/{pod.pod.name}" for uid, pod in known.items()}
    return Question(Places.of(hosts), frozenset(movable), names, dict(sorted(stays.items())))


def let_in(question: Question, pods: Sequence[Pod]) -> DefragPlan:
    """Moves that let all of these pods in, the largest first."""
    fleet, moves, targets = question.fleet, list[Move](), dict[str, str]()
    unresolved: list[str] = []
    moved: set[str] = set()
    bounds: list[int] = []
    for pod in sorted(pods, key=_cpus, reverse=True):
        search = Search(question.movable - moved, question.names)
        fleet, plan = room_for(fleet, pod, search)
        name = f"{pod.namespace or 'default'}/{pod.name}"
        bounds.append(plan.lower_bound)
        if plan.target is None:
            unresolved.append(name)
        else:
            targets[name] = plan.target
            moves += plan.moves
            moved |= {move.pod for move in plan.moves}
    names = ", ".join(pod.name for pod in pods)
    bound = max(bounds, default=0)
    goal = f"let in {names}"
    return _proven(
        question,
        DefragPlan(goal, tuple(moves), bound, targets, tuple(unresolved), stays=question.stays),
    )


def _cpus(pod: Pod) -> int:
    return sum(c.limits["cpu"].milli() for c in pod.containers if "cpu" in c.limits)


def align(question: Question) -> DefragPlan:
    found = aligned(question.fleet, question.movable, question.names)
    return _proven(
        question,
        DefragPlan(
            "align what sits on more NUMA nodes than it needs",
            found.moves,
            found.misaligned - len(found.unhelped),
            unresolved=found.unhelped,
            stays=question.stays,
        ),
    )


def lower(question: Question, mix: Mix, moves_max: int) -> DefragPlan:
    found = lowered(question.fleet, question.movable, question.names, mix, moves_max)
    return _proven(
        question,
        DefragPlan(
            f"lower F_numa with at most {moves_max} moves",
            found.moves,
            before=found.before,
            after=found.after,
            stays=question.stays,
        ),
    )


def _proven(question: Question, plan: DefragPlan) -> DefragPlan:
    refused = first_refused(question.fleet, plan.moves)
    assert refused is None, f"the plan moves {refused} to a host that would refuse it"
    return plan


def running_mix(pods: Iterable[ClusterPod]) -> Mix:
    """What runs now as the reference mix: the most frequent shapes of Guaranteed pods."""
    counts: dict[tuple[tuple[str, int], ...], tuple[int, Pod]] = {}
    for pod in pods:
        core = pod.pod
        if pod.is_over or len(core.in_order) != 1 or "cpu" not in core.in_order[0].limits:
            continue
        key = tuple(sorted((n, q.nanos) for n, q in core.in_order[0].limits.items()))
        count, first = counts.get(key, (0, core))
        counts[key] = (count + 1, first)
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    return [ReferencePod(p.name, p, count) for _, (count, p) in ordered[:MIX_SIZE_MAX]]


def commands(plan: DefragPlan) -> list[str]:
    """The plan for a shell; each pod is to be running on its new host before the next line."""
    lines = [f"# {plan.goal}: {len(plan.moves)} moves, in this order"]
    for move in plan.moves:
        namespace, _, name = move.name.rpartition("/")
        place = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        body = (
            '{"apiVersion":"policy/v1","kind":"Eviction","metadata":'
            f'{{"name":"{name}","namespace":"{namespace}"}}}}'
        )
        lines.append(
            f"echo '{body}' | kubectl create --raw {place} -f -  # {move.origin} -> {move.target}"
        )
    return lines
