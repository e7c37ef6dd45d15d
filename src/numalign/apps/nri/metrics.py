"""What the plugin counts."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)


class NriMetrics:
    """The counts of one plugin; nothing is global."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        self.placed = counter(
            "numalign_nri_containers_placed",
            "Containers placed: exclusive, shared, or adopted as they ran.",
            ["kind"],
        )
        self.refused = counter(
            "numalign_nri_containers_refused", "Containers refused, by reason.", ["reason"]
        )
        self.requests = counter(
            "numalign_nri_requests", "Requests of the runtime, by method.", ["method"]
        )
        self.seconds = Histogram(
            "numalign_nri_request_seconds",
            "Time from a request to its answer, by method.",
            ["method"],
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self.save_seconds = Histogram(
            "numalign_nri_save_seconds",
            "Time until what is held was on the disk; a part of the request's.",
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self.updates = counter(
            "numalign_nri_updates", "Containers told to be elsewhere, in answers or unasked."
        )
        self.repaired = counter(
            "numalign_nri_repaired", "Containers that were not where they should be after a gap."
        )
        self.drifted = counter(
            "numalign_nri_drifted",
            "Containers that were not where they were told to be when we looked again.",
        )
        self.connections = counter(
            "numalign_nri_connections", "Connections to the runtime that were synchronized."
        )
        self.connected = gauge("numalign_nri_connected", "1 while the runtime is synchronized.")
        self.unplaced = gauge(
            "numalign_nri_unplaced",
            "Containers that run in the shared pool although they asked for CPUs of their own.",
        )
        self.exclusive = gauge("numalign_nri_exclusive_cpus", "CPUs held by containers.")
        self.shared = gauge("numalign_nri_shared_cpus", "CPUs in the shared pool.")
        self.device_faults = counter(
            "numalign_nri_device_faults", "Times the kubelet did not say who has which device."
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)
