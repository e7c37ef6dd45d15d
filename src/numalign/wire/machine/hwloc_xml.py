"""A Machine from an hwloc XML export (``lstopo machine.xml``), versions 1, 2 and 3.

hwloc shows a machine as it wants programs to see it. It gives a memory without CPUs the CPUs
that are near to it, hides nodes without memory, and does not tell virtual functions apart. So
the CPUs of a node here are those that no smaller or lower-numbered node claims.
"""

from __future__ import annotations

from typing import Final

from numalign.core.errors import DiscoveryError
from numalign.core.machine.machine import (
    Cache,
    CacheKind,
    Cpu,
    HugePages,
    Machine,
    NumaNode,
    cache_order,
    validate,
)
from numalign.core.values.sets import ID_MAX, CpuSet, bits, format_list
from numalign.wire.machine.hwloc_matrices import latencies, memory_paths
from numalign.wire.machine.hwloc_objects import (
    HwlocObject,
    bitmap,
    number,
    objects,
    of_kind,
    topology,
)
from numalign.wire.machine.hwloc_pci import devices

_CACHE_KINDS: Final = {
    "0": CacheKind.UNIFIED,
    "1": CacheKind.DATA,
    "2": CacheKind.INSTRUCTION,
}


def read_hwloc_xml(data: bytes, source: str, name: str = "") -> Machine:
    """The machine that an export shows; DiscoveryError where it shows none."""
    root = topology(data, source)
    found = objects(root, source)
    nodes = _nodes(found, source)
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    matrix = latencies(root, found, [node.id for node in nodes])
    placed = tuple(
        NumaNode(
            node.id, node.cpus, node.memory_bytes, node.hugepages, matrix[i] if matrix else None
        )
        for i, node in enumerate(nodes)
    )
    return validate(
        Machine(
            name=name or source,
            nodes=placed,
            cpus=_cpus(found, node_of, source),
            memory_bytes=sum(node.memory_bytes for node in nodes),
            caches=_caches(found),
            devices=devices(found, placed),
            memory_paths=memory_paths(root, found, placed),
            offline=_offline(found),
            notes=_notes(found),
        )
    )


def _pus(found: list[HwlocObject], source: str) -> dict[int, HwlocObject]:
    pus = {}
    for pu in of_kind(found, "PU"):
        cpu = pu.os_index
        if cpu is None or cpu > ID_MAX or cpu in pus:
            raise DiscoveryError(
                source, f"a PU with the number {pu.element.get('os_index')}", "each number once"
            )
        pus[cpu] = pu
    return pus


def _cpus(found: list[HwlocObject], node_of: dict[int, int], source: str) -> tuple[Cpu, ...]:
    pus = _pus(found, source)
    sockets = _socket_numbers(found)
    lead: dict[int, int] = {}
    for cpu in sorted(pus):
        core = pus[cpu].above("Core")
        lead.setdefault(cpu if core is None else id(core), cpu)
    cpus = []
    for cpu in sorted(pus):
        core, package = pus[cpu].above("Core"), pus[cpu].above("Package")
        first = lead[cpu if core is None else id(core)]
        core_id = None if core is None else core.os_index
        cpus.append(
            Cpu(
                id=cpu,
                node=node_of.get(cpu),
                socket=0 if package is None else sockets[id(package)],
                core=first,
                core_id=first if core_id is None else core_id,
                die=_number_above(pus[cpu], "Die"),
                cluster=_cluster(pus[cpu]),
            )
        )
    return tuple(cpus)


def _socket_numbers(found: list[HwlocObject]) -> dict[int, int]:
    packages = list(of_kind(found, "Package"))
    known = {package.os_index for package in packages}
    if None in known or len(known) != len(packages):
        return {id(package): count for count, package in enumerate(packages)}
    return {id(package): package.os_index or 0 for package in packages}


def _number_above(pu: HwlocObject, kind: str) -> int | None:
    above = pu.above(kind)
    return None if above is None else above.os_index


