"""The hints of one merge: which resources conflict, and a small table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from numalign.core.kubelet.decisions import MergeStep
from numalign.core.kubelet.topology.hints import Affinity, HintSet, ResourceHints
from numalign.core.kubelet.topology.merge import mask_where
from numalign.core.kubelet.topology.policy import TopologyPolicy
from numalign.core.values.sets import bits, ids_of, mask_of

ROWS_MAX: Final = 16  # node sets in the table
LISTED_NODES_MAX: Final = 8  # machines up to this size have all their node sets looked at
RESOURCES_MAX: Final = 8  # resources of one merge whose subsets are searched


@dataclass(frozen=True, slots=True)
class HintRow:
    """One set of nodes: for each resource True (preferred), False (a hint) or None (no hint)."""

    nodes: int
    cells: tuple[bool | None, ...]


@dataclass(frozen=True, slots=True)
class HintTable:
    """Node sets against resources. Resources that do not care are not in it."""

    resources: tuple[str, ...]
    rows: tuple[HintRow, ...]
    left_out: bool  # whether there are further sets with hints
    nowhere: tuple[str, ...]  # resources that no set of nodes can hold
    anywhere: tuple[str, ...]  # resources, or providers, that do not care


def by_resource(step: MergeStep) -> dict[str, ResourceHints]:
    """The answers of a merge by resource; a provider that does not care under its own name."""
    found: dict[str, ResourceHints] = {}
    for provider, answer in step.answers.items():
        if answer:
            found |= answer
        else:
            found[provider] = Affinity.ANYWHERE
    return found


def conflicts(topology: TopologyPolicy, step: MergeStep) -> list[tuple[str, ...]]:
    """The smallest sets of resources whose merge alone is refused already, all of that size."""
    answers = {
        name: answer
        for name, answer in by_resource(step).items()
        if answer is not Affinity.ANYWHERE
    }
    if len(answers) > RESOURCES_MAX:
        return [tuple(answers)]
    for size in range(1, len(answers) + 1):
        found = [
            names
            for names in combinations(answers, size)
            if not is_agreed(topology, {name: answers[name] for name in names})
        ]
        if found:
            # What is nowhere at all comes first: nothing else needs to be said of it.
            return sorted(found, key=lambda names: answers[names[0]] is not Affinity.NOWHERE)
    return []


def is_agreed(topology: TopologyPolicy, answers: Mapping[str, ResourceHints]) -> bool:
    """Whether the policy admits these answers alone."""
    _, admitted = topology.decide(topology.merger, list(answers.values()), explain=False)
    return admitted


def preferred_singles(answer: HintSet) -> int:
    return mask_where(answer.singles(), answer)


def table(step: MergeStep, all_nodes: int) -> HintTable | None:
    """The hints of a merge; None if no resource named any node."""
    answers = by_resource(step)
    sets = {name: found for name, found in answers.items() if isinstance(found, HintSet)}
    nowhere = tuple(name for name, found in answers.items() if found is Affinity.NOWHERE)
    anywhere = tuple(name for name, found in answers.items() if found is Affinity.ANYWHERE)
    if not sets and not nowhere:
        return None
    rows: list[HintRow] = []
    left_out = False
    for mask in _candidates(sets, all_nodes):
        cells = tuple(_cell(found, mask) for found in sets.values())
        if all(cell is None for cell in cells):
            continue
        if mask.bit_count() > 1 and True not in cells and mask != all_nodes:
            left_out = True
            continue
        rows.append(HintRow(mask, cells))
    left_out = left_out or len(rows) > ROWS_MAX or all_nodes.bit_count() > LISTED_NODES_MAX
    return HintTable(tuple(sets), tuple(rows[:ROWS_MAX]), left_out, nowhere, anywhere)


def _cell(found: HintSet, mask: int) -> bool | None:
    return found.is_preferred(mask) if found.contains(mask) else None


def _candidates(sets: Mapping[str, HintSet], all_nodes: int) -> Iterator[int]:
    nodes = ids_of(all_nodes)
    if len(nodes) <= LISTED_NODES_MAX:
        for size in range(1, len(nodes) + 1):
            for chosen in combinations(nodes, size):
                yield mask_of(chosen)
        return
    masks = {1 << node for node in bits(all_nodes)} | {all_nodes}
    for found in sets.values():
        masks |= found.exact
        if found.socket_rule is None:
            best = found.best()
            if best is not None and best.nodes is not None:
                masks.add(best.nodes)
    yield from sorted(masks, key=lambda mask: (mask.bit_count(), mask))
