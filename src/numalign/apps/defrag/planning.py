"""A plan of moves for a cluster, as plain values for table, JSON and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from numalign.core.cluster.between_pods.neighbours import Newcomer
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.interleavings import class_of
from numalign.core.fleet import capacity
from numalign.core.fleet.capacity import FleetHost
from numalign.core.fleet.defrag.align import aligned
from numalign.core.fleet.defrag.allowed import Allowed
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
        if pod.requirements.unsupported:
            return f"its {', '.join(pod.requirements.unsupported)} may hold it where it is"
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
    least: float | None = None  # below which no plan of so many moves gets
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
            else {"before": self.before, "after": self.after, "noPlanBelow": self.least},
            "notMovable": dict(self.stays),
        }


@dataclass(frozen=True, slots=True)
class Question:
    """A fleet and who may be moved in it."""

    fleet: Places
    movable: frozenset[str]
    names: dict[str, str]
    stays: dict[str, int]


def question_of(
    hosts: Iterable[FleetHost],
    pods: Iterable[ClusterPod],
    rules: Rules,
    facts: Iterable[HostFacts] = (),
    wanted: Iterable[ClusterPod] = (),
) -> Question:
    """``facts`` are those of all hosts; ``wanted`` the pods that are to be let in."""
    known = {pod.pod.uid: pod for pod in pods if not pod.is_over}
    movable: set[str] = set()
    stays: dict[str, int] = {}
    for uid, pod in known.items():
        why = rules.objection(pod)
        if why is None:
            movable.add(uid)
        elif pod.host:
            stays[why] = stays.get(why, 0) + 1
    names = {uid: f"{pod.pod.namespace}/{pod.pod.name}" for uid, pod in known.items()}
    allowed = Allowed(
        {host.name: host for host in facts},
        {pod.pod.uid: _newcomer(pod) for pod in (*known.values(), *wanted)},
        {uid: pod.host for uid, pod in known.items() if pod.host},
    )
    fleet = Places.of(hosts, allowed)
    return Question(fleet, frozenset(movable), names, dict(sorted(stays.items())))


def _newcomer(pod: ClusterPod) -> Newcomer:
    namespace = pod.pod.namespace or "default"
    # Where it is to go is what is asked; that it names its present host is no rule.
    requirements = replace(pod.requirements, host_name="")
    return Newcomer(pod.pod.uid, namespace, pod.labels, requirements, pod.rules)


def let_in(question: Question, pods: Sequence[Pod]) -> DefragPlan:
    """Moves that let all of these pods in, or none: half a gang is of no use.

    They are let in one after the other, the largest first and, if that fails, the smallest first.
    """
    names = ", ".join(_name_of(pod) for pod in pods)
    by_size = sorted(pods, key=_cpus, reverse=True)
    found = _one_after_the_other(question, by_size)
    if found.unresolved and len(pods) > 1:
        again = _one_after_the_other(question, by_size[::-1])
        found = found if again.unresolved else again
    targets = {} if found.unresolved else found.targets
    plan = DefragPlan(
        f"let in {names}",
        () if found.unresolved else found.moves,
        _least_moves(question, pods),
        targets,
        tuple(found.unresolved),
        stays=question.stays,
    )
    return _proven(question, plan)


def _name_of(pod: Pod) -> str:
    # A shape is no object, so it is in no namespace.
    return pod.name if "=" in pod.name else f"{pod.namespace or 'default'}/{pod.name}"


@dataclass(frozen=True, slots=True)
class _Gang:
    moves: tuple[Move, ...]
    targets: dict[str, str]
    unresolved: list[str]


def _one_after_the_other(question: Question, pods: Sequence[Pod]) -> _Gang:
    fleet, moves, targets = question.fleet, list[Move](), dict[str, str]()
    unresolved: list[str] = []
    for pod in pods:
        search = Search(question.movable - {m.pod for m in moves}, question.names)
        fleet, plan = room_for(fleet, pod, search)
        name = _name_of(pod)
        if plan.target is None:
            unresolved.append(name)
        else:
            targets[name] = plan.target
            moves += plan.moves
    return _Gang(tuple(moves), targets, unresolved)


def _least_moves(question: Question, pods: Sequence[Pod]) -> int:
    """What every plan needs: as much as any pod alone, and one if equal pods do not all fit now."""
    alike: dict[object, list[Pod]] = {}
    for pod in pods:
        key = (class_of(pod), question.fleet.allowed.rules_of(pod.uid))
        alike.setdefault(key, []).append(pod)
    bounds = [0]
    for first, *others in alike.values():
        search = Search(question.movable, question.names)
        bounds.append(room_for(question.fleet, first, search)[1].lower_bound)
        if others and _fits_now(question.fleet, first) <= len(others):
            bounds.append(1)
    return max(bounds)


def _fits_now(fleet: Places, pod: Pod) -> int:
    return sum(
        capacity.filled(place.frame, place.state, pod).count
        for place in fleet.values()
        if fleet.allowed.ever(pod.uid, place.name)
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
            least=found.least,
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


_MOVE: Final = """\
# Each pod is to run on its new host before the next one is evicted; else this ends.
set -eu
running() { kubectl get pods -n "$1" -o name \\
  --field-selector "spec.nodeName=$2,status.phase=Running" | wc -l; }
move() {
  before=$(running "$1" "$3")
  printf '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s"}}' "$2" |
    kubectl create --raw "/api/v1/namespaces/$1/pods/$2/eviction" -f -
  for _ in $(seq 150); do
    [ "$(running "$1" "$3")" -gt "$before" ] && return
    sleep 2
  done
  echo "$1/$2: no new pod runs on $3 after 300 s: plan anew" >&2
  exit 1
}"""


def commands(plan: DefragPlan) -> list[str]:
    """The plan for a shell."""
    count = "1 move" if len(plan.moves) == 1 else f"{len(plan.moves)} moves"
    lines = [f"# {plan.goal}: {count}, in this order"]
    if not plan.moves:
        return lines
    lines += _MOVE.splitlines()
    for move in plan.moves:
        namespace, _, name = move.name.rpartition("/")
        lines.append(f"move {namespace} {name} {move.target}  # from {move.origin}")
    return lines
