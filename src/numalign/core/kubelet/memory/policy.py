"""The static memory policy of one host: reserved memory, checked as the kubelet checks it, and
the accounts of an empty machine.

The kubelet counts memory in unsigned 64-bit numbers. It never compares what is reserved on a node
with what the node has, so where more is reserved, almost 2**64 bytes seem to be left. Sums over
several nodes wrap around once more: a wider set of nodes can then have less than a narrower one.
"""

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
UINT64: Final = 2**64 - 1  # sums of bytes are taken "& UINT64", as the kubelet's wrap around
# With less than this on all nodes together, no sum over nodes can wrap, not even with what is
# left of an init container added: a request is a signed number.
_SURE_MAX: Final = 2**63

Reserved = Mapping[int, Mapping[str, int]]  # node, type -> bytes


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    empty: Mapping[int, NodeMemory]  # the accounts before the first allocation, by node id
    all_nodes: int
    version: Version
    fidelity: Fidelity
    wrapping: frozenset[str]  # the types whose sums over nodes can wrap around
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
    is_safe = settings.fidelity is Fidelity.SAFE
    empty = {
        node.id: _empty(node, reserved.get(node.id, {}), is_safe=is_safe)
        for node in sorted(info.nodes, key=lambda node: node.id)
    }
    mask = sum(1 << i for i in empty)
    return MemoryPolicy(empty, mask, settings.version, settings.fidelity, _wrapping(empty))


def _wrapping(empty: Mapping[int, NodeMemory]) -> frozenset[str]:
    totals: dict[str, int] = {}
    for node in empty.values():
        for name, table in node.tables.items():
            totals[name] = totals.get(name, 0) + table.allocatable
    return frozenset(name for name, total in totals.items() if total >= _SURE_MAX)


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


def _empty(node: NodeInfo, reserved: Mapping[str, int], *, is_safe: bool) -> NodeMemory:
    tables: dict[str, MemoryTable] = {}
    hugepages_total = 0
    for pages in node.hugepages:
        name = hugepage_type(pages.size_bytes)
        total = pages.size_bytes * pages.count
        hugepages_total += total
        tables[name] = _table(total, reserved.get(name, 0), 0, is_safe=is_safe)
    tables["memory"] = _table(
        node.memory_bytes, reserved.get("memory", 0), hugepages_total, is_safe=is_safe
    )
    return NodeMemory(0, (node.id,), tables)


def _table(total: int, reserved: int, carved_out: int, *, is_safe: bool) -> MemoryTable:
    left = total - reserved - carved_out
    # A node that owes more than it has can give nothing; the kubelet takes it for bottomless.
    allocatable = max(0, left) if is_safe else left & UINT64
    return MemoryTable(total, reserved, allocatable, 0, allocatable)
