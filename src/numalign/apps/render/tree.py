"""A machine as a tree of text, in the spirit of hwloc's lstopo.

Folded, parts that are alike share one line, so that 256 CPUs fit on a screen; every CPU
number still appears exactly once. Full, every core and device has its own line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from numalign.apps.render.text import Line, Span, Tone, wrap
from numalign.core.machine import distances, labels
from numalign.core.machine.machine import DeviceKind, Machine, NumaNode, PciDevice
from numalign.core.machine.nesting import CachePart, DiePart, Nesting, NodePart, SocketPart, nest
from numalign.core.values.sets import NodeSet
from numalign.core.values.sizes import counted


@dataclass(frozen=True, slots=True)
class Item:
    spans: tuple[Span, ...]
    below: tuple[Item, ...] = ()


def render(machine: Machine, *, full: bool = False, width: int = 100) -> list[Line]:
    """The machine as lines of at most this width."""
    writer = _Writer(machine, nest(machine), full)
    lines = wrap(_title(machine), width, later="  ")
    for item, last in _with_last(writer.items()):
        lines += _draw(item, "", width, last=last)
    if machine.offline:
        lines += wrap((Span(f"offline CPUs: {machine.offline}", Tone.WARNING),), width, later="  ")
    for note in machine.notes:
        spans = (Span("note: ", Tone.WARNING), Span(note))
        lines += wrap(spans, width, later="  ", prose=True)
    return lines


def _title(machine: Machine) -> list[Span]:
    spans = [Span(machine.name, Tone.TITLE), Span(f": {labels.shape(machine)}")]
    private = labels.private_caches(machine)
    return [*spans, Span(f"; each core {private}", Tone.DIM)] if private else spans


def _draw(item: Item, prefix: str, width: int, *, last: bool) -> list[Line]:
    branch, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
    hang = "│ " if item.below else "  "
    lines = wrap(item.spans, width, prefix + branch, prefix + trunk + hang)
    for child, is_last in _with_last(item.below):
        lines += _draw(child, prefix + trunk, width, last=is_last)
    return lines


def _with_last(items: Sequence[Item]) -> Iterator[tuple[Item, bool]]:
    for i, item in enumerate(items):
        yield item, i == len(items) - 1


@dataclass(frozen=True, slots=True)
class _Writer:
    """Turns the parts of one machine into items."""

    machine: Machine
    nesting: Nesting
    full: bool

    def items(self) -> tuple[Item, ...]:
        nowhere = self.devices(self.machine.devices_on(None))
        items = [self.socket(part) for part in self.nesting.sockets]
        items += self.memory_nodes(self.nesting.memory_nodes)
        if nowhere:
            items.append(Item((Span("At no NUMA node", Tone.NODE),), tuple(nowhere)))
        return tuple(items)

    def socket(self, part: SocketPart) -> Item:
        cores = sum(node.cores for node in part.nodes)
        counts = f": {counted(cores, 'core')}, {counted(len(part.cpus), 'CPU')}"
        caches = [
            Item((Span(labels.cache(c), Tone.CACHE), Span(f" for {self.served(c.cpus.mask)}")))
            for c in part.shared_caches
        ]
        below = [item for die in part.dies for item in self.die(die)]
        below += self.memory_nodes(part.memory_nodes)
        name = Span(f"Socket {part.socket}", Tone.TITLE)
        return Item((name, Span(counts)), (*caches, *below))

    def served(self, cpu_mask: int) -> str:
        served = (n.id for n in self.machine.nodes if n.cpus.mask & cpu_mask)
        return labels.nodes(NodeSet.of(served))

    def die(self, part: DiePart) -> list[Item]:
        nodes = [self.node(node) for node in part.nodes]
        if part.die is None:
            return nodes
        return [Item((Span(f"Die {part.die}", Tone.TITLE),), tuple(nodes))]

    def node(self, part: NodePart) -> Item:
        if part.node is None:
            return Item((Span("On no NUMA node", Tone.NODE),), tuple(self.caches(part)))
        spans = [Span(f"NUMA node {part.node.id}", Tone.NODE)]
        spans += [] if part.whole else [Span(" (in part)", Tone.WARNING)]
        below = self.caches(part)
        if part.first:
            spans += [Span(": "), *self.memory(part.node)]
            below += self.paths(part.node) + self.devices(self.machine.devices_on(part.node.id))
        return Item(tuple(spans), tuple(below))

    def memory(self, node: NumaNode, *, distance: bool = True) -> list[Span]:
        pages = labels.huge_pages(node.hugepages)
        text = f"{labels.memory(node)}, huge pages {pages}" if pages else labels.memory(node)
        far = distances.in_words(self.machine, node.id) if distance else ""
        return [Span(text), *([Span(f", distance {far}", Tone.DIM)] if far else [])]

    def caches(self, part: NodePart) -> list[Item]:
        alike = groupby(part.caches, key=lambda c: (_cache_size(c), len(c.cores), len(c.cpus)))
        groups = [list(group) for _, group in alike]
        if self.full:
            return [self.full_cache(one) for group in groups for one in group]
        return [_one_cache(g[0]) if len(g) == 1 else _many_caches(g) for g in groups]

    def full_cache(self, part: CachePart) -> Item:
        cores = tuple(
            Item((Span(f"core {core.core}: "), Span(labels.cpus(core.cpus), Tone.CPU)))
            for core in part.cores
        )
        counts = f"{counted(len(part.cores), 'core')}, {counted(len(part.cpus), 'CPU')}"
        return Item((*_cache_name(part), Span(counts)), cores)

    def paths(self, node: NumaNode) -> list[Item]:
        """What the firmware says of this node's memory as seen from other nodes."""
        paths = [path for path in self.machine.memory_paths if path.target == node.id]
        texts = [f"{p.initiator}: {labels.reading(p)}" for p in paths if labels.reading(p)]
        return [Item((Span(f"read from node {'; from node '.join(texts)}"),))] if texts else []

    def memory_nodes(self, nodes: Sequence[NumaNode]) -> list[Item]:
        """Nodes without CPUs; folded where neighbours have nothing to tell them apart."""

        def likeness(node: NumaNode) -> tuple[object, ...]:
            alone = self.full or self.machine.devices_on(node.id) or node.memory_bytes
            return (node.memory_bytes, node.id if alone else -1)

        return [self.memory_node(list(same)) for _, same in groupby(nodes, key=likeness)]

    def memory_node(self, same: list[NumaNode]) -> Item:
        ids = NodeSet.of(node.id for node in same)
        name = Span(labels.nodes(ids), Tone.NODE)
        spans = (name, Span(": no CPUs, "), *self.memory(same[0], distance=len(same) == 1))
        devices = self.devices(self.machine.devices_on(same[0].id)) if len(same) == 1 else []
        return Item(spans, (*self.paths(same[0]), *devices))

    def devices(self, devices: Sequence[PciDevice]) -> list[Item]:
        if self.full:
            return [Item(_full_device(d)) for _, same in labels.by_kind(devices) for d in same]
        return [Item(_folded_devices(kind, same)) for kind, same in labels.by_kind(devices)]


