"""What the kubelet checks of its configuration before it builds anything, in its words.

Policies of the CPU and memory managers and all policy options are not among it: they are
checked when the managers are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from numalign.core.config import feature_gates, reservations
from numalign.core.settings import Version
from numalign.core.values import goduration
from numalign.core.values.gotext import quoted
from numalign.core.values.sets import parse_list
from numalign.wire.kubelet.keys import KubeletConfig

_INVALID: Final = "invalid configuration: "
_TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
_TOPOLOGY_SCOPES: Final = ("container", "pod")
_ENFORCEABLE: Final = (
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
    "none",
)
_ENFORCEABLE_TEXT: Final = ", ".join(quoted(name) for name in _ENFORCEABLE[:-1])
_HUGEPAGES: Final = "hugepages-"
_THROTTLING_FACTOR_DEFAULT: Final = 0.9


def faults(config: KubeletConfig, version: Version) -> list[str]:
    """Everything that the kubelet would say against a configuration, one line each."""
    found = [*feature_gates.faults(config.feature_gates, version)]
    for check in (_cpu_period, _topology, _enforcement, _reserved_cpus, _reserved_memory):
        found += [f"{_INVALID}{text}" for text in check(config)]
    if version is not Version.V1_36:
        found += [f"{_INVALID}{text}" for text in _throttling_factor(config, version)]
    return found + _reservation_faults(config, version)


def _cpu_period(config: KubeletConfig) -> Iterator[str]:
    period = config.cpu_cfs_quota_period_ns
    if not goduration.MILLISECOND <= period <= goduration.SECOND:
        yield (
            f"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {{{goduration.text_of(period)}}} "
            "must be between 1ms and 1sec, inclusive"
        )


def _topology(config: KubeletConfig) -> Iterator[str]:
    if config.topology_policy not in _TOPOLOGY_POLICIES:
        names = " ".join(quoted(name) for name in _TOPOLOGY_POLICIES)
        yield (
            f"topologyManagerPolicy (--topology-manager-policy) {quoted(config.topology_policy)} "
            f"must be one of: [{names}]"
        )
    if config.topology_scope not in _TOPOLOGY_SCOPES:
        yield (
            f"topologyManagerScope (--topology-manager-scope) {quoted(config.topology_scope)} "
            'must be one of: "container", or "pod"'
        )


def _enforcement(config: KubeletConfig) -> Iterator[str]:
    enforced = config.enforce_node_allocatable
    cgroups = {"system": config.system_reserved_cgroup, "kube": config.kube_reserved_cgroup}
    for name in enforced:
        owner = name.partition("-")[0]
        if name not in _ENFORCEABLE:
            yield (
                f"option {quoted(name)} specified for enforceNodeAllocatable "
                f'(--enforce-node-allocatable). Valid options are {_ENFORCEABLE_TEXT} or "none"'
            )
        elif owner in cgroups and not cgroups[owner]:
            yield (
                f"{owner}ReservedCgroup (--{owner}-reserved-cgroup) must be specified when "
                f'"{owner}-reserved" or "{owner}-reserved-compressible" included in '
                "enforceNodeAllocatable (--enforce-node-allocatable)"
            )
    if "none" in enforced and len(enforced) > 1:
        yield (
            "enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional "
            'enforcements when "none" is specified'
        )


def _reserved_cpus(config: KubeletConfig) -> Iterator[str]:
    text = config.reserved_system_cpus
    if not text:
        return
    if config.system_reserved_cgroup or config.kube_reserved_cgroup:
        yield (
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
            "(--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)"
        )
    try:
        parse_list(text)
    except ValueError as exc:
        yield f"unable to parse reservedSystemCPUs (--reserved-cpus) {text}, error: {exc}"


def _reserved_memory(config: KubeletConfig) -> Iterator[str]:
    seen = set()
    for entry in config.reserved_memory:
        if entry.type != "memory" and not entry.type.startswith(_HUGEPAGES):
            yield (
                f"the limit type {quoted(entry.type)} for NUMA node {entry.node} is not "
                "supported, only [memory hugepages-<HugePageSize>] is accepted"
            )
        if entry.amount.is_zero:
            yield (
                f"reserved memory may not be zero for NUMA node {entry.node} "
                f"and resource {quoted(entry.type)}"
            )
        if (entry.node, entry.type) in seen:
            yield (
                f"the reserved memory has a duplicate value for NUMA node {entry.node} "
                f"and resource {quoted(entry.type)}"
            )
        seen.add((entry.node, entry.type))


def _throttling_factor(config: KubeletConfig, version: Version) -> Iterator[str]:
    gates = feature_gates.effective(config.feature_gates, version)
    factor = config.memory_throttling_factor
    if not gates["MemoryQoS"] and factor not in (None, _THROTTLING_FACTOR_DEFAULT):
        yield "memoryThrottlingFactor must not be set when MemoryQoS feature gate is disabled"


def _reservation_faults(config: KubeletConfig, version: Version) -> list[str]:
    attempts: tuple[Callable[[], object], ...] = (
        lambda: reservations.parse_reserved("--kube-reserved", config.kube_reserved, version),
        lambda: reservations.parse_reserved("--system-reserved", config.system_reserved, version),
        lambda: reservations.parse_thresholds(config.eviction_hard),
    )
    found = []
    for attempt in attempts:
        try:
            attempt()
        except ValueError as exc:
            found.append(str(exc))
    return found
