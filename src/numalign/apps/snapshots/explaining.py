"""Asks a host about pods and puts all that it says into plain values: explain and what-if."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numalign.apps.snapshots import verdicts
from numalign.core.explain import placement_cost
from numalign.core.explain.causes import Case
from numalign.core.explain.explain import asked, explain
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.decisions import Admitted
from numalign.core.views import explanation as explain_view
from numalign.core.what_if import largest_fit
from numalign.core.what_if.search import Going, Search
from numalign.core.what_if.what_if import changes
from numalign.wire.pods.records import PodRecord

SHOWN_MAX = 24  # changes of one answer


def answers(
    snapshot: HostSnapshot, records: Iterable[PodRecord], *, going: Going, search: bool = True
) -> Iterator[dict[str, Any]]:
    """What the host says to each pod in turn, why, and what would help."""
    for outcome in verdicts.outcomes(snapshot, records):
        case = asked(outcome.before, outcome.pod)
        found = answer(outcome.before, case, going=going, search=search)
        if isinstance(outcome.verdict, Admitted):
            found["placements"] = verdicts.as_data(outcome)["containers"]
        yield found


def answer(
    snapshot: HostSnapshot, case: Case, *, going: Going, search: bool = True
) -> dict[str, Any]:
    """The explanation of one decision with costs or changes, as plain values."""
    found = answer_without_costs(case, going=going, search=search, owners=snapshot.owners)
    if isinstance(case.verdict, Admitted):
        found["costs"] = costs(snapshot, case, case.verdict)
    return found


def answer_without_costs(
    case: Case,
    *,
    going: Going,
    search: bool = True,
    owners: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The same where the machine is known only as the kubelet sees it."""
    explanation = explain(case)
    found = explain_view.as_data(explanation)
    found["map"] = explain_view.map_data(case)
    if search and not isinstance(case.verdict, Admitted):
        steps = Search(case, explanation, going=going, owners=owners or {})
        listed = sorted(changes(steps), key=lambda change: change.rank)
        found["changes"] = [explain_view.change_data(c) for c in listed[:SHOWN_MAX]]
        found["complete"] = not steps.is_stopped
        found["shapes"] = [
            explain_view.shape_data(shape)
            for shape in largest_fit.largest(case.host, case.before, case.totals)
        ]
    return found


def costs(snapshot: HostSnapshot, case: Case, verdict: Admitted) -> list[dict[str, Any]]:
    """How far each container would reach; an estimate."""
    host, state = case.host, case.after
    pool = host.cpu_topology.all if host.cpu is None else state.cpu.shared
    found = placement_cost.costs(
        snapshot.machine, host.cpu_topology, state.devices, verdict.placements, pool
    )
    return [explain_view.cost_data(cost) for cost in found]
