"""The keys of a KubeletConfiguration (v1beta1): those that placement depends on, and all others.

``KEYS`` is the one table of the former: what each is called in the file and in the record, how it
is read and written, and the kubelet's flag that says the same. The others are only accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from numalign.core.config import reservations
from numalign.core.settings import ReservedMemory, Version
from numalign.core.values import goduration
from numalign.core.values.gotext import quoted
from numalign.wire.kubelet.typed_members import TypedMembers, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    """A checked KubeletConfiguration with the kubelet's defaults filled in."""

    cpu_policy: str = "none"
    cpu_options: Mapping[str, str] = field(default_factory=dict)
    cpu_reconcile_period_ns: int = 10 * goduration.SECOND
    memory_policy: str = "None"
    reserved_memory: tuple[ReservedMemory, ...] = ()
    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Mapping[str, str] = field(default_factory=dict)
    reserved_system_cpus: str = ""
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(
        default_factory=lambda: reservations.EVICTION_HARD_DEFAULTS
    )
    ignore_eviction: bool = False  # the flag --experimental-allocatable-ignore-eviction
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period_ns: int = 100 * goduration.MILLISECOND
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    memory_throttling_factor: float | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    pods_max: int = 110
    pods_per_core: int = 0  # 0: however many pods_max allows

    def pods_max_on(self, cpu_count: int) -> int:
        """How many pods a host with so many CPUs takes."""
        if not self.pods_per_core:
            return self.pods_max
        return min(self.pods_max, self.pods_per_core * cpu_count)


# What the members of the record are in the file.


def _count(members: TypedMembers, key: str, default: int) -> int:
    """A number of pods; nothing and zero both mean the default, as the kubelet fills them in."""
    found = members.whole(key, 0)
    if found < 0:
        members.note(key, str(found), "0 or more")
    return found or default


def _eviction_hard(
    members: TypedMembers, key: str, default: Mapping[str, str]
) -> Mapping[str, str]:
    """The thresholds of the file: they replace all defaults, unless they are to be merged."""
    chosen = members.texts(key)
    is_merged = members.truth("mergeDefaultEvictionSettings", default=False)
    if chosen is None:
        return default
    return {**default, **chosen} if is_merged else chosen


