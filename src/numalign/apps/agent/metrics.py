"""The kubelet's metrics, so that its dashboards and alerts work with the agent as they are.

Counters are fed by the notes of decisions; gauges are read from the state when somebody asks.
Nothing is global: one value of ``AgentMetrics`` counts for one agent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from numalign.apps.agent.model import AgentSetup, AgentState, Phase
from numalign.apps.agent.notes import Note, PodAdmitted, PodRejected
from numalign.core.kubelet.admission.admission import CPU_MANAGER, MEMORY_MANAGER
from numalign.core.kubelet.cpu.policy import FULL_CORES
from numalign.core.kubelet.decisions import AllocateStep, MergeStep, Reason, Trace
from numalign.core.pod import (
    Container,
    Pod,
    Qos,
    exclusive_cpus,
    has_pod_level_managers,
    memory_requests,
    qos_class,
)
from numalign.core.settings import Version

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
ADMISSION_MS_BUCKETS: Final = tuple(0.05 * 2**k for k in range(15))
SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LABEL_SETS_MAX: Final = 1_000  # of one metric: a flood of resource names is not ours to keep

REQUESTS: Final = "kubelet_topology_manager_admission_requests"
ERRORS: Final = "kubelet_topology_manager_admission_errors"
DURATION: Final = "kubelet_topology_manager_admission_duration_ms"
ALIGNED: Final = "kubelet_container_aligned_compute_resources_count"
NOT_ALIGNED: Final = "kubelet_container_aligned_compute_resources_failure_count"
CPU_REQUESTS: Final = "kubelet_cpu_manager_pinning_requests"
CPU_ERRORS: Final = "kubelet_cpu_manager_pinning_errors"
MEMORY_REQUESTS: Final = "kubelet_memory_manager_pinning_requests"
MEMORY_ERRORS: Final = "kubelet_memory_manager_pinning_errors"
REGISTRATIONS: Final = "kubelet_device_plugin_registration"
ALLOCATE_SECONDS: Final = "kubelet_device_plugin_alloc_duration_seconds"
LOOP_DELAY: Final = "numalign_loop_delay_seconds"
GIVEN: Final = "resource_manager_allocations"
GIVEN_ERRORS: Final = "resource_manager_allocation_errors"
ASSIGNMENTS: Final = "resource_manager_container_assignments"
REJECTIONS: Final = "kubelet_admission_rejections"
POD_LEVEL: Final = "kubelet_pod_level_resources_admission"
ENDPOINT: Final = "kubelet_pod_resources_endpoint"
ENDPOINT_REQUESTS: Final = f"{ENDPOINT}_requests"
DECISIONS: Final = "numalign_decisions"
NOTES: Final = "numalign_events"

# Counters by name: help text and label names. Those of the kubelet that do not end in _total are
# told apart below.
_COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    REQUESTS: ("The number of admission requests where resources have to be aligned.", ()),
    ERRORS: ("The number of admission request failures where resources could not be aligned.", ()),
    CPU_REQUESTS: ("The number of cpu core allocations which required pinning.", ()),
    CPU_ERRORS: ("The number of cpu core allocations which required pinning failed.", ()),
    MEMORY_REQUESTS: ("The number of memory pages allocations which required pinning.", ()),
    MEMORY_ERRORS: ("The number of memory pages allocations which required pinning failed.", ()),
    REGISTRATIONS: ("Cumulative number of device plugin registrations.", ("resource_name",)),
    REJECTIONS: ("Pods that were refused, by reason.", ("reason",)),
    ENDPOINT_REQUESTS: ("Calls of the PodResources API.", ("server_api_version",)),
    DECISIONS: ("Decisions about pods by outcome and reason.", ("outcome", "reason")),
    NOTES: ("What happened, by name of the event.", ("event",)),
}
# Errors of the first two are never counted, as in the kubelet.
_ENDPOINT_COUNTERS: Final = {
    f"{ENDPOINT}_{what}_{method}": (
        f"The {what} of {method} of the PodResources API.",
        ("server_api_version",),
    )
    for what in ("requests", "errors")
    for method in ("list", "get_allocatable", "get")
}
_BARE_COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    **_ENDPOINT_COUNTERS,
    ALIGNED: (
        "Cumulative number of aligned compute resources allocated to containers by alignment type.",
        ("scope", "boundary"),
    ),
    NOT_ALIGNED: (
        "Cumulative number of failures to allocate aligned compute resources to containers by "
        "alignment type.",
        ("scope", "boundary"),
    ),
}
_POD_LEVEL_COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    GIVEN: (
        "Number of exclusive resource allocations performed by a resource manager.",
        ("resource_name", "source"),
    ),
    GIVEN_ERRORS: (
        "Number of errors encountered during exclusive resource allocation.",
        ("resource_name", "source"),
    ),
}
_BARE_POD_LEVEL_COUNTERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    ASSIGNMENTS: (
        "Number of containers with a specific type of resource assignment.",
        ("resource_name", "assignment_type"),
    ),
}
_SINCE_1_37: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    POD_LEVEL: (
        "Pods that were admitted, by where their resources are set and by QoS class.",
        ("config_mode", "qos_class"),
    ),
}
_TOPOLOGY_ERRORS: Final = frozenset(reason.value for reason in Reason)
# Reasons that the kubelet counts under their own names; all others are "Other".
_COUNTED_REASONS: Final = frozenset(
    {
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "OutOfpods",
    }
)


@dataclass(slots=True)
class _Histogram:
    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        found, below = [], 0
        for name, count in zip(names, self.counts, strict=True):
            below += count
            found.append((name, float(below)))
        return found


class AgentMetrics:
    def __init__(self, setup: AgentSetup, lines_dropped: Callable[[], int] = lambda: 0) -> None:
        self._setup = setup
        self._lines_dropped = lines_dropped  # of the log, for want of a reader
        self._counts: dict[str, Counter[tuple[str, ...]]] = {}
        self._admission = _Histogram(ADMISSION_MS_BUCKETS)
        self._allocations: dict[str, _Histogram] = {}
        self._delays = _Histogram(SECONDS_BUCKETS)

    # What is fed.

    def note(self, note: Note, state: AgentState, seconds: float = 0.0) -> None:
        """Counts one note; ``state`` is the one after it, ``seconds`` how long a decision took."""
        self._add(NOTES, note.NAME)
        match note:
            case PodAdmitted(pod, trace):
                self._add(DECISIONS, "admitted", "")
                if self._counts_modes:
                    qos = qos_class(pod, self._setup.host.settings)
                    self._add(POD_LEVEL, _config_mode(pod), qos.value.lower())
                self._count_decision(trace, pod, "", state, seconds)
            case PodRejected(pod, reason, trace=trace):
                self._add(DECISIONS, "rejected", reason)
                self._add(REJECTIONS, reason if reason in _COUNTED_REASONS else "Other")
                if trace is not None:  # else no decision of the topology manager
                    self._count_decision(trace, pod, reason, state, seconds)
            case _:
                pass

    def _count_decision(
        self, trace: Trace, pod: Pod, reason: str, state: AgentState, seconds: float
    ) -> None:
        self._add(REQUESTS)
        if self._setup.host.topology is not None and reason in _TOPOLOGY_ERRORS:
            self._add(ERRORS)
        self._admission.add(int(seconds * 1000))
        self._count_alignment(trace)
        if pod.uid in state.pods:
            self._count_steps(trace, pod, state)

    def registered(self, resource: str) -> None:
        """Counts one registration of a device plugin, also a refused one."""
        self._add(REGISTRATIONS, resource)

    def allocated(self, resource: str, seconds: float) -> None:
        """Counts one Allocate call to a device plugin."""
        if resource in self._allocations or len(self._allocations) < LABEL_SETS_MAX:
            self._allocations.setdefault(resource, _Histogram(SECONDS_BUCKETS)).add(seconds)

    def delayed(self, seconds: float) -> None:
        """Counts one look at how late the loop comes."""
        self._delays.add(seconds)

    def asked(self, version: str, method: str, *, failed: bool) -> None:
        """Counts one call of the PodResources API: list, get or get_allocatable."""
        self._add(ENDPOINT_REQUESTS, version)
        if version == "v1":
            self._add(f"{ENDPOINT}_requests_{method}", version)
            if failed:
                self._add(f"{ENDPOINT}_errors_{method}", version)

    @property
    def _counts_modes(self) -> bool:
        settings = self._setup.host.settings
        return settings.version is Version.V1_37 and settings.gate("PodLevelResources")

    def _add(self, name: str, *labels: str) -> None:
        counts = self._counts.setdefault(name, Counter())
        if labels in counts or len(counts) < LABEL_SETS_MAX:
            counts[labels] += 1

    # Steps of a decision.

    def _count_alignment(self, trace: Trace) -> None:
        if self._setup.host.settings.topology_policy != "single-numa-node":
            return
        failed = {s.container for s in trace.steps if isinstance(s, AllocateStep) and s.error}
        for step in trace.steps:
            if not isinstance(step, MergeStep):
                continue
            scope = "pod" if step.container is None else "container"
            if not step.admitted:
                self._add(NOT_ALIGNED, scope, "numa_node")
            elif not (failed if scope == "pod" else step.container in failed):
                self._add(ALIGNED, scope, "numa_node")

    def _count_steps(self, trace: Trace, pod: Pod, state: AgentState) -> None:
        containers = {container.name: container for container in pod.in_order}
        for step in trace.steps:
            if not isinstance(step, AllocateStep):
                continue
            if step.provider == CPU_MANAGER and self._setup.host.cpu is not None:
                if step.container is None:
                    self._count_pod_cpus(pod, ok=step.error is None)
                else:
                    self._count_cpus(pod, containers[step.container], state, step.error is None)
            elif step.provider == MEMORY_MANAGER and self._setup.host.memory is not None:
                if step.container is None:
                    self._count_pod_memory(pod, ok=step.error is None)
                else:
                    self._count_memory(pod, containers[step.container], ok=step.error is None)

    def _count_cpus(
        self,
        pod: Pod,
        container: Container,
        state: AgentState,
        ok: bool,  # noqa: FBT001
    ) -> None:
        settings = self._setup.host.settings
        policy = self._setup.host.cpu
        assert policy is not None, "asked for by the caller"
        if exclusive_cpus(pod, container, settings) == 0:
            return
        self._add(CPU_REQUESTS)
        aligned = FULL_CORES in policy.options
        if not ok:
            self._add(CPU_ERRORS)
            self._add(GIVEN_ERRORS, "cpu", "node")
            if aligned:
                self._add(NOT_ALIGNED, "container", "physical_cpu")
            return
        self._add(GIVEN, "cpu", "node")
        self._add(ASSIGNMENTS, "cpu", "node_exclusive")
        if aligned:
            self._add(ALIGNED, "container", "physical_cpu")
        cpus = state.host.cpu.entries.get(pod.uid, {}).get(container.name)
        uncores = policy.topology.uncores.values()
        if cpus is not None and sum(1 for mask in uncores if mask & cpus) == 1:
            self._add(ALIGNED, "container", "uncore_cache")

    def _count_pod_cpus(self, pod: Pod, *, ok: bool) -> None:
        if not ok:
            self._add(CPU_ERRORS)
            self._add(GIVEN_ERRORS, "cpu", "pod")
            return
        self._add(GIVEN, "cpu", "pod")
        for container in pod.in_order:
            if exclusive_cpus(pod, container, self._setup.host.settings):
                self._add(CPU_REQUESTS)
                self._add(ASSIGNMENTS, "cpu", "pod_exclusive")
            else:
                self._add(ASSIGNMENTS, "cpu", "pod_shared")

    def _count_memory(self, pod: Pod, container: Container, *, ok: bool) -> None:
        settings = self._setup.host.settings
        if qos_class(pod, settings) is not Qos.GUARANTEED:
            return
        self._add(MEMORY_REQUESTS)
        if not ok:
            self._add(MEMORY_ERRORS)
            self._add(GIVEN_ERRORS, "memory", "node")
            return
        for _ in memory_requests(pod, container, settings):
            self._add(GIVEN, "memory", "node")
        self._add(ASSIGNMENTS, "memory", "node_exclusive")

    def _count_pod_memory(self, pod: Pod, *, ok: bool) -> None:
        settings = self._setup.host.settings
        if not has_pod_level_managers(pod, settings):
            return
        self._add(MEMORY_REQUESTS)
        if not ok:
            self._add(MEMORY_ERRORS)
            self._add(GIVEN_ERRORS, "memory", "pod")
            return
        self._add(GIVEN, "memory", "pod")
        for container in pod.in_order:
            if memory_requests(pod, container, settings):
                self._add(MEMORY_REQUESTS)
                self._add(ASSIGNMENTS, "memory", "pod_exclusive")
            else:
                self._add(ASSIGNMENTS, "memory", "pod_shared")

    # What is shown.

    def text(
        self,
        state: AgentState,
        manifests: Mapping[str, int] | None = None,
        *,
        problems: int = 0,
    ) -> bytes:
        """All metrics; ``manifests`` are the files of the directory by what became of them."""
        registry = CollectorRegistry(auto_describe=False)
        gauges = [*self._gauges(state), *_health(manifests or {}, problems)]
        registry.register(_Shown([*self._counters(), *self._histograms(), *gauges]))
        shown = generate_latest(registry)
        # The library knows no counter whose name does not end in _total; the kubelet has some.
        for name in (*_BARE_COUNTERS, *_BARE_POD_LEVEL_COUNTERS):
            shown = shown.replace(
                f"# TYPE {name} untyped\n".encode(), f"# TYPE {name} counter\n".encode()
            )
        return shown

    def _counters(self) -> Iterator[Metric]:
        is_pod_level = self._setup.host.settings.gate("PodLevelResourceManagers")
        is_new = self._setup.host.settings.version is Version.V1_37
        plain = {**_COUNTERS, **(_POD_LEVEL_COUNTERS if is_pod_level else {})}
        bare = dict(_BARE_COUNTERS)
        if is_pod_level:
            (plain if is_new else bare).update(_BARE_POD_LEVEL_COUNTERS)
        if self._counts_modes:
            plain |= _SINCE_1_37
        for name, (text, labels) in plain.items():
            # In 1.37 these have got the prefix and the ending of all others.
            prefix = "kubelet_" if is_new and name.startswith("resource_manager_") else ""
            family = CounterMetricFamily(prefix + name, text, labels=labels)
            for values, count in self._shown_counts(name, labels):
                family.add_metric(values, count)
            yield family
        yield CounterMetricFamily(
            "numalign_log_lines_dropped",
            "Lines of the log that were lost, since nobody read it.",
            value=self._lines_dropped(),
        )
        for name, (text, labels) in bare.items():
            unknown = UnknownMetricFamily(name, text, labels=labels)
            for values, count in self._shown_counts(name, labels):
                unknown.add_metric(values, count)
            yield unknown

    def _shown_counts(
        self, name: str, labels: tuple[str, ...]
    ) -> list[tuple[tuple[str, ...], int]]:
        counts = self._counts.get(name, Counter())
        return sorted(counts.items()) if labels else [((), counts[()])]

    def _histograms(self) -> Iterator[Metric]:
        duration = HistogramMetricFamily(
            DURATION, "Duration in milliseconds to serve a pod admission request.", labels=()
        )
        duration.add_metric((), self._admission.buckets(), self._admission.total)
        yield duration
        allocations = HistogramMetricFamily(
            ALLOCATE_SECONDS,
            "Duration in seconds to serve a device plugin Allocation request.",
            labels=("resource_name",),
        )
        for resource, found in sorted(self._allocations.items()):
            allocations.add_metric((resource,), found.buckets(), found.total)
        yield allocations
        delays = HistogramMetricFamily(
            LOOP_DELAY, "How late the agent's loop comes, and all answers with it.", labels=()
        )
        delays.add_metric((), self._delays.buckets(), self._delays.total)
        yield delays

    def _gauges(self, state: AgentState) -> Iterator[Metric]:
        policy = self._setup.host.cpu
        if policy is not None:
            cpu = state.host.cpu
            exclusive = 0
            for containers in cpu.entries.values():
                for mask in containers.values():
                    exclusive |= mask
            yield GaugeMetricFamily(
                "kubelet_cpu_manager_shared_pool_size_millicores",
                "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
                value=1000 * (cpu.shared & ~policy.reserved).bit_count(),
            )
            yield GaugeMetricFamily(
                "kubelet_cpu_manager_exclusive_cpu_allocation_count",
                "The total number of CPUs exclusively allocated to containers running on this node",
                value=exclusive.bit_count(),
            )
            per_node = GaugeMetricFamily(
                "kubelet_cpu_manager_allocation_per_numa",
                "Number of CPUs allocated per NUMA node",
                labels=("numa_node",),
            )
            for node, cpus in policy.topology.nodes.items():
                per_node.add_metric((str(node),), (cpus & exclusive).bit_count())
            yield per_node
        pods = GaugeMetricFamily("numalign_pods", "Pods by phase.", labels=("phase",))
        phases = Counter(known.phase for known in state.pods.values())
        for phase in Phase:
            pods.add_metric((phase.value,), phases[phase])
        yield pods


def _health(manifests: Mapping[str, int], problems: int) -> Iterator[Metric]:
    files = GaugeMetricFamily(
        "numalign_manifests",
        "Files of the directory of manifests: taken, failing or passed_over.",
        labels=("state",),
    )
    for name, count in manifests.items():
        files.add_metric((name,), count)
    yield files
    yield GaugeMetricFamily("numalign_problems", "Problems that /readyz tells.", value=problems)


def _config_mode(pod: Pod) -> str:
    """Where a pod's resources are set, in the words of the metric's label."""
    of_containers = any(container.requests or container.limits for container in pod.in_order)
    if pod.has_pod_level_resources:
        return "pod_and_container_level" if of_containers else "pod_level"
    return "container_level" if of_containers else ""


class _Shown(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics
