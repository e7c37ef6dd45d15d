"""A machine as parts within parts for the page: what ``picture`` draws, without its coordinates.

The page chooses rows and columns by the width of its window; which part is in which, what they are
called and how far nodes are from each other is the same as in the picture.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from numalign.apps.render.drawing.footer import shades
from numalign.core.machine import distances, labels
from numalign.core.machine.machine import Cache, DeviceKind, Machine
from numalign.core.machine.nesting import CachePart, DiePart, NodePart, SocketPart, nest
from numalign.core.values.sets import NodeSet, format_list

_ALONE_MAX: Final = 16  # with more NUMA nodes than this, nodes that are alike share a row
_KEPT_MAX: Final = 8  # machines; an agent has one, a fleet's page looks at some


def _is(text: str) -> Meta:
    return Meta(description=text)


class _Part(msgspec.Struct, rename="camel"):
    pass


class CacheLayout(_Part):
    """Cores of one NUMA node under one cache, or under none of their own."""

    name: Annotated[str, _is("such as L3 32 MiB; empty: it also serves other parts")]
    cores: Annotated[list[str], _is("the CPUs of each core")]


class NodeLayout(_Part):
    """A NUMA node, or the part of it that is on one socket."""

    node: Annotated[int | None, _is("null: these CPUs are on no NUMA node")]
    whole: bool
    first: Annotated[bool, _is("false: memory and devices of the node are shown elsewhere")]
    caches: list[CacheLayout]


class DieLayout(_Part):
    die: int | None
    nodes: list[NodeLayout]


class SocketLayout(_Part):
    id: int
    cpus: str
    cores: int
    shared_caches: Annotated[list[str], _is("caches that serve several of its parts")]
    dies: list[DieLayout]
    memory_nodes: Annotated[list[int], _is("NUMA nodes without CPUs that are nearest to it")]


class MemoryLayout(_Part):
    """The memory that is built in, whether or not it is given node by node."""

    node: int
    size_bytes: int
    text: str
    huge_pages: Annotated[str, _is("such as 8 x 1 GiB; empty: none")]


class PciLayout(_Part):
    """A PCI device, or several that are not worth a name each."""

    node: int | None
    kind: str
    name: str
    address: Annotated[str, _is("empty for several")]
    count: int


class DistanceLayout(_Part):
    groups: Annotated[list[str], _is("NUMA nodes of each row and column")]
    rows: Annotated[list[list[list[int]]], _is("one distance, or two: to itself, to its like")]
    shades: Annotated[dict[str, float], _is("of each distance, from near (0) to far (1)")]


class Layout(_Part):
    """What is built into what, for drawing it."""

    shape: Annotated[str, _is("the machine in numbers")]
    sockets: list[SocketLayout]
    memory_nodes: Annotated[list[int], _is("NUMA nodes without CPUs that are near to no socket")]
    memory: Annotated[list[MemoryLayout], _is("of each NUMA node")]
    pci: list[PciLayout]
    distances: DistanceLayout | None


@lru_cache(_KEPT_MAX)
def structure(machine: Machine) -> Layout:
    """The parts of a machine; do not change what it gives."""
    parts = nest(machine)
    return Layout(
        labels.shape(machine),
        [_socket(machine, socket) for socket in parts.sockets],
        [node.id for node in parts.memory_nodes],
        [
            MemoryLayout(
                node.id, node.memory_bytes, labels.memory(node), labels.huge_pages(node.hugepages)
            )
            for node in machine.nodes
        ],
        _pci(machine),
        _distances(machine),
    )


def _socket(machine: Machine, part: SocketPart) -> SocketLayout:
    return SocketLayout(
        part.socket,
        str(part.cpus),
        sum(node.cores for node in part.nodes),
        [_shared(machine, cache) for cache in part.shared_caches],
        [_die(die) for die in part.dies],
        [node.id for node in part.memory_nodes],
    )


def _shared(machine: Machine, cache: Cache) -> str:
    nodes = NodeSet.of(n.id for n in machine.nodes if n.cpus.mask & cache.cpus.mask)
    return f"{_name(cache)} for {labels.nodes(nodes)}"


def _name(cache: Cache) -> str:
    """As in the picture; a host that was published or read by others may not say how large."""
    return labels.cache(cache) if cache.size_bytes else f"L{cache.level}"


def _die(part: DiePart) -> DieLayout:
    return DieLayout(part.die, [_node(node) for node in part.nodes])


def _node(part: NodePart) -> NodeLayout:
    number = None if part.node is None else part.node.id
    return NodeLayout(number, part.whole, part.first, [_cache(cache) for cache in part.caches])


def _cache(part: CachePart) -> CacheLayout:
    name = "" if part.cache is None or part.shared else _name(part.cache)
    return CacheLayout(name, [format_list(core.cpus.mask) for core in part.cores])


def _pci(machine: Machine) -> list[PciLayout]:
    found = []
    for node in (*machine.node_set, None):
        for kind, same in labels.by_kind(machine.devices_on(node)):
            is_named = kind is not DeviceKind.OTHER
            named = [d for d in same if is_named and not d.virtual_function]
            noun = labels.KIND_NAMES[kind][0]
            found += [
                PciLayout(node, kind.value, f"{noun} {d.name}".rstrip(), d.address, 1)
                for d in named
            ]
            if rest := len(same) - len(named):
                name = f"{noun} VF" if is_named else noun
                found.append(PciLayout(node, kind.value, name, "", rest))
    return found


def _distances(machine: Machine) -> DistanceLayout | None:
    is_large = len(machine.nodes) > _ALONE_MAX
    groups = distances.alike(machine) if is_large else distances.each_alone(machine)
    if groups is None or len(machine.nodes) == 1:
        return None
    return DistanceLayout(
        [str(group) for group in groups.groups],
        [[list(values) for values in row] for row in groups.rows],
        {str(value): round(shade, 3) for value, shade in shades(groups).items()},
    )
