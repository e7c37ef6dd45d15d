"""What the exporter counts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from numalign.apps.capacity_metrics import CapacityMetrics
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.rebuild import rebuilt
from numalign.core.fleet.measures import Mix
from numalign.core.pod import Pod


class ExporterMetrics:
    """The counts of one exporter; nothing is global."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._capacity: CapacityMetrics | None = None
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        self.scans = counter(
            "numalign_export_scans",
            "Looks at the host, by how they ended: ok or failed.",
            ["result"],
        )
        self.publishes = counter(
            "numalign_export_publishes",
            "Objects to publish, by what came of it: written, unchanged or failed.",
            ["result"],
        )
        self.scan_seconds = histogram(
            "numalign_export_scan_seconds", "Time of one look at the host."
        )
        self.last_success = gauge(
            "numalign_export_last_success_timestamp_seconds",
            "When the published object was last known to be true.",
        )
        self.placement_bytes = gauge(
            "numalign_export_placement_bytes",
            "Size of the exact placement; 0 where it is too large to be published.",
        )
        self.watch_troubles = counter(
            "numalign_export_watch_troubles",
            "Refusals and broken connections while following this host's pods.",
        )

    def follow_capacity(self, mix: Mix) -> None:
        """Counts from now on how many more pods of these shapes the host would take."""
        self._capacity = CapacityMetrics(self._registry, mix)

    def seen(self, topology: HostTopology, pods: Iterable[Pod]) -> None:
        """The host is like this now."""
        if self._capacity is not None and topology.placement is not None:
            found = rebuilt(topology.placement, pods)
            now = None if found is None else (found.frame, found.state)
            self._capacity.update([(topology.name, now)])

    def text(self) -> bytes:
        return generate_latest(self._registry)
