"""The node-fit check: do the totals of a host have room for one more pod?

The kubelet runs it after the topology decision, so a pod that fails here may already hold CPUs
and memory, which are freed once it is inactive. Amounts are counted in whole units, CPUs in
thousandths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numalign.core.kubelet.devices.devices import DeviceState
from numalign.core.machine.kubelet_view import MachineInfo
from numalign.core.pod import Pod, counted, is_memory_type
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity, hugepage_type

Totals = Mapping[str, int]
PODS = "pods"


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which a host has too little."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        """How much would have to be freed."""
        return self.requested + self.used - self.capacity

    @property
    def reason(self) -> str:
        """The kubelet's reason, such as ``OutOfcpu``."""
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


def allocatable(settings: Settings, info: MachineInfo, *, pods_max: int = 110) -> dict[str, int]:
    """What a host offers to pods: its capacity less what is reserved. Devices come on top."""
    reserved = settings.node_allocatable_reservation
    totals = {"cpu": info.cpu_count * 1000, "memory": info.memory_bytes}
    for node in info.nodes:
        for pages in node.hugepages:
            name = hugepage_type(pages.size_bytes)
            totals[name] = totals.get(name, 0) + pages.size_bytes * pages.count
    left = {
        name: max(0, total - counted(name, reserved.get(name, Quantity.of(0))))
        for name, total in totals.items()
    }
    hugepages = sum(total for name, total in totals.items() if name.startswith("hugepages-"))
    left["memory"] = max(0, left["memory"] - hugepages)
    return {**left, PODS: pods_max}


def with_devices(totals: Totals, devices: DeviceState, pod: Pod) -> dict[str, int]:
    """The totals with the healthy devices of each resource.

    A pod that has its devices is not refused because a plugin is away.
    """
    counts = {name: r.healthy.bit_count() for name, r in devices.resources.items()}
    if pod.uid in devices.entries:
        for name, ids in devices.in_use.items():
            counts[name] = max(counts.get(name, 0), len(ids))
    return {**totals, **counts}


def shortages(
    pod: Pod, others: Iterable[Pod], settings: Settings, totals: Totals
) -> list[Shortage]:
    """What is missing for the pod beside the others, in the kubelet's order; empty if it fits.

    Resources that the host does not know are only missed if they are not left to others, such as
    a device whose plugin is gone.
    """
    used: dict[str, int] = {}
    count = 0
    for other in others:
        count += 1
        for name, amount in other.requests_counted(settings).items():
            used[name] = used.get(name, 0) + amount
    found: list[Shortage] = []
    if count + 1 > totals.get(PODS, 0):
        found.append(Shortage(PODS, 1, count, totals.get(PODS, 0)))
    wanted = pod.requests_counted(settings)
    for name in sorted(wanted, key=_order):
        requested = wanted[name]
        shortage = Shortage(name, requested, used.get(name, 0), totals.get(name, 0))
        if requested > 0 and _is_checked(name) and shortage.missing > 0:
            found.append(shortage)
    return found


def _order(name: str) -> tuple[int, str]:
    return ["cpu", "memory"].index(name) if name in {"cpu", "memory"} else 2, name


def _is_checked(name: str) -> bool:
    return name == "cpu" or is_memory_type(name) or "/" in name
