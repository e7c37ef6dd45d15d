"""The hosts of a cluster as the fleet that capacity and defragmentation ask about."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from numalign.apps.cluster_view.explaining import now
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.fleet.capacity import FleetHost
from numalign.core.pod import Pod

POOL_LABELS = (
    *("node-pool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup"),
    *("kubernetes.azure.com/agentpool", "node.kubernetes.io/instance-type"),
)


def fleet_hosts(
    facts: Iterable[HostFacts],
    topologies: Mapping[str, HostTopology],
    pods: Mapping[str, Collection[Pod]],
    pool_label: str | None = None,
) -> tuple[list[FleetHost], list[str]]:
    """The hosts whose managers can be asked, and those that publish no placement."""
    found: list[FleetHost] = []
    silent: list[str] = []
    known = {host.name: host for host in facts}
    for name in sorted(known.keys() | topologies.keys()):
        topology = topologies.get(name)
        state = None if topology is None else now(topology, pods.get(name, ()))
        if state is None:
            silent.append(name)
            continue
        labels = known[name].labels if name in known else {}
        found.append(FleetHost(name, *state, pool_of(labels, pool_label)))
    return found, silent


def pool_of(labels: Mapping[str, str], pool_label: str | None) -> str:
    """The pool of a host: the value of the label that is named, or of one that clouds set."""
    wanted = POOL_LABELS if pool_label is None else (pool_label,)
    return next((labels[name] for name in wanted if name in labels), "")
