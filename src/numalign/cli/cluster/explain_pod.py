"""``numalign explain pod NAME``: the same questions about a pod of a live cluster."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.cli.cluster.client import Cluster
    from numalign.cli.options import ClusterOptions
    from numalign.wire.kubernetes.scheduling import ClusterPod


def live_answer(
    name: str,
    namespace: str,
    host: str | None,
    options: ClusterOptions,
    *,
    search: bool,
) -> dict[str, Any]:
    """The answer about one pod: on its host, on the one named, or on the one that comes closest."""
    from numalign.apps.cluster_view.explaining import case_of
    from numalign.apps.snapshots import explaining
    from numalign.cli.cluster.client import read_cluster
    from numalign.cli.host.search_progress import SearchProgress

    cluster = read_cluster(options, with_pods=True)
    pod = next(
        (p for p in cluster.pods if (p.pod.namespace, p.pod.name) == (namespace, name)), None
    )
    if pod is None:
        raise ConfigError(
            f"found no pod {namespace}/{name} in the cluster. See 'kubectl get pods'."
        )
    where = host or pod.host or _closest(cluster, pod)
    others = [p.pod for p in cluster.pods if p.host == where and not p.is_over]
    case = case_of(cluster.topologies.get(where), where, pod.pod, others)
    with SearchProgress() as progress:
        found = explaining.answer_without_costs(case, going=progress.going, search=search)
    return {"host": where, "status": _status(cluster, pod), **found}


def _status(cluster: Cluster, pod: ClusterPod) -> str:
    if pod.phase == "Failed":
        return f"failed on {pod.host}: {pod.reason}" if pod.reason else f"failed on {pod.host}"
    if pod.host:
        return f"{pod.phase.lower()} on {pod.host}"
    if pod.is_gated:
        return "waits for its scheduling gates to be removed"
    from numalign.apps.scheduler.find_host import all_refusals
    from numalign.core.cluster.scheduling import refusals

    found = all_refusals(_state(cluster), pod)
    if len(found) < len(cluster.hosts):
        return f"waits for its scheduler: {len(cluster.hosts) - len(found)} hosts would take it"
    return f"waits: {refusals.summary(len(cluster.hosts), found.values())}"


def _closest(cluster: Cluster, pod: ClusterPod) -> str:
    """A host that would take it; else one that has the most of what is missing."""
    from numalign.apps.scheduler.find_host import all_refusals

    known = sorted(name for name, t in cluster.topologies.items() if t.placement is not None)
    if not known:
        raise ConfigError(
            "no host publishes its placement, so nothing can be explained. Run 'numalign export' "
            "on the hosts."
        )
    found = all_refusals(_state(cluster), pod)
    takers = [name for name in known if name not in found]
    if takers:
        return takers[0]
    return max(known, key=lambda name: (not found[name].is_hopeless, found[name].found))


def _state(cluster: Cluster) -> Any:  # noqa: ANN401 - of a module that is loaded late
    from numalign.apps.scheduler.fit import state_of
    from numalign.cli.cluster.scheduler_process import fleet_of

    fleet = fleet_of("exact", "LeastAllocated")
    return state_of(fleet, cluster.hosts, cluster.topologies.values(), cluster.pods)
