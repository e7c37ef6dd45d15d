"""What the exporter counts."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class ExporterMetrics:
    """The counts of one exporter; nothing is global."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
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

    def text(self) -> bytes:
        return generate_latest(self._registry)
