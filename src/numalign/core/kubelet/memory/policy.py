"""The static memory policy of one host: reserved memory, checked as the kubelet checks it, and
the accounts of an empty machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.errors import StartError
from numalign.core.kubelet.state import MemoryTable, NodeMemory
from numalign.core.machine.kubelet_view import MachineInfo, NodeInfo
from numalign.core.pod import is_memory_type
from numalign.core.settings import Fidelity, Settings, Version
from numalign.core.values import gotext
from numalign.core.values.quantity import Quantity, hugepage_type

PHASE: Final = "memory_manager"
_UINT64: Final = 2**64 - 1  # the kubelet's accounts wrap around where reservations exceed memory

Reserved = Mapping[int, Mapping[str, int]]  # node, type -> bytes


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """A static memory policy that is ready to decide."""

    empty: Mapping[int, NodeMemory]  # the accounts before the first allocation, by node id
    all_nodes: int
    version: Version
    fidelity: Fidelity
    # How many nodes a request needs on an empty machine, for requests seen before.
    fewest: dict[tuple[tuple[str, int], ...], int] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def is_safe(self) -> bool:
        """Whether the kubelet's defects are repaired."""
        return self.fidelity is Fidelity.SAFE


def memory_policy(settings: Settings, info: MachineInfo) -> MemoryPolicy | None:
    """The configured policy, None for ``None``; StartError with the kubelet's words otherwise."""
    name = settings.memory_policy
    if name == "None":
        return None
    if name == "BestEffort":
        raise StartError(PHASE, 'policy "BestEffort" is not available for platform "linux"')
    if name != "Static":
        raise StartError(PHASE, f"unknown policy: {gotext.quoted(name)}")
    reserved = _reserved(settings, info)
    empty = {node.id: _empty(node, reserved.get(node.id, {})) for node in info.nodes}
    mask = sum(1 << node.id for node in info.nodes)
    return MemoryPolicy(dict(sorted(empty.items())), mask, settings.version, settings.fidelity)


def _reserved(settings: Settings, info: MachineInfo) -> Reserved:
    nodes = {node.id for node in info.nodes}
    for item in settings.reserved_memory:
        if item.node not in nodes:
            raise StartError(
                PHASE,
                "the reserved memory configuration references a NUMA node "
                f"{item.node} that does not exist on this machine",
            )
    _check_totals(settings)
    reserved: dict[int, dict[str, int]] = {}
    for item in settings.reserved_memory:
        size = item.amount.as_int64()
        if size is None:
            raise StartError(PHASE, "could not covert a variable of type Quantity to int64")
        reserved.setdefault(item.node, {})[item.type] = size
    if not any(tables.get("memory", 0) > 0 for tables in reserved.values()):
        raise StartError(PHASE, "[memorymanager] you should specify the system reserved memory")
    return reserved


def _check_totals(settings: Settings) -> None:
    totals: dict[str, Quantity] = {}
    for item in settings.reserved_memory:
        before = totals.get(item.type)
        totals[item.type] = item.amount if before is None else before + item.amount
    allocatable = settings.node_allocatable_reservation
    names = {*totals, *(name for name in allocatable if is_memory_type(name))}
    zero = Quantity.of(0)
    for name in sorted(names):
        total, expected = totals.get(name, zero), allocatable.get(name, zero)
        if total != expected:
            raise StartError(
                PHASE,
                f'the total amount "{total}" of type "{name}" is not equal to the value '
                f'"{expected}" determined by Node Allocatable feature',
            )


def _empty(node: NodeInfo, reserved: Mapping[str, int]) -> NodeMemory:
    tables: dict[str, MemoryTable] = {}
    hugepages_total = 0
    for pages in node.hugepages:
        name = hugepage_type(pages.size_bytes)
        total = pages.size_bytes * pages.count
        hugepages_total += total
        tables[name] = _table(total, reserved.get(name, 0), 0)
    tables["memory"] = _table(node.memory_bytes, reserved.get("memory", 0), hugepages_total)
    return NodeMemory(0, (node.id,), tables)


def _table(total: int, reserved: int, carved_out: int) -> MemoryTable:
    allocatable = (total - reserved - carved_out) & _UINT64
    return MemoryTable(total, reserved, allocatable, 0, allocatable)
