"""What a host keeps back from its pods: kube-reserved, system-reserved and hard eviction.

The sum of the three is the *node-allocatable reservation*. The CPU manager takes the number
of reserved CPUs from it, and the memory manager compares it with the reserved memory of the
NUMA nodes. Refusals are ValueErrors with the kubelet's words.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.settings import Version
from numalign.core.values.quantity import ZERO, Quantity
from numalign.core.values.sets import CpuSet

RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")

# What a kubelet on Linux evicts for when its configuration names no threshold at all.
EVICTION_HARD_DEFAULTS: Final[Mapping[str, str]] = {
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
}
EVICTION_SIGNALS: Final = frozenset(
    {
        *EVICTION_HARD_DEFAULTS,
        "allocatableMemory.available",
        "allocatableNodeFs.available",
        "containerfs.available",
        "containerfs.inodesFree",
        "pid.available",
    }
)
_NO_THRESHOLD: Final = frozenset({"0%", "100%"})


@dataclass(frozen=True, slots=True)
class Threshold:
    """A hard eviction threshold: an amount, or a part of the capacity."""

    amount: Quantity | None = None
    fraction: float = 0.0

    def of(self, capacity: int) -> Quantity:
        """The amount of a capacity that the threshold stands for."""
        if self.amount is not None:
            return self.amount
        return Quantity.of(int(float(capacity) * self.fraction), binary=True)


def parse_reserved(flag: str, texts: Mapping[str, str], version: Version) -> dict[str, Quantity]:
    """The amounts of kube-reserved or system-reserved, by resource."""
    try:
        return {name: _reserved(name, texts[name], version) for name in sorted(texts)}
    except ValueError as exc:
        raise ValueError(f"{flag} value failed to parse: {exc}") from exc


def _reserved(name: str, text: str, version: Version) -> Quantity:
    if name not in RESERVABLE:
        raise ValueError(f'cannot reserve "{name}" resource')
    try:
        amount = Quantity.parse(text)
    except ValueError as exc:
        raise ValueError(f'failed to parse quantity "{text}" for "{name}" resource: {exc}') from exc
    if amount < ZERO:
        raise ValueError(f'resource quantity for "{name}" cannot be negative: {text}')
    if name == "cpu" and version is not Version.V1_36:
        # Since 1.37 whole thousandths of a CPU are reserved, halves rounded up.
        return Quantity.of_milli((amount.micro() + 500) // 1000)
    return amount


def parse_thresholds(texts: Mapping[str, str]) -> dict[str, Threshold]:
    """The hard eviction thresholds by signal; those of 0% and 100% stand for none."""
    return {
        signal: _threshold(signal, texts[signal])
        for signal in sorted(texts)
        if texts[signal] not in _NO_THRESHOLD
    }


def _threshold(signal: str, text: str) -> Threshold:
    if signal not in EVICTION_SIGNALS:
        raise ValueError(f"unsupported eviction signal {signal}")
    if text.endswith("%"):
        return Threshold(fraction=_fraction(signal, text))
    try:
        amount = Quantity.parse(text)
    except ValueError as exc:
        raise ValueError(f'eviction threshold {signal} is no quantity: "{text}": {exc}') from exc
    if amount <= ZERO:
        raise ValueError(f"eviction threshold {signal} must be positive: {text}")
    return Threshold(amount)


def _fraction(signal: str, text: str) -> float:
    try:
        percent = _single(float(text.rstrip("%")))
    except (ValueError, OverflowError) as exc:
        raise ValueError(f'eviction percentage threshold {signal} is no number: "{text}"') from exc
    if not percent >= 0:
        raise ValueError(f"eviction percentage threshold {signal} must be >= 0%: {text}")
    if percent > 100:
        raise ValueError(f"eviction percentage threshold {signal} must be <= 100%: {text}")
    return _single(percent / 100)


def _single(number: float) -> float:
    """The nearest number of single precision, in which the kubelet holds percentages."""
    single: float = struct.unpack("f", struct.pack("f", number))[0]
    return single


def node_allocatable_reservation(
    system: Mapping[str, Quantity],
    kube: Mapping[str, Quantity],
    thresholds: Mapping[str, Threshold],
    capacity: Mapping[str, Quantity],
) -> dict[str, Quantity]:
    """What is kept back of each resource that the host has; resources with nothing are left out.

    Raises ValueError where more is kept back than there is.
    """
    total = {}
    for name in sorted(capacity):
        amount = system.get(name, ZERO) + kube.get(name, ZERO)
        if name == "memory" and "memory.available" in thresholds:
            amount += thresholds["memory.available"].of(capacity[name].value())
        if amount > capacity[name]:
            raise ValueError(
                f'invalid Node Allocatable configuration. Resource "{name}" has a reservation of '
                f"{amount} but capacity of {capacity[name]}. Expected capacity >= reservation."
            )
        if amount:
            total[name] = amount
    return total


def reserved_cpu_count(text: str, online: CpuSet) -> int:
    """The size of an explicit list of reserved CPUs, all of which must be online."""
    try:
        listed = CpuSet.parse(text)
    except ValueError as exc:
        raise ValueError(f"unable to parse reserved-cpus list: {exc}") from exc
    if not listed.issubset(online):
        raise ValueError(f"reserved-cpus: {text} is not a subset of online-cpus: {online}")
    return len(listed)
