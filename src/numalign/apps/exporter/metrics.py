"""What the exporter counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class ExporterMetrics:
    """The counts of one exporter; nothing is global."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.scans = Counter(
            "numalign_export_scans",
            "Looks at the host, by how they ended: ok or failed.",
            ["result"],
            registry=registry,
        )
        self.publishes = Counter(
            "numalign_export_publishes",
            "Objects to publish, by what came of it: written, unchanged or failed.",
            ["result"],
            registry=registry,
        )
        self.scan_seconds = Histogram(
            "numalign_export_scan_seconds", "Time of one look at the host.", registry=registry
        )
        self.last_success = Gauge(
            "numalign_export_last_success_timestamp_seconds",
            "When the published object was last known to be true.",
            registry=registry,
        )
        self.placement_bytes = Gauge(
            "numalign_export_placement_bytes",
            "Size of the exact placement; 0 where it is too large to be published.",
            registry=registry,
        )
        self.watch_troubles = Counter(
            "numalign_export_watch_troubles",
            "Refusals and broken connections while following this host's pods.",
            registry=registry,
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)
