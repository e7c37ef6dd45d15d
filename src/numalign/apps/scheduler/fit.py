"""Which hosts of a cluster would take a pod at this moment, with the scheduler's own answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numalign.apps.scheduler.events import HostsListed, PodsListed, TopologiesListed
from numalign.apps.scheduler.find_host import all_refusals
from numalign.apps.scheduler.model import HostFleet, State
from numalign.apps.scheduler.step import step
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.wire.kubernetes.scheduling import ClusterPod


def state_of(
    fleet: HostFleet,
    hosts: Iterable[HostFacts],
    topologies: Iterable[HostTopology],
    pods: Iterable[ClusterPod],
) -> State:
    """What a scheduler would know of this cluster."""
    state = State(fleet, name="")
    step(state, HostsListed(tuple(hosts), 0.0))
    step(state, TopologiesListed(tuple(topologies), 0.0))
    step(state, PodsListed(tuple(pods), 0.0))
    return state


def fit_records(state: State, pod: ClusterPod) -> list[dict[str, Any]]:
    """One record for each host: whether it fits, its score or why not; the best first."""
    reasons = {name: refusal.text for name, refusal in all_refusals(state, pod).items()}
    left = [name for name in state.hosts if name not in reasons]
    scores = state.fleet.scores(pod.pod, left)
    records = [
        {
            "host": name,
            "fits": name not in reasons,
            "score": None if name in reasons else scores.get(name, 0),
            "why": reasons.get(name),
        }
        for name in sorted(state.hosts)
    ]
    return sorted(records, key=lambda r: (not r["fits"], -(r["score"] or 0), r["host"]))