def _enforced(members: TypedMembers, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    names = []
    for index, item in enumerate(members.items(key)):
        if isinstance(item, str):
            names.append(item)
        else:
            members.note(f"{key}[{index}]", shown(item), "a text")
    return tuple(names) or default


def _reserved_memory(
    members: TypedMembers, key: str, default: tuple[ReservedMemory, ...]
) -> tuple[ReservedMemory, ...]:
    found = []
    for index, item in enumerate(members.items(key)):
        path = f"{key}[{index}]"
        if not isinstance(item, dict):
            members.note(path, shown(item), "a map with numaNode and limits")
            continue
        entry = TypedMembers(item, f"{path}.")
        for name in sorted(set(item) - {"numaNode", "limits"}):
            entry.faults.append(f"unknown field {quoted(f'{path}.{name}')}")
        node = entry.whole("numaNode", 0)
        limits = entry.quantities("limits")
        found += [ReservedMemory(node, kind, limits[kind]) for kind in sorted(limits)]
        members.faults += entry.faults
    return tuple(found) or default


def reserved_memory_written(entries: Iterable[ReservedMemory]) -> list[dict[str, Any]]:
    """Reserved memory in the form of the file, by node."""
    by_node: dict[int, dict[str, str]] = {}
    for entry in entries:
        by_node.setdefault(entry.node, {})[entry.type] = str(entry.amount)
    return [{"numaNode": node, "limits": limits} for node, limits in by_node.items()]


def _same(value: Any) -> Any:  # noqa: ANN401 - a plain value of any kind
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of some keys are read from a file, and written into one."""

    read: Callable[[TypedMembers, str, Any], Any]
    write: Callable[[Any], Any] = _same


TEXT: Final = Kind(TypedMembers.text)
TEXTS: Final = Kind(lambda members, key, default: members.texts(key) or default, dict)
TRUTH: Final = Kind(lambda members, key, default: members.truth(key, default=default))
TRUTHS: Final = Kind(lambda members, key, _: members.truths(key), dict)
DECIMAL: Final = Kind(lambda members, key, _: members.decimal(key))
DURATION: Final = Kind(TypedMembers.duration, goduration.text_of)
# Here zero means the default too.
PERIOD: Final = Kind(lambda members, key, usual: members.duration(key, 0) or usual, DURATION.write)
COUNT: Final = Kind(_count)


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    member: str  # of the record
    kind: Kind = TEXT
    flag: str = ""  # of the kubelet, that says the same and wins


KEYS: Final = (
    Key("cpuManagerPolicy", "cpu_policy", flag="cpu-manager-policy"),
    Key("cpuManagerPolicyOptions", "cpu_options", TEXTS, "cpu-manager-policy-options"),
    Key("cpuManagerReconcilePeriod", "cpu_reconcile_period_ns", PERIOD),
    Key("memoryManagerPolicy", "memory_policy", flag="memory-manager-policy"),
    Key("reservedMemory", "reserved_memory", Kind(_reserved_memory, reserved_memory_written)),
    Key("topologyManagerPolicy", "topology_policy", flag="topology-manager-policy"),
    Key("topologyManagerScope", "topology_scope", flag="topology-manager-scope"),
    Key(
        "topologyManagerPolicyOptions",
        "topology_options",
        TEXTS,
        "topology-manager-policy-options",
    ),
    Key("reservedSystemCPUs", "reserved_system_cpus", flag="reserved-cpus"),
    Key("kubeReserved", "kube_reserved", TEXTS, "kube-reserved"),
    Key("systemReserved", "system_reserved", TEXTS, "system-reserved"),
    Key("evictionHard", "eviction_hard", Kind(_eviction_hard, dict), "eviction-hard"),
    Key("enforceNodeAllocatable", "enforce_node_allocatable", Kind(_enforced, list)),
    Key("cpuCFSQuota", "cpu_cfs_quota", TRUTH),
    Key("cpuCFSQuotaPeriod", "cpu_cfs_quota_period_ns", DURATION),
    Key("systemReservedCgroup", "system_reserved_cgroup"),
    Key("kubeReservedCgroup", "kube_reserved_cgroup"),
    Key("memoryThrottlingFactor", "memory_throttling_factor", DECIMAL),
    Key("featureGates", "feature_gates", TRUTHS),
    Key("maxPods", "pods_max", COUNT, "max-pods"),
    Key("podsPerCore", "pods_per_core", COUNT, "pods-per-core"),
)
USED_KEYS: Final = frozenset(
    {"apiVersion", "kind", "mergeDefaultEvictionSettings", *(key.name for key in KEYS)}
)

# All that the kubelet knows beside them.
_UNUSED: Final = """
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot
    cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy
    containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval
    containerRuntimeEndpoint contentType crashLoopBackOff enableContentionProfiling
    enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
    enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery eventBurst
    eventRecordQPS evictionMaxPodGracePeriod evictionMinimumReclaim
    evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod failCgroupV1
    failSwapOn fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency
    imageGCHighThresholdPercent imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
    iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeletCgroups
    localStorageCapacityIsolation logging makeIPTablesUtilChains maxOpenFiles
    maxParallelImagePulls memoryReservationPolicy memorySwap nodeLeaseDurationSeconds
    nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj podCIDR
    podLogsDir podPidsLimit port preloadedImagesVerificationAllowlist
    protectKernelDefaults providerID qosReserved readOnlyPort registerNode registerWithTaints
    registryBurst registryPullQPS resolvConf rotateCertificates runOnce runtimeRequestTimeout
    seccompDefault serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion
    shutdownGracePeriod shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods
    singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
    streamingConnectionIdleTimeout syncFrequency systemCgroups tlsCertFile tlsCipherSuites
    tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile tracing userNamespaces volumePluginDir
    volumeStatsAggPeriod
"""
_SINCE_1_37: Final = frozenset({"defaultPodSysctls"})


def unused_keys(version: Version) -> frozenset[str]:
    """The keys that a kubelet of this version reads and we pass over."""
    keys = frozenset(_UNUSED.split())
    return keys if version is Version.V1_36 else keys | _SINCE_1_37
