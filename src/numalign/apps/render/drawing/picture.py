"""A machine as boxes with coordinates: sockets, NUMA nodes, caches, cores, CPUs, devices.

Pure layout; what a box looks like is decided by its role where it is drawn. The footer with
distances and legend is in ``picture_footer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from numalign.apps.render.drawing.boxes import (
    Bar,
    Drawable,
    Grid,
    Heading,
    Panel,
    Size,
    Stretch,
    balanced,
    place,
)
from numalign.apps.render.drawing.chips import devices, tags
from numalign.apps.render.drawing.footer import footer
from numalign.apps.render.drawing.textwidth import shortened
from numalign.core.machine import labels
from numalign.core.machine.machine import Machine, NumaNode
from numalign.core.machine.nesting import (
    CachePart,
    CorePart,
    DiePart,
    NodePart,
    SocketPart,
    last_level,
    nest,
)
from numalign.core.values.sets import NodeSet
from numalign.core.values.sizes import counted, human

MARGIN: Final = 16.0
_NODE_WIDTH: Final = 260.0  # what a node with devices gets at least
_MEMORY_CHIPS_LARGE: Final = 4
_RATIOS: Final = {"cores": 3.0, "caches": 1.5, "nodes": 1.5, "sockets": 1.9}
_PAGE: Final = 1.6  # the whole picture is brought near to this ratio of width to height


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes from back to front on a canvas of this size."""

    width: float
    height: float
    title: str
    shapes: tuple[Drawable, ...]


def picture(machine: Machine) -> Picture:
    page = _page(machine)
    least = page.size
    room = Size(ceil(least.w), ceil(least.h))  # whole pixels: no line of background at the edge
    return Picture(room.w, room.h, machine.name, tuple(place(page, room=room)))


def _page(machine: Machine) -> Panel:
    """The whole page: the footer goes below or to the right, whatever is nearer to a page."""
    body = _Drawing(machine).body()
    title = (
        Heading(shortened(machine.name, 22, 600, bold=True), size=22, bold=True),
        Heading(f"{labels.shape(machine)} memory", size=13, muted=True),
    )
    row, column = footer(machine, wide=True), footer(machine, wide=False)
    side = Panel("blank", grids=tuple(Grid((panel,)) for panel in column), pad=0, gap=12)
    below = (Grid((body,)), Grid(tuple(row), columns=len(row), gap=12))
    beside = (Grid((body, side), columns=2, gap=12, stretch=Stretch.LAST),)
    pages = [Panel("canvas", title, grids=grids, pad=MARGIN, gap=12) for grids in (below, beside)]
    return min(pages, key=_waste)


def _waste(page: Panel) -> float:
    """The area of a page, counted double if it is twice too wide or too high."""
    room = page.size
    off = room.w / room.h / _PAGE
    return room.w * room.h * max(off, 1 / off, 1.3)


