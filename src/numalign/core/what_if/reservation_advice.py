"""Which CPUs and which memory to keep for the system, so that the kubelet's start checks hold.

The memory manager starts only if the reserved memory of all nodes is exactly what the host keeps
back in total: kube-reserved, system-reserved and the hard eviction threshold together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo
from numalign.core.settings import ReservedMemory, Settings
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import format_list, mask_of, parse_list

_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True)
class Reservations:
    """The lines for the kubelet's configuration, and why they are as they are."""

    cpus: str  # reservedSystemCPUs
    memory: tuple[ReservedMemory, ...]  # reservedMemory
    reasons: tuple[str, ...]


def reservations(settings: Settings, info: MachineInfo) -> Reservations:
    """The reservation that suits this machine, as close to the present one as possible."""
    cpus, cpu_reason = _cpus(settings, info)
    memory, memory_reason = _memory(settings, info, parse_list(cpus))
    return Reservations(cpus, memory, (cpu_reason, memory_reason))


def applied(settings: Settings, found: Reservations) -> Settings:
    amounts = dict(settings.node_allocatable_reservation)
    amounts["cpu"] = Quantity.of(parse_list(found.cpus).bit_count())
    return replace(
        settings,
        reserved_cpus=found.cpus,
        reserved_memory=found.memory,
        node_allocatable_reservation=amounts,
    )


# CPUs.


def _cpus(settings: Settings, info: MachineInfo) -> tuple[str, str]:
    cores = [core for node in info.nodes for core in node.cores]
    listed = parse_list(settings.reserved_cpus)
    if listed:
        whole = _whole_cores(cores, listed)
        if whole == listed:
            return format_list(listed), "reservedSystemCPUs are whole cores already: kept."
        more = format_list(whole & ~listed)
        return format_list(whole), (
            f"reservedSystemCPUs grow by {more} to whole cores: a core that is partly reserved is "
            "lost for full-pcpus-only and shared with the system otherwise."
        )
    amount = settings.node_allocatable_reservation.get("cpu")
    count = max(1, 0 if amount is None else -(-amount.milli() // 1000))
    chosen = 0
    for core in sorted(cores, key=lambda core: min(core.threads)):
        if chosen.bit_count() >= count:
            break
        chosen |= mask_of(core.threads)
    return format_list(chosen), (
        f"reservedSystemCPUs name the first whole cores for a reservation of {count} CPUs."
    )


def _whole_cores(cores: list[CoreInfo], cpus: int) -> int:
    found = 0
    for core in cores:
        if mask_of(core.threads) & cpus:
            found |= mask_of(core.threads)
    return found


# Memory.


def _memory(
    settings: Settings, info: MachineInfo, cpus: int
) -> tuple[tuple[ReservedMemory, ...], str]:
    amount = settings.node_allocatable_reservation.get(_MEMORY)
    if amount is None or amount.is_zero:
        return (), (
            "nothing of memory is reserved in total (kubeReserved, systemReserved and "
            "evictionHard), so memoryManagerPolicy Static cannot be used."
        )
    own = [item for item in settings.reserved_memory if item.type == _MEMORY]
    total = sum(item.amount.value() for item in own)
    if own and total == amount.value():
        return settings.reserved_memory, (
            f"reservedMemory adds up to {amount}, what is reserved in total: kept."
        )
    spread = _spread(info, cpus, amount.value())
    return spread, (
        f"reservedMemory adds up to {amount}: kubeReserved, systemReserved and the eviction "
        "threshold together, as the memory manager checks when it starts."
    )


def _spread(info: MachineInfo, cpus: int, amount: int) -> tuple[ReservedMemory, ...]:
    """All on the node of the reserved CPUs; what it cannot hold on the nodes after it."""
    near = [n for n in info.nodes if any(mask_of(c.threads) & cpus for c in n.cores)]
    order = [*near, *(node for node in info.nodes if node not in near)]
    found = []
    for node in order:
        pages = sum(p.size_bytes * p.count for p in node.hugepages)
        part = min(amount, max(0, node.memory_bytes - pages) // 2)
        if node is order[-1]:
            part = amount
        if part:
            found.append(ReservedMemory(node.id, _MEMORY, Quantity.of(part, binary=True)))
            amount -= part
    return tuple(found)
