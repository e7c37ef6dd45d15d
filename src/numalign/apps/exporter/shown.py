"""The exporter's own host as a fleet of one, for its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from numalign.apps.cluster_view.board import Seen, SeenHost
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.pod import Pod
from numalign.wire.kubernetes.scheduling import ClusterPod


@dataclass(slots=True)
class ShownHost:
    """What was published last, and the pods that were known then."""

    problems: Callable[[], Sequence[str]]
    _pods: Sequence[Pod] = ()
    _host: SeenHost | None = field(default=None)

    def published(self, topology: HostTopology, pods: Sequence[Pod]) -> None:
        """The host is like this now."""
        found = None if topology.placement is None else rebuilt(topology.placement, pods)
        keys = () if topology.placement is None else (p.key for p in topology.placement.pods)
        now = None if found is None else (found.frame, found.state)
        self._pods = pods
        self._host = SeenHost(topology.name, None, topology, now, tuple(sorted(keys)), 0)

    def look(self) -> Seen:
        return Seen([] if self._host is None else [self._host], (), 0, list(self.problems()))

    def pods_on(self, host: str) -> Iterable[ClusterPod]:
        return [ClusterPod(pod, host=host) for pod in self._pods]
