"""What the managers remember: the values behind the kubelet's three state files.

All of it is immutable. A change makes a new value that shares what did not change, so a
what-if is just the next state, thrown away. CPU sets are plain masks here (see ``sets``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CpuState:
    """The content of ``cpu_manager_state``."""

    policy: str
    shared: int = 0  # the default CPU set
    entries: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # pod, container
    pod_sets: Mapping[str, int] = field(default_factory=dict)  # pods with pod-level resources
    baselines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # 1.37 only


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """The accounts of one kind of memory on one NUMA node, in bytes."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory of one NUMA node and the group of nodes that it now belongs to."""

    assignments: int
    cells: tuple[int, ...]
    tables: Mapping[str, MemoryTable]


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of one kind given to a container, on these NUMA nodes together."""

    nodes: tuple[int, ...]
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The content of ``memory_manager_state``."""

    policy: str
    machine: Mapping[int, NodeMemory] = field(default_factory=dict)
    entries: Mapping[str, Mapping[str, tuple[Block, ...]]] = field(default_factory=dict)
    pod_blocks: Mapping[str, tuple[Block, ...]] = field(default_factory=dict)