class _Drawing:
    """Turns the parts of one machine into panels."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.memory_max = max(node.memory_bytes for node in machine.nodes) or 1
        self.digits = len(str(machine.cpus[-1].id))

    def body(self) -> Panel:
        """All sockets, then what belongs to none of them."""
        parts = nest(self.machine)
        sockets = [self.socket(part) for part in parts.sockets]
        grids = [Grid(tuple(sockets), balanced(sockets, _RATIOS["sockets"]), gap=12, grow=True)]
        if parts.memory_nodes:
            grids.append(Grid((self.memory_group(parts.memory_nodes, sockets[0].size.w),)))
        nowhere = self.machine.devices_on(None)
        if nowhere:
            room = sum(s.size.w for s in sockets[: grids[0].columns])
            heading = Heading("PCI devices at no NUMA node", bold=True)
            grids.append(Grid((Panel("socket", (heading,), grids=devices(nowhere, room)),)))
        return Panel("blank", grids=tuple(grids), pad=0, gap=12)

    def socket(self, part: SocketPart) -> Panel:
        cores = sum(node.cores for node in part.nodes)
        counts = f"{counted(cores, 'core')}, {counted(len(part.cpus), 'CPU')}"
        heading = Heading(f"Socket {part.socket}", counts, size=14, bold=True)
        grids = [Grid((self.shared_cache(c.cpus.mask, c.size_bytes),)) for c in part.shared_caches]
        dies = [panel for die in part.dies for panel in self.die(die)]
        grids.append(Grid(tuple(dies), balanced(dies, _RATIOS["nodes"]), gap=8, grow=True))
        if part.memory_nodes:
            width = Panel("socket", grids=tuple(grids)).size.w
            grids.append(Grid((self.memory_group(part.memory_nodes, width),)))
        return Panel("socket", (heading,), grids=tuple(grids), pad=9, gap=7)

    def shared_cache(self, cpu_mask: int, size_bytes: int) -> Panel:
        nodes = NodeSet.of(n.id for n in self.machine.nodes if n.cpus.mask & cpu_mask)
        level = last_level(self.machine)
        name = f"L{level} {human(size_bytes)}"
        return Panel("cache", (Heading(name, f"serves {labels.nodes(nodes)}"),))

    def die(self, part: DiePart) -> list[Panel]:
        nodes = [self.node(node) for node in part.nodes]
        if part.die is None:
            return nodes
        grid = Grid(tuple(nodes), balanced(nodes, _RATIOS["nodes"]), gap=8, grow=True)
        return [Panel("die", (Heading(f"Die {part.die}", bold=True),), grids=(grid,))]

    def node(self, part: NodePart) -> Panel:
        caches = [self.cache(cache) for cache in part.caches]
        grid = Grid(tuple(caches), balanced(caches, _RATIOS["caches"]))
        if part.node is None:
            return Panel("loose", (Heading("On no NUMA node", size=12, bold=True),), grids=(grid,))
        name = f"NUMA node {part.node.id}" + ("" if part.whole else " (in part)")
        if not part.first:
            return Panel("node", (Heading(name, size=12, bold=True),), grids=(grid,))
        width = max(Panel("node", grids=(grid,)).size.w, _NODE_WIDTH)
        chips = devices(self.machine.devices_on(part.node.id), width)
        headings = (Heading(name, labels.memory(part.node), size=12, bold=True), *_huge(part.node))
        return Panel("node", headings, self.bar(part.node), (grid, *chips), pad=7)

    def bar(self, node: NumaNode) -> Bar | None:
        if not node.memory_bytes:
            return None
        huge = sum(p.size_bytes * p.count for p in node.hugepages)
        return Bar(node.memory_bytes / self.memory_max, min(huge / node.memory_bytes, 1))

    def cache(self, part: CachePart) -> Panel:
        cores = [self.core(core) for core in part.cores]
        grid = Grid(tuple(cores), balanced(cores, _RATIOS["cores"]), gap=3)
        if part.cache is None or part.shared:
            return Panel("blank", grids=(grid,), pad=0)
        name = Heading(labels.cache(part.cache), counted(len(cores), "core"))
        return Panel("cache", (name,), grids=(grid,), pad=5, gap=3)

    def core(self, part: CorePart) -> Panel:
        width = 10 + 6.5 * self.digits
        cpus = tuple(
            Panel(
                "cpu",
                (Heading(str(cpu), size=10, centred=True),),
                pad=2,
                width_min=width,
                height_min=17,
            )
            for cpu in part.cpus
        )
        hint = f"core {part.core}: CPUs {part.cpus}"
        return Panel("core", grids=(Grid(cpus, len(cpus), gap=2),), pad=2.5, hint=hint)

    def memory_group(self, nodes: Sequence[NumaNode], width: float) -> Panel:
        """NUMA nodes without CPUs, small where there are dozens of them."""
        many = len(nodes) > _MEMORY_CHIPS_LARGE
        chips = [self.memory_chip(node, "node" if many else "NUMA node") for node in nodes]
        headings = (Heading("NUMA nodes without CPUs", size=11, bold=True),)
        return Panel("die", headings, grids=tags(chips, width))

    def memory_chip(self, node: NumaNode, noun: str) -> Panel:
        role = "memory" if node.memory_bytes else "memory-empty"
        lines = (
            Heading(f"{noun} {node.id}", size=9.5, bold=True, centred=True),
            Heading(labels.memory(node) if node.memory_bytes else "empty", size=9, centred=True),
        )
        chips = devices(self.machine.devices_on(node.id), 0)
        hint = f"NUMA node {node.id}: no CPUs, {labels.memory(node)}"
        return Panel(role, lines, grids=chips, pad=3, hint=hint)


def _huge(node: NumaNode) -> tuple[Heading, ...]:
    text = labels.huge_pages(node.hugepages)
    return (Heading(f"huge pages {text}", size=10, muted=True),) if text else ()
