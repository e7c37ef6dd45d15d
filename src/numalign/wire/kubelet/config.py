"""The kubelet's configuration file, as far as it decides where work is placed.

``load`` reads and checks a KubeletConfiguration. Everything that is wrong with it is said at
once, one line each, in the kubelet's own words where it has words for it. ``settings_for``
then reduces it to what the managers of one machine are configured with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from numalign.core.config import feature_gates, reservations
from numalign.core.errors import ConfigError, WireError
from numalign.core.settings import GATE_DEFAULTS, Fidelity, ReservedMemory, Settings, Version
from numalign.core.values.gotext import quoted
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet
from numalign.wire import yaml as plain_yaml
from numalign.wire.kubelet import checks as _kubelet_checks
from numalign.wire.kubelet.keys import unused_keys
from numalign.wire.kubelet.record import KubeletConfig
from numalign.wire.kubelet.typed_members import TypedMembers, shown

__all__ = ["API_VERSION", "KIND", "USED_KEYS", "KubeletConfig", "load", "settings_for"]

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"


USED_KEYS: Final = frozenset(
    {
        "apiVersion",
        "cpuCFSQuota",
        "cpuCFSQuotaPeriod",
        "cpuManagerPolicy",
        "cpuManagerPolicyOptions",
        "cpuManagerReconcilePeriod",
        "enforceNodeAllocatable",
        "evictionHard",
        "featureGates",
        "kind",
        "kubeReserved",
        "kubeReservedCgroup",
        "maxPods",
        "memoryManagerPolicy",
        "memoryThrottlingFactor",
        "mergeDefaultEvictionSettings",
        "podsPerCore",
        "reservedMemory",
        "reservedSystemCPUs",
        "systemReserved",
        "systemReservedCgroup",
        "topologyManagerPolicy",
        "topologyManagerPolicyOptions",
        "topologyManagerScope",
    }
)


def load(data: bytes | str, *, version: Version, strict: bool = True) -> KubeletConfig:
    """The configuration in a YAML or JSON text; ConfigError with one line for each fault.

    The kubelet itself only warns of unknown keys and goes on without them. We refuse them,
    because a mistyped key silently means a default; ``strict=False`` passes over them too.
    """
    try:
        content = plain_yaml.load(
            data.encode(errors="surrogatepass") if isinstance(data, str) else data
        )
    except WireError as exc:
        raise ConfigError(f"the kubelet configuration: {exc}") from exc
    if not isinstance(content, dict):
        raise ConfigError(
            f"the kubelet configuration: found {shown(content)}, expected a map with "
            f"apiVersion {API_VERSION} and kind {KIND}"
        )
    members = TypedMembers(content)
    faults = _header_faults(members)
    if faults:
        raise ConfigError("\n".join(faults))
    if strict:
        known = USED_KEYS | unused_keys(version)
        faults += [f"unknown field {quoted(key)}" for key in sorted(content) if key not in known]
    config = _config(members)
    faults += members.faults + _kubelet_checks.faults(config, version)
    if faults:
        raise ConfigError("\n".join(faults))
    return config


def _header_faults(members: TypedMembers) -> list[str]:
    """What is wrong with the two keys that say what kind of file it is."""
    faults = []
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = members.values.get(key)
        if found != expected:
            faults.append(
                f"{key}: found {shown(found)}, expected {quoted(expected)}; "
                "give the file that the kubelet is started with (--config)"
            )
    return faults


def _config(members: TypedMembers) -> KubeletConfig:
    defaults = KubeletConfig()
    period = members.duration("cpuManagerReconcilePeriod", 0)
    return KubeletConfig(
        cpu_policy=members.text("cpuManagerPolicy", defaults.cpu_policy),
        cpu_options=members.texts("cpuManagerPolicyOptions") or {},
        cpu_reconcile_period_ns=period or defaults.cpu_reconcile_period_ns,
        memory_policy=members.text("memoryManagerPolicy", defaults.memory_policy),
        reserved_memory=_reserved_memory(members),
        topology_policy=members.text("topologyManagerPolicy", defaults.topology_policy),
        topology_scope=members.text("topologyManagerScope", defaults.topology_scope),
        topology_options=members.texts("topologyManagerPolicyOptions") or {},
        reserved_system_cpus=members.text("reservedSystemCPUs", ""),
        kube_reserved=members.texts("kubeReserved") or {},
        system_reserved=members.texts("systemReserved") or {},
        eviction_hard=_eviction_hard(members),
        enforce_node_allocatable=_enforced(members) or defaults.enforce_node_allocatable,
        cpu_cfs_quota=members.truth("cpuCFSQuota", default=True),
        cpu_cfs_quota_period_ns=members.duration(
            "cpuCFSQuotaPeriod", defaults.cpu_cfs_quota_period_ns
        ),
        system_reserved_cgroup=members.text("systemReservedCgroup", ""),
        kube_reserved_cgroup=members.text("kubeReservedCgroup", ""),
        memory_throttling_factor=members.decimal("memoryThrottlingFactor"),
        feature_gates=members.truths("featureGates"),
        # Nothing and zero both mean the default, as the kubelet fills them in.
        pods_max=_count(members, "maxPods") or defaults.pods_max,
        pods_per_core=_count(members, "podsPerCore"),
    )


def _count(members: TypedMembers, key: str) -> int:
    found = members.whole(key, 0)
    if found < 0:
        members.note(key, str(found), "0 or more")
    return found


def _eviction_hard(members: TypedMembers) -> Mapping[str, str]:
    """The thresholds of the file: they replace all defaults, unless they are to be merged."""
    chosen = members.texts("evictionHard")
    is_merged = members.truth("mergeDefaultEvictionSettings", default=False)
    if chosen is None:
        return reservations.EVICTION_HARD_DEFAULTS
    return {**reservations.EVICTION_HARD_DEFAULTS, **chosen} if is_merged else chosen


def _enforced(members: TypedMembers) -> tuple[str, ...]:
    names = []
    for index, item in enumerate(members.items("enforceNodeAllocatable")):
        if isinstance(item, str):
            names.append(item)
        else:
            members.note(f"enforceNodeAllocatable[{index}]", shown(item), "a text")
    return tuple(names)


def _reserved_memory(members: TypedMembers) -> tuple[ReservedMemory, ...]:
    found = []
    for index, item in enumerate(members.items("reservedMemory")):
        path = f"reservedMemory[{index}]"
        if not isinstance(item, dict):
            members.note(path, shown(item), "a map with numaNode and limits")
            continue
        entry = TypedMembers(item, f"{path}.")
        for key in sorted(set(item) - {"numaNode", "limits"}):
            entry.faults.append(f"unknown field {quoted(f'{path}.{key}')}")
        node = entry.whole("numaNode", 0)
        limits = entry.quantities("limits")
        found += [ReservedMemory(node, kind, limits[kind]) for kind in sorted(limits)]
        members.faults += entry.faults
    return tuple(found)


def settings_for(
    config: KubeletConfig,
    *,
    version: Version,
    cpu_count: int,
    online: CpuSet,
    memory_bytes: int,
    hugepage_bytes: Mapping[str, int] | None = None,
    fidelity: Fidelity = Fidelity.KUBELET,
) -> Settings:
    """What the managers of one machine are configured with.

    ``memory_bytes`` is MemTotal and ``hugepage_bytes`` the capacity per type such as
    ``hugepages-2Mi``. Raises ConfigError where the machine cannot bear the reservations.
    """
    try:
        reservation = _reservation(
            config, version, cpu_count, online, memory_bytes, hugepage_bytes or {}
        )
    except ValueError as exc:
        raise ConfigError(str(exc)) from exc
    gates = feature_gates.effective(config.feature_gates, version)
    return Settings(
        version=version,
        fidelity=fidelity,
        topology_policy=config.topology_policy,
        topology_scope=config.topology_scope,
        topology_options=config.topology_options,
        cpu_policy=config.cpu_policy,
        cpu_options=config.cpu_options,
        reserved_cpus=config.reserved_system_cpus,
        memory_policy=config.memory_policy,
        reserved_memory=config.reserved_memory,
        node_allocatable_reservation=reservation,
        gates={
            name: gates[name]
            for name, default in GATE_DEFAULTS.items()
            if gates.get(name, default) != default
        },
    )


def _reservation(
    config: KubeletConfig,
    version: Version,
    cpu_count: int,
    online: CpuSet,
    memory_bytes: int,
    hugepage_bytes: Mapping[str, int],
) -> dict[str, Quantity]:
    kube = reservations.parse_reserved("--kube-reserved", config.kube_reserved, version)
    system = reservations.parse_reserved("--system-reserved", config.system_reserved, version)
    if config.reserved_system_cpus:
        count = reservations.reserved_cpu_count(config.reserved_system_cpus, online)
        kube.pop("cpu", None)
        system["cpu"] = Quantity.of(count)
    thresholds = (
        {} if config.ignore_eviction else reservations.parse_thresholds(config.eviction_hard)
    )
    capacity = {
        "cpu": Quantity.of(cpu_count),
        "memory": Quantity.of(memory_bytes, binary=True),
        **{kind: Quantity.of(size, binary=True) for kind, size in hugepage_bytes.items()},
    }
    return reservations.node_allocatable_reservation(system, kube, thresholds, capacity)
