"""What the kubelet writes into the cgroups of containers, pods and QoS classes.

The amounts are computed once (``Limits``) and then put into the words of cgroup v2 or v1. Upstream:
``ResourceConfigForPod`` (pkg/kubelet/cm/helpers_linux.go), ``calculateLinuxResources``
(pkg/kubelet/kuberuntime), ``setCPUCgroupConfig`` (qos_container_manager_linux.go), and for
``cpu.weight`` the linear formula of the kubelet and of runc up to 1.1.

A worked example: a Guaranteed pod of one container with 1500m CPU and 48Mi has 1536 shares, that is
weight 59, and 150000 us of CPU time in each 100000 us. With 2 whole CPUs of its own it has 2048
shares, weight 79, and no quota at all: on its own CPUs a quota could only throttle it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.kubelet.state import Block
from numalign.core.pod import Container, Pod, Qos, pod_limits, pod_requests, qos_class
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import CpuSet, NodeSet

SHARES_MIN: Final = 2
SHARES_MAX: Final = 262_144
SHARES_PER_CPU: Final = 1_024
WEIGHT_MAX: Final = 10_000
QUOTA_US_MIN: Final = 1_000
PERIOD_US: Final = 100_000
OOM_SCORE_GUARANTEED: Final = -997
OOM_SCORE_MAX: Final = 1_000  # of BestEffort containers

_HUGEPAGES: Final = "hugepages-"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRule:
    """The kubelet's cpuCFSQuota and cpuCFSQuotaPeriod."""

    enforced: bool = True
    period_us: int = PERIOD_US


DEFAULT_QUOTA: Final = QuotaRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The amounts of one cgroup, in no version's words."""

    cpu_shares: int = SHARES_MIN
    cpu_quota_us: int | None = None  # None: no quota
    cpu_period_us: int = PERIOD_US
    memory_bytes_max: int | None = None  # None: no limit
    # Bytes by page size in bytes; a size that is not listed gets nothing. None: no limits.
    hugetlb_bytes_max: Mapping[int, int] | None = None


def shares_of(milli_cpus: int) -> int:
    """The CPU shares of so many thousandths of a CPU (``MilliCPUToShares``)."""
    shares = milli_cpus * SHARES_PER_CPU // 1000
    return max(SHARES_MIN, min(SHARES_MAX, shares))


def weight_of(shares: int) -> int:
    """The cgroup v2 weight of v1 shares: 2..262144 laid out evenly on 1..10000."""
    return 1 + (shares - SHARES_MIN) * (WEIGHT_MAX - 1) // (SHARES_MAX - SHARES_MIN)