def _cluster(pu: HwlocObject) -> int | None:
    group = pu.above("Group")
    while group is not None and group.element.get("subtype") != "Cluster":
        group = group.above("Group")
    return None if group is None else group.os_index


def _nodes(found: list[HwlocObject], source: str) -> list[NumaNode]:
    shown = list(of_kind(found, "NUMANode"))
    if not shown:
        return [_whole_machine(found, source)]
    free = _all_cpus(found)
    nodes: dict[int, NumaNode] = {}
    # The smallest claim wins: a memory on a package stands above those on its parts.
    for made in sorted(shown, key=lambda node: (node.local_cpus().bit_count(), node.os_index or 0)):
        node = made.os_index
        if node is None or node > ID_MAX or node in nodes:
            raise DiscoveryError(
                source, f"a NUMANode with the number {made.element.get('os_index')}", "each once"
            )
        cpus = made.local_cpus() & free
        free &= ~cpus
        memory = made.number("local_memory") or 0
        nodes[node] = NumaNode(node, CpuSet(cpus), memory, _hugepages(made))
    return [nodes[node] for node in sorted(nodes)]


def _whole_machine(found: list[HwlocObject], source: str) -> NumaNode:
    """The one node of a version 1 export without NUMA."""
    machine = next(of_kind(found, "Machine"), None)
    if machine is None:
        raise DiscoveryError(source, "no Machine", "an export of a whole machine")
    memory = machine.number("local_memory") or 0
    return NumaNode(0, CpuSet(_all_cpus(found)), memory, _hugepages(machine))


def _all_cpus(found: list[HwlocObject]) -> int:
    mask = 0
    for pu in of_kind(found, "PU"):
        mask |= 1 << min(pu.os_index or 0, ID_MAX)
    return mask


def _hugepages(made: HwlocObject) -> tuple[HugePages, ...]:
    pages = {}
    for page in made.element.findall("page_type"):
        size, count = number(page.get("size")), number(page.get("count"))
        if size and count is not None:
            pages[size] = HugePages(size, count)
    return tuple(pages[size] for size in sorted(pages)[1:])  # the smallest are ordinary pages


def _caches(found: list[HwlocObject]) -> tuple[Cache, ...]:
    caches = [cache for made in found if (cache := _cache(made)) is not None]
    return tuple(sorted(caches, key=cache_order))


def _cache(made: HwlocObject) -> Cache | None:
    level = made.number("depth")
    kind = _CACHE_KINDS.get(made.element.get("cache_type", ""))
    if not made.kind.endswith("Cache") or _is_memory_side(made) or level is None or kind is None:
        return None
    size = made.number("cache_size") or 0
    cpus = CpuSet(made.local_cpus())
    # One whose CPUs are all forbidden to the process still stands in its export.
    return Cache(level, kind, size, cpus, made.os_index) if cpus else None


def _is_memory_side(made: HwlocObject) -> bool:
    # Exports before 2.1 show such a cache as an L3 with a subtype.
    return made.kind == "MemCache" or made.element.get("subtype") == "MemorySideCache"


def _offline(found: list[HwlocObject]) -> CpuSet:
    """The CPUs that hwloc knows of but does not show."""
    complete = bitmap(found[0].element.get("complete_cpuset", "")) if found else None
    return CpuSet((complete or 0) & ~_all_cpus(found))


def _notes(found: list[HwlocObject]) -> tuple[str, ...]:
    shown = 0
    for node in of_kind(found, "NUMANode"):
        shown |= 1 << min(node.os_index or 0, ID_MAX)
    complete = bitmap(found[0].element.get("complete_nodeset", "")) if found else None
    hidden = (complete or 0) & ~shown
    notes = []
    if shown and hidden:
        which = ", ".join(str(node) for node in bits(hidden))
        notes.append(f"hwloc left out the NUMA nodes {which}: without memory, or not allowed")
    behind = 0
    for cache in filter(_is_memory_side, found):
        behind |= cache.local_cpus()
    if behind:
        notes.append(f"the memory near CPUs {format_list(behind)} stands behind memory-side caches")
    return tuple(notes)
