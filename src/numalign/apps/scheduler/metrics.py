"""What the scheduler counts. Nothing is global: one value counts for one scheduler."""

from __future__ import annotations

from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from numalign.apps.capacity_metrics import CapacityMetrics, HostNow
from numalign.apps.scheduler.model import State
from numalign.core.fleet.measures import Mix

SECONDS_BUCKETS: Final = tuple(0.0005 * 2**k for k in range(15))


class SchedulerMetrics:
    """Counters, and gauges that are read from the state when somebody asks."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, buckets=SECONDS_BUCKETS, registry=self._registry)
        self.attempts = counter(
            "numalign_scheduler_attempts",
            "Attempts to schedule a pod, by what came of them.",
            ["result"],
        )
        self.decision_seconds = histogram(
            "numalign_scheduler_decision_seconds",
            "Time to find a host for one pod, or to know that there is none.",
        )
        self.bind_seconds = histogram(
            "numalign_scheduler_bind_seconds",
            "Time that the API server took to bind a pod.",
        )
        self.extender_seconds = histogram(
            "numalign_scheduler_extender_seconds",
            "Time to answer a call of the kube-scheduler.",
            ["verb"],
        )
        self.unreadable = counter(
            "numalign_scheduler_objects_unreadable",
            "Objects of the API server that could not be read.",
            ["kind"],
        )
        self.dropped = counter(
            "numalign_scheduler_events_dropped",
            "Events and conditions that were not written, since too many waited.",
        )
        self.preemptions = counter(
            "numalign_scheduler_preemptions",
            "What came of making room for pods: nominated, evicted, refused, released.",
            ["result"],
        )
        self.leading = gauge("numalign_scheduler_leading", "1 if this replica may bind pods.")
        self._known = gauge(
            "numalign_scheduler_known", "Objects that the scheduler knows.", ["kind"]
        )
        self._gangs = gauge("numalign_scheduler_gangs", "Gangs of which pods are there.")
        self._capacity: CapacityMetrics | None = None
        self._host_now: HostNow = lambda _: None
        self._waiting = gauge("numalign_scheduler_pods_waiting", "Pods without a host.", ["state"])

    def follow_capacity(self, mix: Mix, now: HostNow) -> None:
        """Counts from now on how many more pods of these shapes fit on hosts as they are."""
        self._capacity = CapacityMetrics(self._registry, mix)
        self._host_now = now

    def text(self, state: State) -> bytes:
        if self._capacity is not None:
            self._capacity.update((name, self._host_now(name)) for name in state.hosts)
        self._known.labels("hosts").set(len(state.hosts))
        self._known.labels("topologies").set(len(state.topologies))
        self._known.labels("pods").set(len(state.pods))
        parked = state.queue.parked
        self._waiting.labels("no_host_fits").set(parked)
        self._waiting.labels("to_be_tried").set(len(state.queue) - parked)
        self._waiting.labels("being_bound").set(len(state.assumed))
        self._waiting.labels("nominated").set(len(state.room.nominations))
        self._gangs.set(len(state.gangs.members))
        return generate_latest(self._registry)
