"""What would make a refused pod fit: changes that the core itself has admitted, smallest first.

Nothing is listed that was only thought to help: every change was carried out on a copy of the
snapshot and the host's verdict asked for. The searches yield what they find at once and ask
``going`` before each verdict, so that a caller can show progress and stop at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numalign.core.what_if import evictions
from numalign.core.what_if import host as what_if_host
from numalign.core.what_if import pod as what_if_pod
from numalign.core.what_if.search import RUNS_MAX, Change, Kind, Search, StoppedError, freed_of


def changes(search: Search) -> Iterator[Change]:
    """All single changes that let the host admit the pod, as they are found.

    Sort them by ``rank``. Each search has its own share of verdicts, so that one that finds
    nothing does not starve the next.
    """
    parts: tuple[tuple[str, Callable[[Search], Iterator[Change]]], ...] = (
        ("pod created anew", _anew),
        ("order of containers", what_if_pod.orders),
        ("requests", what_if_pod.requests),
        ("quality of service", what_if_pod.classes),
        ("unhealthy devices", what_if_host.repairs),
        ("settings of the host", what_if_host.settings),
        ("pods that leave", evictions.leavings),
    )
    for stage, part in parts:
        search.stage = stage
        search.runs_max = search.runs + RUNS_MAX
        try:
            yield from part(search)
        except StoppedError:
            if search.runs < search.runs_max:
                return


def _anew(search: Search) -> Iterator[Change]:
    case, uid = search.case, search.case.pod.uid
    state = case.before
    if not any(uid in held for held in (state.cpu.entries, state.memory.entries)) and (
        uid not in state.devices.entries and uid not in state.cpu.pod_sets
    ):
        return
    freed = freed_of(case.host, state, (uid,))
    verdict = search.admits(case.pod, state=freed)
    if verdict is not None:
        text = "delete the pod and create it again: what it holds from before stands in its way"
        yield Change(Kind.RECREATE, text, case.pod, verdict)
