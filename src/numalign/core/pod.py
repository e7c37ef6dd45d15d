"""Pods, as far as placing them needs to know them, and what they ask for.

Quantities are parsed once, when a pod is made. Each manager counts in its own way: the CPU
manager only whole CPUs of Guaranteed pods, the memory manager per kind of memory, the device
manager by limits. The effective request of a whole pod (what the node-fit check uses) is a
fourth way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from numalign.core.settings import Settings, Version
from numalign.core.values.quantity import Quantity

Resources = Mapping[str, Quantity]


class Qos(StrEnum):
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True)
class Container:
    """One container with its resources, defaults already filled in."""

    name: str
    requests: Resources = field(default_factory=dict)
    limits: Resources = field(default_factory=dict)
    is_init: bool = False
    is_restartable: bool = False  # an init container with restartPolicy Always: a sidecar

    @property
    def is_regular_init(self) -> bool:
        """Whether it ends before the next container starts."""
        return self.is_init and not self.is_restartable


@dataclass(frozen=True)
class Pod:
    """One pod. ``requests`` and ``limits`` are those of spec.resources, None without it."""

    uid: str
    name: str = ""
    namespace: str = ""
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    requests: Resources | None = None
    limits: Resources | None = None
    overhead: Resources = field(default_factory=dict)
    qos: Qos | None = None  # status.qosClass, where the API server has set it

    @cached_property
    def in_order(self) -> tuple[Container, ...]:
        """All containers in the order of admission: init containers first."""
        return self.init_containers + self.containers

    @cached_property
    def _qos_by_rule(self) -> dict[bool, Qos]:
        return {}

    def qos_computed(self, *, by_pod: bool) -> Qos:
        """The class that the kubelet computes, from spec.resources or from the containers."""
        known = self._qos_by_rule
        if by_pod not in known:
            known[by_pod] = _qos_of_pod(self) if by_pod else _qos_of_containers(self)
        return known[by_pod]

    @cached_property
    def _counts_by_rule(self) -> dict[bool, Mapping[str, int]]:
        return {}

    def requests_counted(self, settings: Settings) -> Mapping[str, int]:
        """``pod_requests`` in the units of the node-fit check: whole ones, CPUs in thousandths.

        Every later decision of a host asks for it again, so it is kept.
        """
        known = self._counts_by_rule
        by_pod = settings.gate("PodLevelResources")
        if by_pod not in known:
            requests = pod_requests(self, settings)
            known[by_pod] = {name: counted(name, amount) for name, amount in requests.items()}
        return known[by_pod]

    @cached_property
    def has_pod_level_resources(self) -> bool:
        """Whether spec.resources names a resource that can be given to a whole pod."""
        names = [*(self.requests or ()), *(self.limits or ())]
        return any(_is_pod_level(name) for name in names)


def has_pod_level_managers(pod: Pod, settings: Settings) -> bool:
    """Whether CPUs and memory are given to this pod as a whole."""
    return (
        pod.has_pod_level_resources
        and settings.gate("PodLevelResourceManagers")
        and settings.gate("PodLevelResources")
    )


def _is_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def is_memory_type(name: str) -> bool:
    """Whether the memory manager deals with this resource."""
    return name == "memory" or name.startswith("hugepages-")


# Quality of service.


def qos_class(pod: Pod, settings: Settings) -> Qos:
    """The class that the API server has set, or the one that the kubelet computes."""
    if pod.qos is not None:
        return pod.qos
    has_resources = pod.requests is not None or pod.limits is not None
    if settings.version is Version.V1_37:
        has_resources = pod.has_pod_level_resources
    return pod.qos_computed(by_pod=has_resources and settings.gate("PodLevelResources"))


def _qos_of_pod(pod: Pod) -> Qos:
    limits = _positive(pod.limits or {})
    # No limits at all do not speak against Guaranteed here; the comparison below does.
    return _qos(_positive(pod.requests or {}), limits, complete=len(limits) == 2 or not pod.limits)


def _qos_of_containers(pod: Pod) -> Qos:
    limits = [_positive(c.limits) for c in pod.in_order]
    requests = _summed(_positive(c.requests) for c in pod.in_order)
    return _qos(requests, _summed(limits), complete=all(len(own) == 2 for own in limits))


def _positive(resources: Resources) -> Resources:
    return {k: v for k, v in resources.items() if k in {"cpu", "memory"} and v.nanos > 0}


def _qos(requests: Resources, limits: Resources, *, complete: bool) -> Qos:
    if not requests and not limits:
        return Qos.BEST_EFFORT
    if complete and requests == limits:
        return Qos.GUARANTEED
    return Qos.BURSTABLE


# Effective requests and limits of a whole pod.


def pod_requests(
    pod: Pod, settings: Settings, *, with_overhead: bool = True
) -> dict[str, Quantity]:
    """What the pod asks for in total, for the node-fit check."""
    total = _effective(pod, lambda c: c.requests)
    if settings.gate("PodLevelResources"):
        total |= {k: v for k, v in (pod.requests or {}).items() if _is_pod_level(k)}
    if with_overhead:
        _add(total, pod.overhead)
    return total


def counted(name: str, amount: Quantity) -> int:
    """An amount in the unit of the node-fit check."""
    return amount.milli() if name == "cpu" else amount.value()


def pod_limits(pod: Pod, settings: Settings, *, with_overhead: bool = True) -> dict[str, Quantity]:
    total = _effective(pod, lambda c: c.limits)
    if settings.gate("PodLevelResources"):
        total |= {k: v for k, v in (pod.limits or {}).items() if _is_pod_level(k)}
    if with_overhead:
        present = {k: v for k, v in pod.overhead.items() if k in total and not total[k].is_zero}
        _add(total, present)
    return total


def _effective(pod: Pod, part: Callable[[Container], Resources]) -> dict[str, Quantity]:
    """App containers and sidecars together, or the hungriest moment of initialisation."""
    total = _summed(part(c) for c in pod.containers)
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod.init_containers:
        use = dict(part(container))
        if container.is_restartable:
            _add(total, use)
            _add(sidecars, use)
            use = dict(sidecars)
        else:
            _add(use, sidecars)
        _raise(peak, use)
    _raise(total, peak)
    return total


def _summed(parts: Iterable[Resources]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for part in parts:
        _add(total, part)
    return total


def _add(total: dict[str, Quantity], more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, Quantity], to: Resources) -> None:
    for name, amount in to.items():
        if name not in total or total[name] < amount:
            total[name] = amount


# What the CPU manager counts.


def exclusive_cpus(pod: Pod, container: Container, settings: Settings) -> int:
    """How many CPUs of its own a container gets; 0 for one that lives in the shared pool."""
    request = container.requests.get("cpu")
    if request is None or qos_class(pod, settings) is not Qos.GUARANTEED:
        return 0
    if has_pod_level_managers(pod, settings) and not is_guaranteed_alike(container):
        return 0
    return _whole(request)


def _whole(request: Quantity) -> int:
    count = request.value()
    return count if count * 1000 == request.milli() else 0


def is_guaranteed_alike(container: Container) -> bool:
    """Whether a container of a pod with pod-level resources has CPU and memory fixed."""
    for name in ("cpu", "memory"):
        request, limit = container.requests.get(name), container.limits.get(name)
        if request is None or limit is None or request.is_zero or request != limit:
            return False
    return True


def pod_exclusive_cpus(pod: Pod, settings: Settings) -> int:
    """How many CPUs a whole pod counts for in pod scope."""
    if has_pod_level_managers(pod, settings):
        request = (pod.requests or {}).get("cpu")
        if request is None or qos_class(pod, settings) is not Qos.GUARANTEED:
            return 0
        return _whole(request)
    sidecars = peak = 0
    for container in pod.init_containers:
        if "cpu" not in container.requests:
            continue
        count = exclusive_cpus(pod, container, settings)
        if container.is_restartable:
            sidecars += count
        else:
            peak = max(peak, sidecars + count)
    apps = sum(exclusive_cpus(pod, c, settings) for c in pod.containers)
    return max(peak, apps + sidecars)


# What the memory manager counts.

NOT_AN_INTEGER = "[memorymanager] failed to represent quantity as int64"


class NotAnIntegerError(Exception):
    """An amount of memory that the memory manager cannot count."""


def memory_requests(pod: Pod, container: Container, settings: Settings) -> dict[str, int]:
    """The bytes of each kind of memory that a container asks for."""
    if has_pod_level_managers(pod, settings) and not is_guaranteed_alike(container):
        return {}
    return _bytes(container.requests)


def _bytes(resources: Resources) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, amount in resources.items():
        if is_memory_type(name):
            size = amount.as_int64()
            if size is None:
                raise NotAnIntegerError(NOT_AN_INTEGER)
            found[name] = size
    return found


def pod_memory_requests(pod: Pod, settings: Settings) -> dict[str, int]:
    """The bytes that a whole pod counts for in pod scope; only kinds that an app asks for."""
    if has_pod_level_managers(pod, settings):
        return {name: size for name, size in _bytes(pod.requests or {}).items() if size > 0}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.init_containers:
        for name, size in _bytes(container.requests).items():
            if container.is_restartable:
                sidecars[name] = sidecars.get(name, 0) + size
            else:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + size)
    apps: dict[str, int] = {}
    for container in pod.containers:
        for name, size in _bytes(container.requests).items():
            apps[name] = apps.get(name, 0) + size
    return {name: max(apps[name] + sidecars.get(name, 0), peak.get(name, 0)) for name in apps}
