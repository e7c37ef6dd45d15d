"""The directory of manifests as others see it: each file, its pods, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from numalign.adapters.local.manifests import Manifest, ManifestFile
from numalign.apps.agent.model import AgentState
from numalign.apps.agent.views.answers import ManifestList, ManifestPod, ManifestStatus

PROBLEMS_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at the last look at the directory."""

    directory: str = ""  # empty: none is followed
    files: tuple[ManifestFile, ...] = ()
    passed_over: int = 0  # files beyond the limit
    problem: str = ""  # of the directory as a whole


def manifest_list(look: Look, state: AgentState) -> ManifestList:
    """All of it as an answer."""
    return ManifestList(
        look.directory,
        look.problem or _too_many(look),
        [
            ManifestStatus(
                one.name,
                [_pod(pod, state) for pod in one.pods],
                _problem(one, state),
                list(one.notes),
            )
            for one in look.files
        ],
    )


def manifest_problems(look: Look, state: AgentState) -> list[str]:
    """What is wrong with the directory and its files, one line each, up to a limit."""
    found = [text for text in (look.problem, _too_many(look)) if text]
    of_files = [f"manifest {name}: {text}" for name, text in _failing(look, state)]
    more = len(of_files) - PROBLEMS_SHOWN_MAX
    found += of_files[:PROBLEMS_SHOWN_MAX]
    return [*found, f"{more} more manifests fail: numalign get manifests"] if more > 0 else found


def manifest_counts(look: Look, state: AgentState) -> dict[str, int]:
    """How many files are taken as they are, have a problem, or are too many."""
    failing = sum(1 for _ in _failing(look, state))
    return {
        "taken": len(look.files) - failing,
        "failing": failing,
        "passed_over": look.passed_over,
    }


def _failing(look: Look, state: AgentState) -> Iterator[tuple[str, str]]:
    for one in look.files:
        if text := _problem(one, state):
            yield one.name, text


def _problem(one: ManifestFile, state: AgentState) -> str:
    """Of the file itself, or that its pods cannot be taken yet."""
    put_off = [state.put_off[pod.uid].why for pod in one.pods if pod.uid in state.put_off]
    return "; ".join(dict.fromkeys(filter(None, [one.problem, *put_off])))


def _too_many(look: Look) -> str:
    if not look.passed_over:
        return ""
    return (
        f"{look.directory}: found {len(look.files) + look.passed_over} files, expected at most "
        f"{len(look.files)}; {look.passed_over} wait until others are gone"
    )


def _pod(pod: Manifest, state: AgentState) -> ManifestPod:
    metadata = pod.record.metadata
    known = state.pods.get(pod.uid)
    put_off = "PutOff" if pod.uid in state.put_off else ""
    phase = put_off if known is None else known.phase.value
    return ManifestPod(metadata.namespace or "default", metadata.name, pod.uid, phase)
