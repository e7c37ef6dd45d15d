"""A refusal by the topology policy in words: which resources, on which nodes, and by how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.core.explain.causes import Cause, How
from numalign.core.explain.demands import Demand, amount_text, free_text, plain_amount
from numalign.core.explain.hints import LISTED_NODES_MAX, by_resource, conflicts, preferred_singles
from numalign.core.kubelet.admission import pod_level
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.decisions import MergeStep
from numalign.core.kubelet.topology.hints import Affinity, HintSet, ResourceHints
from numalign.core.kubelet.topology.policy import TopologyPolicy
from numalign.core.machine.labels import nodes as node_words
from numalign.core.values.sets import NodeSet, ids_of
from numalign.core.values.sizes import counted

SINGLE = "single-numa-node"
SETS_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class MergeWords:
    text: str
    resources: tuple[str, ...]
    facts: tuple[str, ...]
    conflict: tuple[str, ...]  # all that do not agree, the cause among them
    is_nowhere: bool


def words(
    draft: Draft,
    topology: TopologyPolicy,
    step: MergeStep,
    wanted: Mapping[str, Demand],
    cause: Cause | None,
) -> MergeWords:
    answers = by_resource(step)
    found = conflicts(topology, step)
    assert found, "a refused merge has a smallest part that is refused"
    names = found[0] if cause is None else cause.resources
    how = How.UNPROVEN if cause is None else cause.how

    def alone(name: str) -> str:
        if answers[name] is Affinity.NOWHERE:
            return _nowhere(draft, topology, name, wanted.get(name))
        return _alone(topology, name, answers[name], wanted.get(name))

    around = next((some for some in found if set(names) <= set(some)), names)
    if how is How.TOGETHER:
        text = "; it ".join(alone(name) for name in names)
    elif len(around) == 1:
        text = alone(around[0])
    else:
        text = _conflict(topology, around, answers, wanted)
    facts = [
        f"{d.resource}: {amount_text(d.resource, d.asked)} asked, {free_text(d)}."
        for d in wanted.values()
        if d.resource not in around
    ]
    is_nowhere = any(answers[name] is Affinity.NOWHERE for name in names)
    conflict = around if len(around) > 1 and how is not How.TOGETHER else ()
    return MergeWords(f"{_who(step)} {text}", names, tuple(facts), conflict, is_nowhere)


def _who(step: MergeStep) -> str:
    return "the pod as a whole" if step.container is None else f"container {step.container}"


def _asks(name: str, demand: Demand | None) -> str:
    return f"asks for {name}" if demand is None else f"asks for {amount_text(name, demand.asked)}"


# One resource that no node can hold.


def _nowhere(draft: Draft, topology: TopologyPolicy, name: str, demand: Demand | None) -> str:
    problem = _pool_problem(draft, name)
    if problem:
        return f"{_asks(name, demand)}, but {problem}"
    if demand is None:
        return f"asks for {name}, which no NUMA node can give"
    if demand.held and demand.held != demand.asked:
        held = plain_amount(name, demand.held)
        return f"{_asks(name, demand)} but holds {held} from before, and that cannot change"
    missing = demand.asked - demand.free
    sick = f" ({counted(demand.unhealthy, 'device')} unhealthy)" if demand.unhealthy else ""
    if missing <= 0:
        return f"{_asks(name, demand)}, but the free ones are at no NUMA node of this host{sick}"
    if topology.name == SINGLE and 0 < demand.free_on_one < demand.free:
        short = plain_amount(name, demand.asked - demand.free_on_one)
        rule = f"under {SINGLE} all must come from one node: {short} too few"
        return f"{_asks(name, demand)}; {free_text(demand)}{sick}; {rule}"
    return (
        f"{_asks(name, demand)}; {free_text(demand)}{sick}: "
        f"{plain_amount(name, missing)} too few on the whole host"
    )


def _pool_problem(draft: Draft, name: str) -> str | None:
    if not draft.is_pod_level:
        return None
    if name == "cpu":
        return pod_level.cpu_pool_problem(draft.pod, draft.settings)
    short = pod_level.memory_pool_problem(draft.pod, draft.settings)
    return None if short is None else short[1]


# One resource that the policy does not take.


def _alone(
    topology: TopologyPolicy, name: str, answer: ResourceHints, demand: Demand | None
) -> str:
    assert isinstance(answer, HintSet), "what does not care never stands alone in a refusal"
    asks = _asks(name, demand)
    free = "" if demand is None else f"; {free_text(demand)}"
    width = answer.preferred_count
    if topology.name == SINGLE:
        rule = f"under {SINGLE} all must come from one node"
        if width > 1 and (demand is None or demand.most_on_one < demand.asked):
            rule += ", and even on the empty host no node has that much"
        elif demand is not None and demand.free_on_one < demand.asked:
            rule += f": {plain_amount(name, demand.asked - demand.free_on_one)} too few"
        elif demand is not None:
            rule += ", and the nodes with enough now hold memory together with others"
        return f"{asks}{free}; {rule}"
    return (
        f"{asks}{free}; on the empty host {counted(width, 'node')} would do, now none has enough "
        f"by itself, and {topology.name} takes nothing wider"
        if width == 1
        else f"{asks}{free}; on the empty host {width} nodes together would do, now no {width} "
        f"nodes can give it, and {topology.name} takes nothing wider"
    )


# Resources that do not agree.


def _conflict(
    topology: TopologyPolicy,
    names: tuple[str, ...],
    answers: Mapping[str, ResourceHints],
    wanted: Mapping[str, Demand],
) -> str:
    sets = {name: found for name in names if isinstance(found := answers[name], HintSet)}
    if topology.name == SINGLE:
        parts = [
            f"for {_amount(name, wanted)}, which could come from {_only(preferred_singles(found))}"
            for name, found in sets.items()
        ]
        return f"asks {_and(parts)}; under {SINGLE} all must come from the same node"
    widths = {name: found.preferred_count for name, found in sets.items()}
    if len(set(widths.values())) > 1 and all(s.socket_rule is None for s in sets.values()):
        parts = [
            f"for {_amount(name, wanted)}, where {_needs(width)}" for name, width in widths.items()
        ]
        return (
            f"asks {_and(parts)}; {topology.name} wants the very same nodes for all, "
            "so they do not agree"
        )
    parts = [
        f"for {_amount(name, wanted)}, which could come from {_sets_text(found)}"
        for name, found in sets.items()
    ]
    return (
        f"asks {_and(parts)}; {topology.name} wants the very same nodes for all, and "
        "as few as on the empty host"
    )


def _and(parts: list[str]) -> str:
    return ", and ".join(parts)


def _amount(name: str, wanted: Mapping[str, Demand]) -> str:
    return amount_text(name, wanted[name].asked) if name in wanted else name


def _needs(width: int) -> str:
    return "one node is enough" if width == 1 else f"{width} nodes are needed"


def _only(mask: int) -> str:
    return node_words(NodeSet(mask)) if mask else "no single node"


def _sets_text(found: HintSet) -> str:
    """The preferred hints, if they are few."""
    if len(found.nodes) > LISTED_NODES_MAX:
        return f"some sets of {counted(found.preferred_count, 'node')}"
    masks = [h.nodes for h in found.listed() if h.preferred and h.nodes is not None]
    if not masks:
        return f"no {counted(found.preferred_count, 'node')}"
    if all(len(ids_of(mask)) == 1 for mask in masks):
        return node_words(NodeSet(sum(masks)))
    shown = [str(NodeSet(mask)) for mask in masks[:SETS_NAMED_MAX]]
    more = len(masks) - len(shown)
    return "nodes " + " or ".join(shown) + (f" ({more} more sets)" if more else "")
