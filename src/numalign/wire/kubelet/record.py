"""What a KubeletConfiguration says about placement; see ``kubelet_config``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numalign.core.config import reservations
from numalign.core.settings import ReservedMemory
from numalign.core.values import goduration


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
