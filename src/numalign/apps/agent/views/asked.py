"""What a host is asked without changing anything: would this fit, why not, how many more.

The answers are those of ``numalign explain``: the same core, and the same plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.apps.agent.views import answers
from numalign.apps.snapshots import explaining
from numalign.core.cluster.scheduling.rebuild import frame_now
from numalign.core.explain import placement_cost
from numalign.core.fleet.capacity import filled
from numalign.core.fleet.measures import Mix
from numalign.core.fleet.stranded import Stranded, stranded_on, unused_by_shapes
from numalign.core.kubelet.admission.admission import placements
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.machine.machine import Machine
from numalign.core.views import explanation as explain_view
from numalign.wire.pods.records import PodRecord

PODS_ASKED_MAX: Final = 64


def snapshot_of(setup: AgentSetup, state: AgentState, machine: Machine) -> HostSnapshot:
    """The agent's host as everything that asks about hosts takes it."""
    known = {uid: state.pods[uid] for uid in state.host.pods if uid in state.pods}
    return HostSnapshot(
        machine,
        setup.host,
        state.host,
        setup.totals,
        {uid: f"{pod.pod.namespace}/{pod.pod.name}" for uid, pod in known.items()},
        {uid: owner for uid, pod in known.items() if (owner := pod.record.metadata.owner)},
    )


def explained(
    snapshot: HostSnapshot,
    records: Sequence[PodRecord],
    *,
    going: Callable[[], bool],
    search: bool = True,
) -> tuple[list[dict[str, Any]], int]:
    """What the host says to each pod in turn, and how many were not asked about.

    The first pod is asked about in any case; the others as long as it may be going on.
    """

    def is_going(_stage: str, _runs: int) -> bool:
        return going()

    found = []
    asked = explaining.answers(snapshot, records[:PODS_ASKED_MAX], going=is_going, search=search)
    for one in asked:
        found.append(one)
        if not going():
            break
    return found, len(records) - len(found)


def explained_pod(
    snapshot: HostSnapshot, record: PodRecord, uid: str, *, going: Callable[[], bool]
) -> dict[str, Any]:
    """A pod that is there, with what it costs; one that is not, as if it came now."""
    pod = snapshot.state.pods.get(uid)
    if pod is None:
        [found], _ = explained(snapshot, [record], going=going)
        return found
    host = snapshot.host
    pool = host.cpu_topology.all if host.cpu is None else snapshot.state.cpu.shared
    own = placements(snapshot.state, pod)
    costs = placement_cost.costs(
        snapshot.machine, host.cpu_topology, snapshot.state.devices, own, pool
    )
    name = f"{pod.namespace}/{pod.name}"
    return {
        "pod": name,
        "admitted": True,
        "sentence": f"Pod {name} is admitted.",
        "costs": [explain_view.cost_data(cost) for cost in costs],
    }


def capacity_view(setup: AgentSetup, state: AgentState, mix: Mix) -> answers.HostCapacity:
    """How many more of each reference shape fit, and what is idle to no use."""
    frame = frame_now(setup.host, setup.totals, state.host)
    shapes = []
    for one in mix:
        room = filled(frame, state.host, one.pod)
        amounts = {n: str(q) for c in one.pod.containers for n, q in c.limits.items()}
        words = room.binding.words
        shapes.append(answers.ShapeCapacity(one.name, amounts, room.count, words, one.weight))
    plain = stranded_on(frame, state.host)
    told = {one.node for one in plain}
    others = unused_by_shapes(frame, state.host, mix) if mix else []
    stranded = [*plain, *(one for one in others if one.node not in told)]
    return answers.HostCapacity(shapes, [_stranded(one) for one in stranded])


def _stranded(found: Stranded) -> answers.StrandedOnNode:
    return answers.StrandedOnNode(
        text=found.text,
        idle=dict(found.idle),
        missing=list(found.missing),
        node=found.node,
        unused_by_shapes=found.by_shapes,
    )
