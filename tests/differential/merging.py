"""From the events of several runs to one expected object of the vector format.

What differs between runs comes from the order of Go maps and is nothing to agree with: texts become
alternatives, device ids go, and the first step that differs otherwise cuts the scenario.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Mapping[str, Any]

# The real code tries every combination of hints: with many NUMA nodes it is slow, but it does end.
SLOW_MERGE = "iterateAllProviderTopologyHints"


@dataclass
class Run:
    """One play of a scenario, as far as it got."""

    start: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, str] | None = None


@dataclass(frozen=True)
class Merged:
    """A line of the vector format, and how the real code broke in the step after its last."""

    line: dict[str, Any]
    broken: Literal["hang", "crash"] | None = None
    broken_text: str = ""


def merged(scenario: Json, result: Json) -> Merged:
    """What all runs agree on."""
    runs = _runs(result["events"])
    broken: Literal["hang", "crash"] | None = None
    if result.get("hang") or result.get("crash"):
        broken = "hang" if result.get("hang") else "crash"
        if len(runs) > 1 or SLOW_MERGE in result.get("stack", ""):
            broken = None  # the first run ended well, or this one would have in the end
    expected: dict[str, Any] = {"id": scenario["id"], "runs": len(runs), "steps": []}
    steps: list[dict[str, Any]] = []
    if runs:
        _merge_starts(expected, [run.start for run in runs])
        steps = _merge_steps([run.steps for run in runs])
    total = len(scenario["steps"])
    defects = [[i, kind] for i, step in enumerate(steps) for kind in step.pop("defects", ())]
    if defects:
        expected["real_code_defects"] = defects
    expected["steps"] = steps
    if len(steps) < total:
        expected["truncated_from"] = total
        broken = broken if len(runs) == 1 else None
    else:
        expected["files"] = _merge_files(runs)
    line = {
        "scenario": {**scenario, "steps": scenario["steps"][: len(steps)]},
        "expected": expected,
    }
    return Merged(line, broken, str(result.get("crash") or result.get("stack") or ""))


def _runs(events: Sequence[Json]) -> list[Run]:
    runs: list[Run] = []
    for event in events:
        if event["run"] == len(runs):
            runs.append(Run())
        run = runs[-1]
        if "start" in event:
            run.start = dict(event["start"])
        if "step" in event:
            run.steps.append(dict(event["step"]))
        if "files" in event:
            run.files = dict(event["files"])
    return runs


def _merge_starts(expected: dict[str, Any], starts: Sequence[dict[str, Any]]) -> None:
    first = dict(starts[0])
    texts = sorted({start["start_error"] for start in starts if "start_error" in start})
    if len(texts) > 1:
        del first["start_error"]
        first["start_error_any_of"] = texts
    expected.update(first)


def _merge_steps(runs: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for steps in zip(*runs, strict=False):
        if len({json.dumps(_stable(step), sort_keys=True) for step in steps}) > 1:
            break
        found.append(_merged_step(steps))
    return found


def _answers(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [step, *step.get("readmit", ())]


def _held_devices(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        held
        for answer in _answers(step)
        for container in answer.get("containers") or ()
        for held in container.get("devices", {}).values()
    ]


def _stable(step: dict[str, Any]) -> dict[str, Any]:
    """A step without what may differ between runs that decided the same."""
    copy = deepcopy(step)
    for answer in _answers(copy):
        answer.pop("message", None)
    for held in _held_devices(copy):
        held.pop("ids")
    return copy


def _merged_step(steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = deepcopy(steps[0])
    for answer, *others in zip(_answers(first), *map(_answers, steps), strict=True):
        texts = sorted({other["message"] for other in others if "message" in other})
        if len(texts) > 1:
            del answer["message"]
            answer["message_any_of"] = texts
    for held, *others in zip(_held_devices(first), *map(_held_devices, steps), strict=True):
        if any(other["ids"] != held["ids"] for other in others):
            del held["ids"]
    return first


def _merge_files(runs: Sequence[Run]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    written = [run.files or {} for run in runs]
    for name in sorted({name for files in written for name in files}):
        texts = {files.get(name) for files in written}
        if len(texts) == 1:
            found[name] = texts.pop()
        else:
            found[f"{name}_unstable"] = True
    return found
