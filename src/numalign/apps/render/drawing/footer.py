"""What stands beside the machine in its picture: distances as a heat map, legend, notes."""

from __future__ import annotations

from math import log2
from typing import Final

from numalign.apps.render.drawing.boxes import Grid, Heading, Panel, Stretch
from numalign.apps.render.drawing.textwidth import shortened, text_width
from numalign.core.machine import distances, labels
from numalign.core.machine.distances import DistanceGroups
from numalign.core.machine.machine import SELF_DISTANCE, DeviceKind, Machine
from numalign.core.machine.nesting import last_level
from numalign.core.values.sets import CpuSet, NodeSet

_NUMBERS_MAX: Final = 16  # more columns than this, and the heat map has no numbers in it
_LEGEND_ROWS: Final = 6
_FACTS_MAX: Final = 16  # longer lists than this would be larger than the picture itself
_LIST_WIDTH: Final = 210.0
_SPACE: Final = Heading("", size=5)
_NOTE_WIDTH: Final = 260.0
_DEVICES: Final = (
    (DeviceKind.GPU, "GPU"),
    (DeviceKind.NIC, "network card"),
    (DeviceKind.NVME, "NVMe disk"),
    (DeviceKind.STORAGE, "disk"),
    (DeviceKind.ACCELERATOR, "accelerator"),
    (DeviceKind.OTHER, "other PCI device"),
)


def footer(machine: Machine, *, wide: bool) -> list[Panel]:
    """The panels to stand below (wide) or beside the machine."""
    heat = _heat_map(machine)
    rows = len(machine.nodes) + 1 if heat else 1
    panels = [*heat, _legend(machine, rows if wide and heat else _LEGEND_ROWS)]
    return [*panels, *_notes(machine), *_facts(machine)]


def _notes(machine: Machine) -> list[Panel]:
    texts = [f"Offline CPUs: {machine.offline}"] if machine.offline else []
    lines = [line for text in (*texts, *machine.notes) for line in _lines(text)]
    if not lines:
        return []
    if len(lines) > _FACTS_MAX:
        lines = [*lines[: _FACTS_MAX - 1], Heading("… and more")]
    return [Panel("notes", (Heading("Notes", bold=True), *lines), pad=9)]


def _facts(machine: Machine) -> list[Panel]:
    """What does not show in a picture: CPU lists to copy, and speeds that the firmware tells."""
    lists = [f"NUMA node {node.id}: {_cpu_list(node.cpus)}" for node in machine.nodes if node.cpus]
    empty = NodeSet.of(node.id for node in machine.nodes if not node.cpus)
    if empty:
        lists.append(f"{labels.nodes(empty)}: none")
    paths = [
        f"from node {path.initiator} to {path.target}: {labels.reading(path)}"
        for path in machine.memory_paths
        if labels.reading(path)
    ]
    return [
        Panel("footer", (Heading(name, bold=True), _SPACE, *map(Heading, texts)), pad=9)
        for name, texts in (("CPUs of each NUMA node", lists), ("Reading memory", paths))
        if 1 < len(texts) <= _FACTS_MAX
    ]


def _cpu_list(cpus: CpuSet) -> str:
    """The kernel's list; a long one without its middle, but never with a cut number."""
    text = str(cpus)
    if text_width(text, 11) <= _LIST_WIDTH:
        return text
    room = _LIST_WIDTH - text_width(",…, (99999 CPUs)99999", 11)
    start, parts = "", text.split(",")
    while text_width(f"{start},{parts[0]}", 11) <= room:
        start = f"{start},{parts.pop(0)}"
    return f"{start[1:]},…,{parts[-1]} ({len(cpus)} CPUs)"


def _heat_map(machine: Machine) -> list[Panel]:
    if len(machine.nodes) == 1:
        return []
    groups = distances.each_alone(machine)
    if groups is not None and len(groups.groups) > _NUMBERS_MAX:
        groups = distances.alike(machine)
    if groups is None:
        return []
    heading = Heading("Distance between NUMA nodes", bold=True)
    if len(groups.groups) > _NUMBERS_MAX:
        return [Panel("footer", (heading,), grids=_without_numbers(groups), pad=9)]
    return [Panel("footer", (heading,), grids=(_with_numbers(groups),), pad=9)]