def quota_of(milli_cpus: int, period_us: int) -> int | None:
    """The CPU time in each period (``MilliCPUToQuota``); None without a limit."""
    if milli_cpus == 0:
        return None
    return max(QUOTA_US_MIN, milli_cpus * period_us // 1000)


# Amounts per container, pod and QoS class.


def limits_of_container(
    pod: Pod,
    container: Container,
    settings: Settings,
    *,
    exclusive: bool,
    quota: QuotaRule = DEFAULT_QUOTA,
) -> Limits:
    """The amounts of one container; ``exclusive``: it has CPUs of its own.

    Huge pages are limited for the pod as a whole only, as on the hosts that we have recorded.
    """
    cpu_limit = _own_or_pods(pod, container, "cpu", settings)
    memory_limit = _own_or_pods(pod, container, "memory", settings)
    # A limit without a request stands for the request too.
    request = container.requests.get("cpu", cpu_limit)
    is_free = not quota.enforced or (exclusive and _no_quota_if_exclusive(settings))
    return Limits(
        cpu_shares=shares_of(_milli(request)),
        cpu_quota_us=None if is_free else quota_of(_milli(cpu_limit), quota.period_us),
        cpu_period_us=quota.period_us,
        memory_bytes_max=_value(memory_limit) or None,
    )


def _own_or_pods(pod: Pod, container: Container, name: str, settings: Settings) -> Quantity | None:
    """The limit of a container, else that of its pod: it cannot get more than that."""
    own = container.limits.get(name)
    is_set = own is not None and not own.is_zero
    if is_set or not pod.has_pod_level_resources or not settings.gate("PodLevelResources"):
        return own
    return (pod.limits or {}).get(name, own)


def limits_of_pod(
    pod: Pod, settings: Settings, *, any_exclusive: bool, quota: QuotaRule = DEFAULT_QUOTA
) -> Limits:
    """The amounts of a whole pod; ``any_exclusive``: one of its containers has CPUs of its own."""
    requests, limits = pod_requests(pod, settings), pod_limits(pod, settings)
    pages = _hugetlb(requests)
    qos = qos_class(pod, settings)
    if qos is Qos.BEST_EFFORT:
        return Limits(hugetlb_bytes_max=pages)
    is_free = not quota.enforced or (any_exclusive and _no_quota_if_exclusive(settings))
    # One Burstable container without a limit makes the pod unlimited.
    has_cpu_limit = qos is Qos.GUARANTEED or _is_limited(pod, "cpu", settings)
    has_memory_limit = qos is Qos.GUARANTEED or _is_limited(pod, "memory", settings)
    cpu = None if is_free or not has_cpu_limit else _milli(limits.get("cpu"))
    return Limits(
        cpu_shares=shares_of(_milli(requests.get("cpu"))),
        cpu_quota_us=None if cpu is None else quota_of(cpu, quota.period_us),
        cpu_period_us=quota.period_us,
        memory_bytes_max=(_value(limits.get("memory")) or None) if has_memory_limit else None,
        hugetlb_bytes_max=pages,
    )


def _no_quota_if_exclusive(settings: Settings) -> bool:
    # Without the static policy nobody has CPUs of its own, whatever a pod asks for.
    return settings.cpu_policy == "static" and settings.gate("DisableCPUQuotaWithExclusiveCPUs")


def _is_limited(pod: Pod, name: str, settings: Settings) -> bool:
    if pod.has_pod_level_resources and settings.gate("PodLevelResources"):
        whole = (pod.limits or {}).get(name)
        if whole is not None and not whole.is_zero:
            return True
    own = [container.limits.get(name) for container in pod.in_order]
    return all(limit is not None and not limit.is_zero for limit in own)


def _hugetlb(requests: Mapping[str, Quantity]) -> dict[int, int]:
    pages: dict[int, int] = {}
    for name, amount in requests.items():
        if name.startswith(_HUGEPAGES):
            size = Quantity.parse(name.removeprefix(_HUGEPAGES)).value()
            pages[size] = pages.get(size, 0) + amount.value()
    return pages


def hugepages_of(container: Container, page_sizes: Iterable[int]) -> dict[int, int]:
    """The bytes of huge pages that a container may use, for every page size of the host."""
    return {**dict.fromkeys(page_sizes, 0), **_hugetlb(container.limits)}


def oom_score_adj(pod: Pod, container: Container, settings: Settings, memory_bytes: int) -> int:
    """How early the kernel ends a container when memory runs out (``GetContainerOOMScoreAdjust``).

    A Burstable container that asks for more of the host's memory is ended later. A sidecar goes no
    earlier than the smallest app container of its pod.
    """
    qos = qos_class(pod, settings)
    if qos is Qos.GUARANTEED:
        return OOM_SCORE_GUARANTEED
    if qos is Qos.BEST_EFFORT:
        return OOM_SCORE_MAX
    score = _oom_score(pod, container, settings, memory_bytes)
    if container.is_restartable and pod.containers:
        apps = [_value(app.requests.get("memory")) for app in pod.containers]
        score = min(score, OOM_SCORE_MAX - OOM_SCORE_MAX * min(apps) // memory_bytes)
    return max(OOM_SCORE_MAX + OOM_SCORE_GUARANTEED, min(score, OOM_SCORE_MAX - 1))


def _oom_score(pod: Pod, container: Container, settings: Settings, memory_bytes: int) -> int:
    asked = _value(container.requests.get("memory"))
    if pod.has_pod_level_resources and settings.gate("PodLevelResources"):
        # What the pod has beyond its containers' own requests counts for all of them alike.
        whole = _value((pod.requests or {}).get("memory"))
        own = sum(_value(app.requests.get("memory")) for app in pod.containers)
        asked += max(0, whole - own) // max(1, len(pod.containers))
    return OOM_SCORE_MAX - OOM_SCORE_MAX * asked // memory_bytes


def limits_of_qos(qos: Qos, pods: Iterable[Pod], settings: Settings) -> Limits:
    """The amounts of a QoS class with these pods in it; Guaranteed pods have no group between."""
    if qos is not Qos.BURSTABLE:
        return Limits()
    asked = sum(
        _milli(pod_requests(pod, settings).get("cpu"))
        for pod in pods
        if qos_class(pod, settings) is Qos.BURSTABLE
    )
    return Limits(cpu_shares=shares_of(asked))


def _milli(amount: Quantity | None) -> int:
    return amount.milli() if amount is not None else 0


def _value(amount: Quantity | None) -> int:
    return amount.value() if amount is not None else 0


# The same in the words of the kernel.


def mems_of(blocks: Iterable[Block]) -> NodeSet | None:
    """The NUMA nodes of a container's memory; None when it has none of its own."""
    nodes = NodeSet.of(node for block in blocks for node in block.nodes)
    return nodes or None


def mems_text(mems: NodeSet | None) -> str:
    """The cpuset.mems as the memory manager hands it on: ids joined by commas, without ranges."""
    return ",".join(str(node) for node in mems) if mems else ""


def page_size_text(size_bytes: int) -> str:
    """A huge page size as the kernel has it in file names: ``2MB``, ``1GB``, ``64KB``."""
    for unit, text in ((2**30, "GB"), (2**20, "MB")):
        if size_bytes >= unit:
            return f"{size_bytes // unit}{text}"
    return f"{size_bytes // 2**10}KB"


def files_v2(limits: Limits, page_sizes: Iterable[str] = ()) -> dict[str, str]:
    """The cgroup v2 files of some amounts; ``page_sizes``: those that this kernel has."""
    quota = "max" if limits.cpu_quota_us is None else str(limits.cpu_quota_us)
    memory = limits.memory_bytes_max
    return {
        "cpu.weight": str(weight_of(limits.cpu_shares)),
        "cpu.max": f"{quota} {limits.cpu_period_us}",
        "memory.max": "max" if memory is None else str(memory),
        **_hugetlb_files(limits, page_sizes, "max"),
    }


def files_v1(limits: Limits, page_sizes: Iterable[str] = ()) -> dict[str, str]:
    """The cgroup v1 files of some amounts, in the order in which they are to be written."""
    quota, memory = limits.cpu_quota_us, limits.memory_bytes_max
    return {
        "cpu.shares": str(limits.cpu_shares),
        # The period first: a quota is checked against it.
        "cpu.cfs_period_us": str(limits.cpu_period_us),
        "cpu.cfs_quota_us": str(-1 if quota is None else quota),
        "memory.limit_in_bytes": str(-1 if memory is None else memory),
        **_hugetlb_files(limits, page_sizes, "limit_in_bytes"),
    }


def _hugetlb_files(limits: Limits, page_sizes: Iterable[str], ending: str) -> dict[str, str]:
    if limits.hugetlb_bytes_max is None:
        return {}
    amounts = dict.fromkeys(page_sizes, 0)
    # A size that the kernel does not have stays in: writing it fails, and so it should.
    amounts |= {page_size_text(s): b for s, b in limits.hugetlb_bytes_max.items() if b}
    return {f"hugetlb.{size}.{ending}": str(amount) for size, amount in amounts.items()}


def cpuset_files(cpus: CpuSet | None, mems: NodeSet | None) -> dict[str, str]:
    """The cpuset files of a placement, the same in both versions; None is left as it is."""
    found = {}
    if cpus is not None:
        found["cpuset.cpus"] = str(cpus)
    if mems is not None:
        found["cpuset.mems"] = mems_text(mems)
    return found
