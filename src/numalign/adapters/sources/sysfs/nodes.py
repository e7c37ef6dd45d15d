"""NUMA nodes, from ``sys/devices/system/node/node*``.

Nodes may have no CPUs, no memory, and numbers with gaps. A kernel without NUMA has no such
directory: then the whole machine is one node. Firmware has been seen to put the same CPUs on
several nodes; each CPU then goes to the smallest of them, and a node that repeats another
one's CPUs is left out, as hwloc does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from numalign.adapters.sources.sysfs.text import SysfsText
from numalign.core.machine.machine import KIB, HugePages, NumaNode
from numalign.core.values.sets import ID_MAX, CpuSet, bits, format_list, mask_of

NODE_ROOT: Final = "sys/devices/system/node"
HUGEPAGES_ROOT: Final = "sys/kernel/mm/hugepages"
NODES_MAX: Final = 4096  # the kernel's own limit is 1024
_NODE_NAME: Final = re.compile(r"node(0|[1-9][0-9]{0,4})", re.ASCII)
_CPU_LINK: Final = re.compile(r"cpu([0-9]{1,5})", re.ASCII)
_HUGEPAGES_NAME: Final = re.compile(r"hugepages-([0-9]{1,12})kB", re.ASCII)
_TOTAL: Final = re.compile(r"^(?:Node [0-9]+ )?MemTotal: *([0-9]{1,19}) kB$", re.ASCII | re.M)


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    cpus: int
    distances: list[int] | None


def read_nodes(text: SysfsText, online: CpuSet) -> tuple[NumaNode, ...]:
    ids = _node_ids(text)
    if not ids:
        text.notes.add("the kernel shows no NUMA nodes: the whole machine is taken as node 0")
        return (NumaNode(0, online, read_memory(text), _hugepages(text, HUGEPAGES_ROOT), None),)
    rows = [_row(text, node, ids, online) for node in ids]
    kept = _without_twins(text, rows)
    cpus = _shared_out(text, kept)
    for cpu in bits(online.mask & ~sum(cpus.values())):
        text.notes.about_cpu(cpu, "on no NUMA node")
    _note_side_caches(text, ids)
    order = [ids.index(row.id) for row in kept]
    return tuple(_node(text, row, cpus[row.id], order) for row in kept)


def read_memory(text: SysfsText) -> int:
    """The memory of the whole machine in bytes, or 0 where it is not told."""
    return _total(text.tree.read("proc/meminfo")) or 0


def node_cpus(nodes: tuple[NumaNode, ...]) -> dict[int, int]:
    return {cpu: node.id for node in nodes for cpu in node.cpus}


def _node_ids(text: SysfsText) -> list[int]:
    matches = (_NODE_NAME.fullmatch(name) for name in text.tree.names(NODE_ROOT))
    ids = sorted(int(match[1]) for match in matches if match and int(match[1]) <= ID_MAX)
    online = text.mask(f"{NODE_ROOT}/online") or 0
    for node in bits(online & ~mask_of(ids)):
        text.notes.add(f"NUMA node {node} is online but has no directory; left out")
    return ids[:NODES_MAX]


def _row(text: SysfsText, node: int, ids: list[int], online: CpuSet) -> _Row:
    base = f"{NODE_ROOT}/node{node}"
    mask = text.mask(f"{base}/cpumap", f"{base}/cpulist")
    if mask is None:
        matches = (_CPU_LINK.fullmatch(name) for name in text.tree.names(base))
        mask = mask_of(int(match[1]) for match in matches if match and int(match[1]) <= ID_MAX)
    return _Row(node, mask & online.mask, _distances(text, base, len(ids)))


def _distances(text: SysfsText, base: str, count: int) -> list[int] | None:
    row = text.numbers(f"{base}/distance", NODES_MAX)
    if row is None or (len(row) == count and min(row) >= 0):
        return row
    text.notes.add(f"{base}/distance does not hold one number for each of the {count} nodes")
    return None


def _without_twins(text: SysfsText, rows: list[_Row]) -> list[_Row]:
    first: dict[int, _Row] = {}
    twins: dict[int, int] = {}
    for row in rows:
        if row.cpus and first.setdefault(row.cpus, row) is not row:
            twins[row.cpus] = twins.get(row.cpus, 0) | 1 << row.id
    for cpus, nodes in twins.items():
        text.notes.add(
            f"NUMA nodes {format_list(nodes)} repeat the CPUs {format_list(cpus)} of node "
            f"{first[cpus].id}; left out with their memory, as hwloc does"
        )
    return [row for row in rows if not row.cpus or first[row.cpus] is row]


def _shared_out(text: SysfsText, rows: list[_Row]) -> dict[int, int]:
    """The CPUs of each node, each CPU on one only."""
    cpus = {}
    taken = 0
    for row in sorted(rows, key=lambda row: (row.cpus.bit_count(), row.id)):
        if row.cpus & taken:
            text.notes.add(
                f"CPUs {format_list(row.cpus & taken)} are on NUMA node {row.id} and on a smaller "
                f"one, which keeps them"
            )
        cpus[row.id] = row.cpus & ~taken
        taken |= row.cpus
    return cpus


def _note_side_caches(text: SysfsText, ids: list[int]) -> None:
    cached = [i for i in ids if text.tree.names(f"{NODE_ROOT}/node{i}/memory_side_cache/index1")]
    if cached:
        nodes = format_list(mask_of(cached))
        text.notes.add(f"the memory of NUMA nodes {nodes} stands behind memory-side caches")


def _node(text: SysfsText, row: _Row, cpus: int, order: list[int]) -> NumaNode:
    base = f"{NODE_ROOT}/node{row.id}"
    memory = _total(text.tree.read(f"{base}/meminfo"))
    if memory is None:
        text.notes.add(f"{base}/meminfo does not tell the memory of the node; shown as 0")
    return NumaNode(
        id=row.id,
        cpus=CpuSet(cpus),
        memory_bytes=memory or 0,
        hugepages=_hugepages(text, f"{base}/hugepages"),
        distances=None if row.distances is None else tuple(row.distances[i] for i in order),
    )


def _hugepages(text: SysfsText, base: str) -> tuple[HugePages, ...]:
    found = []
    for name in text.tree.names(base):
        match = _HUGEPAGES_NAME.fullmatch(name)
        count = text.number(f"{base}/{name}/nr_hugepages") if match else None
        if match and count is not None and count >= 0:
            found.append(HugePages(int(match[1]) * KIB, count))
    return tuple(sorted(found, key=lambda pages: pages.size_bytes))


def _total(meminfo: str | None) -> int | None:
    match = _TOTAL.search(meminfo or "")
    return int(match[1]) * KIB if match else None