def _with_numbers(groups: DistanceGroups) -> Grid:
    names = [str(group) for group in groups.groups]
    rank = shades(groups)
    cells = [_blank(""), *(_blank(name) for name in names)]
    for name, row in zip(names, groups.rows, strict=True):
        cells.append(_blank(name))
        for values in row:
            text = "/".join(map(str, values))
            lines = (Heading(text, size=10, centred=True),)
            cells.append(
                Panel("heat", lines, pad=3, width_min=30, height_min=21, shade=rank[values[-1]])
            )
    return Grid(tuple(cells), len(names) + 1, gap=2)


def _without_numbers(groups: DistanceGroups) -> tuple[Grid, ...]:
    """Small squares, and the values that their colours stand for."""
    rank = shades(groups)
    side = max(3.0, min(10.0, 420 / len(groups.groups)))
    cells = tuple(
        Panel(
            "heat",
            pad=0,
            width_min=side,
            height_min=side,
            shade=rank[values[-1]],
            hint=f"from {start} to {end}: {'/'.join(map(str, values))}",
        )
        for start, row in zip(groups.groups, groups.rows, strict=True)
        for end, values in zip(groups.groups, row, strict=True)
    )
    scale = tuple(
        Panel("heat", (Heading(str(value), size=10, centred=True),), pad=3, shade=shade)
        for value, shade in rank.items()
    )
    return (
        Grid(cells, len(groups.groups), gap=1, stretch=Stretch.NONE),
        Grid(scale, min(len(scale), 10), gap=2),
    )


def shades(groups: DistanceGroups) -> dict[int, float]:
    """A shade for each value by its rank, so that 10, 12 and 255 can all be told apart.

    The darkest is kept for far away: 10 and 20 do not become white and black.
    """
    values = sorted({value for row in groups.rows for cell in row for value in cell})
    most = min(1.0, 0.25 + log2(max(values[-1] / SELF_DISTANCE, 1)) / 4)
    return {value: most * i / max(len(values) - 1, 1) for i, value in enumerate(values)}


def _blank(text: str) -> Panel:
    headings = (Heading(text, size=10, bold=True, centred=True),) if text else ()
    return Panel("blank", headings, pad=3, width_min=22, height_min=21)


def _legend(machine: Machine, rows: int) -> Panel:
    level = last_level(machine)
    entries = [("socket", "socket"), ("node", "NUMA node")]
    entries += [("cache", f"L{level} cache")] if machine.caches_of_level(level) else []
    entries += [("core", "core"), ("cpu", "CPU"), ("bar", "memory")]
    if any(p.count for node in machine.nodes for p in node.hugepages):
        entries.append(("bar-special", "huge pages"))
    if any(not node.cpus for node in machine.nodes):
        entries.append(("memory", "node without CPUs"))
    kinds = {device.kind for device in machine.devices}
    entries += [(f"device-{kind}", name) for kind, name in _DEVICES if kind in kinds]
    chips = tuple(
        Panel(role, (Heading(name, size=10, centred=True),), pad=4, height_min=20)
        for role, name in entries
    )
    columns = max(2, -(-len(chips) // min(rows, _LEGEND_ROWS)))
    heading = Heading("Legend", bold=True)
    return Panel("footer", (heading,), grids=(Grid(chips, columns),), pad=9)


def _lines(text: str) -> list[Heading]:
    lines: list[str] = []
    for word in text.replace(",", ", ").split():
        longer = f"{lines[-1]} {word}" if lines else ""
        if lines and text_width(longer, 11) <= _NOTE_WIDTH:
            lines[-1] = longer
        else:
            lines.append(word)
    return [Heading(shortened(line, 11, _NOTE_WIDTH)) for line in lines]
