"""A KubeletConfiguration as a document: reduced to what placement depends on, and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numalign.core.values import goduration
from numalign.wire.kubelet.config import API_VERSION, KIND, USED_KEYS, KubeletConfig


def reduced(document: Mapping[str, Any]) -> dict[str, Any]:
    """Only the members that placement depends on: none of them holds a secret."""
    return {key: document[key] for key in sorted(document) if key in USED_KEYS}


def document_of(config: KubeletConfig) -> dict[str, Any]:
    """The configuration as a file that reads back the same; what is the default is left out."""
    default = KubeletConfig()
    memory: dict[int, dict[str, str]] = {}
    for item in config.reserved_memory:
        memory.setdefault(item.node, {})[item.type] = str(item.amount)
    members = {
        "cpuManagerPolicy": (config.cpu_policy, default.cpu_policy),
        "cpuManagerPolicyOptions": (dict(config.cpu_options), {}),
        "cpuManagerReconcilePeriod": (
            goduration.text_of(config.cpu_reconcile_period_ns),
            goduration.text_of(default.cpu_reconcile_period_ns),
        ),
        "memoryManagerPolicy": (config.memory_policy, default.memory_policy),
        "reservedMemory": (
            [{"numaNode": node, "limits": limits} for node, limits in memory.items()],
            [],
        ),
        "topologyManagerPolicy": (config.topology_policy, default.topology_policy),
        "topologyManagerScope": (config.topology_scope, default.topology_scope),
        "topologyManagerPolicyOptions": (dict(config.topology_options), {}),
        "reservedSystemCPUs": (config.reserved_system_cpus, ""),
        "kubeReserved": (dict(config.kube_reserved), {}),
        "systemReserved": (dict(config.system_reserved), {}),
        "evictionHard": (
            {} if config.ignore_eviction else dict(config.eviction_hard),
            dict(default.eviction_hard),
        ),
        "enforceNodeAllocatable": (
            list(config.enforce_node_allocatable),
            list(default.enforce_node_allocatable),
        ),
        "cpuCFSQuota": (config.cpu_cfs_quota, default.cpu_cfs_quota),
        "cpuCFSQuotaPeriod": (
            goduration.text_of(config.cpu_cfs_quota_period_ns),
            goduration.text_of(default.cpu_cfs_quota_period_ns),
        ),
        "systemReservedCgroup": (config.system_reserved_cgroup, ""),
        "kubeReservedCgroup": (config.kube_reserved_cgroup, ""),
        "memoryThrottlingFactor": (config.memory_throttling_factor, None),
        "featureGates": (dict(config.feature_gates), {}),
        "maxPods": (config.pods_max, default.pods_max),
        "podsPerCore": (config.pods_per_core, default.pods_per_core),
    }
    written = {key: value for key, (value, usual) in members.items() if value != usual}
    return {"apiVersion": API_VERSION, "kind": KIND, **written}
