"""What a pod needs, in the words of a scheduler: amounts by container, and for the whole pod.

Amounts are whole numbers of billionths (``Quantity.nanos``), so that nothing is ever rounded
unseen. The rules are those of the NodeResourceTopologyMatch plugin, whose total of a pod differs
from the kubelet's: sidecars count as plain init containers and pod-level resources not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

from numalign.core.pod import Container, Pod, Qos, Resources, qos_class
from numalign.core.settings import Settings
from numalign.core.values.resource_names import is_extended

Amounts = Mapping[str, int]  # resource -> billionths

NANOS: Final = 10**9
_ALWAYS_OFFERED: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_HOST_LEVEL: Final = frozenset({"ephemeral-storage", "storage"})
_SETTINGS: Final = Settings()


class Why(IntEnum):
    """Why a host is passed over, in the plugin's words (``WORDS``)."""

    FITS = 0
    INIT_CONTAINER = 1
    SIDECAR = 2
    CONTAINER = 3
    POD = 4
    STALE = 5


WORDS: Final[Mapping[Why, str]] = {
    Why.INIT_CONTAINER: "cannot align init container",
    Why.SIDECAR: "cannot align sidecar container",
    Why.CONTAINER: "cannot align container",
    Why.POD: "cannot align pod",
    Why.STALE: "invalid node topology data",
}


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container asks for, and what it means if it cannot be had."""

    why: Why
    amounts: Amounts

    @property
    def is_app(self) -> bool:
        """Whether its use is taken off before the next container is looked at."""
        return self.why is Why.CONTAINER


@dataclass(frozen=True)
class PodNeed:
    qos: Qos
    asks: tuple[Ask, ...]  # init containers, then app containers
    total: Amounts

    @property
    def is_guaranteed(self) -> bool:
        """Whether amounts of CPU and memory count."""
        return self.qos is Qos.GUARANTEED

    @cached_property
    def passes_anywhere(self) -> bool:
        """Whether no host is asked at all: nothing to align."""
        names = (name for ask in self.asks for name in ask.amounts)
        return self.qos is Qos.BEST_EFFORT and all(is_native(name) for name in names)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The same for pods that need the same."""
        asks = tuple((ask.why, tuple(sorted(ask.amounts.items()))) for ask in self.asks)
        return self.qos, asks, tuple(sorted(self.total.items()))

    def counts(self, name: str) -> bool:
        """Whether the amount of this resource counts, and not only that a zone lists it."""
        return self.is_guaranteed or not is_affine(name)


def need_of(pod: Pod) -> PodNeed:
    asks = [Ask(_why(c), nanos_of(c.requests)) for c in pod.in_order]
    return PodNeed(qos_class(pod, _SETTINGS), tuple(asks), total_of(asks, nanos_of(pod.overhead)))


def _why(container: Container) -> Why:
    if not container.is_init:
        return Why.CONTAINER
    return Why.SIDECAR if container.is_restartable else Why.INIT_CONTAINER


def total_of(asks: Iterable[Ask], overhead: Amounts) -> dict[str, int]:
    """Per resource the sum of the apps or the largest init container, and the overhead."""
    apps: dict[str, int] = {}
    peak: dict[str, int] = {}
    for ask in asks:
        for name, amount in ask.amounts.items():
            if ask.is_app:
                apps[name] = apps.get(name, 0) + amount
            else:
                peak[name] = max(peak.get(name, amount), amount)
    for name, amount in peak.items():
        apps[name] = max(apps.get(name, amount), amount)
    for name, amount in overhead.items():
        apps[name] = apps.get(name, 0) + amount
    return apps


def nanos_of(resources: Resources) -> dict[str, int]:
    return {name: amount.nanos for name, amount in resources.items()}


def whole(nanos: int) -> int:
    """Billionths as whole units, rounded up."""
    return -(-nanos // NANOS)


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own, by its name."""
    return "/" not in name or "kubernetes.io/" in name


def is_host_level(name: str) -> bool:
    """Whether a resource that no zone lists is there for the whole host."""
    return name in _HOST_LEVEL or not is_native(name)


def is_affine(name: str) -> bool:
    """Whether a resource belongs to NUMA nodes by nature; devices do not."""
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def offered(names: Iterable[str]) -> frozenset[str]:
    """The resources that a host offers to a scheduler, from the names in its allocatable."""
    return _ALWAYS_OFFERED | {name for name in names if _is_scalar(name)}


def _is_scalar(name: str) -> bool:
    return (
        is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )
