"""The trace of a decision for people and for machines: one rendering for logs, explain and page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from numalign.core.kubelet.decisions import AllocateStep, MergeStep, Trace
from numalign.core.kubelet.topology.hints import (
    Affinity,
    Hint,
    HintSet,
    ProviderHints,
    ResourceHints,
)
from numalign.core.values.sets import format_list, ids_of, mask_of

HINTS_LISTED_MAX: Final = 64  # hints of one resource that are listed one by one
NODES_LISTED_MAX: Final = 8  # machines up to this size have all hints listed


def as_data(trace: Trace) -> list[dict[str, Any]]:
    """The steps as plain values, ready for JSON."""
    return [_merge_data(s) if isinstance(s, MergeStep) else _give_data(s) for s in trace.steps]


def as_lines(trace: Trace) -> list[str]:
    """The steps as text, one fact per line."""
    return lines_of(as_data(trace))


def lines_of(steps: Iterable[Mapping[str, Any]], *, hints_max: int = HINTS_LISTED_MAX) -> list[str]:
    """The same from plain values, as they come from the agent's API or a file."""
    return [line for step in steps for line in _lines(step, hints_max)]


def hint_data(hint: Hint) -> dict[str, Any]:
    """A hint: node ids (None: any) and whether it is preferred."""
    nodes = None if hint.nodes is None else list(ids_of(hint.nodes))
    return {"nodes": nodes, "preferred": hint.preferred}


def hint_text(hint: Mapping[str, Any]) -> str:
    """A hint as ``{0-1}+``: the nodes, and + for preferred or - for not."""
    nodes = "any" if hint["nodes"] is None else "{" + format_list(mask_of(hint["nodes"])) + "}"
    return nodes + ("+" if hint["preferred"] else "-")


def shown_hints(hints: HintSet) -> tuple[list[Hint], bool]:
    """Hints to show, and whether these are all.

    On large machines only the best ones can be shown: single nodes, exact sets and the least set
    of the preferred size.
    """
    if len(hints.nodes) <= NODES_LISTED_MAX:
        found = list(islice(hints.listed(), HINTS_LISTED_MAX + 1))
        return found[:HINTS_LISTED_MAX], len(found) <= HINTS_LISTED_MAX
    masks = {1 << node for node in ids_of(hints.singles())} | set(hints.exact)
    if hints.socket_rule is None:
        best = hints.best()
        if best is not None and best.nodes is not None:
            masks.add(best.nodes)
    ordered = sorted(masks, key=lambda m: (m.bit_count(), m))
    return [Hint(m, hints.is_preferred(m)) for m in ordered[:HINTS_LISTED_MAX]], False


def _merge_data(step: MergeStep) -> dict[str, Any]:
    return {
        "step": "merge",
        "container": step.container,
        "providers": {name: _provider_data(answer) for name, answer in step.answers.items()},
        "merged": hint_data(step.merged),
        "admitted": step.admitted,
    }


def _provider_data(answer: ProviderHints) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {resource: _answer_data(found) for resource, found in answer.items()}


def _answer_data(answer: ResourceHints) -> dict[str, Any]:
    if isinstance(answer, Affinity):
        return {"affinity": answer.value}
    hints, complete = shown_hints(answer)
    return {
        "affinity": "hints",
        "preferredCount": answer.preferred_count,
        "hints": [hint_data(hint) for hint in hints],
        "complete": complete,
    }


def _give_data(step: AllocateStep) -> dict[str, Any]:
    return {
        "step": "allocate",
        "container": step.container,
        "provider": step.provider,
        "error": step.error,
    }


def _lines(step: Mapping[str, Any], hints_max: int) -> Iterator[str]:
    where = "pod" if step["container"] is None else f"container {step['container']}"
    if step["step"] == "allocate":
        yield f"{where}: {step['provider']} {step['error'] or 'gave what was asked'}"
        return
    for provider, answer in step["providers"].items():
        if not answer:
            yield f"{where}: {provider} has no preference"
            continue
        for resource, found in answer.items():
            yield f"{where}: {provider} {resource}: {_answer_text(found, hints_max)}"
    verdict = "admitted" if step["admitted"] else "refused"
    yield f"{where}: merged {hint_text(step['merged'])}, {verdict}"


def _answer_text(answer: Mapping[str, Any], hints_max: int) -> str:
    if answer["affinity"] != "hints":
        return str(answer["affinity"])
    hints = sorted(answer["hints"], key=lambda hint: not hint["preferred"])
    shown = answer["hints"] if len(hints) <= hints_max else hints[:hints_max]
    text = " ".join(map(hint_text, shown))
    return text if answer["complete"] and len(shown) == len(hints) else f"{text} ..."