def _cache_size(part: CachePart) -> tuple[int, bool]:
    """What a cache part's line says of its cache; -1 where it says nothing."""
    return (part.cache.size_bytes if part.cache and not part.shared else -1, part.shared)


def _cache_name(part: CachePart) -> list[Span]:
    if part.cache is None or part.shared:
        return []
    return [Span(labels.cache(part.cache), Tone.CACHE), Span(", ")]


def _one_cache(part: CachePart) -> Item:
    count = Span(f"{counted(len(part.cores), 'core')}: ")
    return Item((*_cache_name(part), count, Span(labels.cpus(part.cpus), Tone.CPU)))


def _many_caches(parts: list[CachePart]) -> Item:
    first = parts[0]
    counts = f"each {counted(len(first.cores), 'core')} / {counted(len(first.cpus), 'CPU')}: "
    lists = " | ".join(str(part.cpus) for part in parts)
    name = _cache_name(first) or [Span("groups, ")]
    return Item((Span(f"{len(parts)} x "), *name, Span(counts), Span(lists, Tone.CPU)))


def _folded_devices(kind: DeviceKind, devices: list[PciDevice]) -> tuple[Span, ...]:
    real = [d for d in devices if not d.virtual_function]
    virtual = len(devices) - len(real)
    if kind is DeviceKind.OTHER:
        return (Span(counted(len(devices), *labels.KIND_NAMES[kind]), Tone.DIM),)
    texts = [labels.device(d) for d in real]
    texts += [counted(virtual, "virtual function")] if virtual else []
    name = labels.KIND_NAMES[kind][0]
    head = name if len(real) < 2 else f"{len(real)} x {name}"
    return (Span(head, Tone.DEVICE), Span(f" {', '.join(texts)}"))


def _full_device(device: PciDevice) -> tuple[Span, ...]:
    ids = f" [{device.vendor_id:04x}:{device.device_id:04x}]"
    virtual = " virtual function" if device.virtual_function else ""
    name = labels.KIND_NAMES[device.kind][0]
    return (
        Span(name, Tone.DEVICE),
        Span(f" {labels.device(device)}{virtual}"),
        Span(ids, Tone.DIM),
    )
