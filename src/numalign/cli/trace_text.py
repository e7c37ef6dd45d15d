"""The trace of a decision as text, from the plain values that /decisions gives.

The lines are those of ``core.trace_view.as_lines``; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numalign.core.sets import format_list, mask_of


def lines_of(trace: Iterable[Mapping[str, Any]]) -> list[str]:
    """One fact per line."""
    return [line for step in trace for line in _lines(step)]


def hint_text(hint: Mapping[str, Any]) -> str:
    """A hint as ``{0-1}+``: the nodes, and + for preferred or - for not."""
    nodes = "any" if hint["nodes"] is None else "{" + format_list(mask_of(hint["nodes"])) + "}"
    return nodes + ("+" if hint["preferred"] else "-")


def _lines(step: Mapping[str, Any]) -> Iterator[str]:
    where = "pod" if step["container"] is None else f"container {step['container']}"
    if step["step"] == "allocate":
        yield f"{where}: {step['provider']} {step['error'] or 'gave what was asked'}"
        return
    for provider, answer in step["providers"].items():
        if not answer:
            yield f"{where}: {provider} has no preference"
            continue
        for resource, found in answer.items():
            yield f"{where}: {provider} {resource}: {_answer_text(found)}"
    verdict = "admitted" if step["admitted"] else "refused"
    yield f"{where}: merged {hint_text(step['merged'])}, {verdict}"


def _answer_text(answer: Mapping[str, Any]) -> str:
    if answer["affinity"] != "hints":
        return str(answer["affinity"])
    text = " ".join(hint_text(hint) for hint in answer["hints"])
    return text if answer["complete"] else f"{text} ..."
