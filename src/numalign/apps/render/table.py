"""A machine as a table of its NUMA nodes, followed by the distances between them."""

from __future__ import annotations

from typing import Final

from numalign.apps.render.columns import columns
from numalign.apps.render.text import Line, Span, Tone, line, wrap
from numalign.core.machine import distances, labels
from numalign.core.machine.distances import DistanceGroups
from numalign.core.machine.machine import Machine, NumaNode
from numalign.core.machine.nesting import last_level
from numalign.core.values.sets import NodeSet

NODE_HEAD: Final = ("NODE", "SOCKET", "CPUS", "CORES", "L3", "MEMORY", "HUGE PAGES", "DEVICES")
_NUMBERS: Final = (0, 1, 3, 4, 5)
_WRAPPED: Final = (2, 6, 7)


def render(machine: Machine, *, width: int = 100) -> list[Line]:
    """The table of nodes and the distance matrix as lines."""
    title = (Span(machine.name, Tone.TITLE), Span(f": {labels.shape(machine)}"))
    rows = node_rows(machine)
    lines = [*wrap(title, width, later="  "), line("")]
    head = node_head(machine)
    lines += columns(head, rows, width=width, flexible=_WRAPPED, right=_NUMBERS)
    lines += [line(""), *_distances(machine, width)]
    if machine.offline:
        lines += [line(""), line(f"offline CPUs: {machine.offline}", Tone.WARNING)]
    for note in machine.notes:
        spans = (Span("note: ", Tone.WARNING), Span(note))
        lines += wrap(spans, width, later="  ", prose=True)
    return lines


def node_head(machine: Machine) -> tuple[str, ...]:
    """The names of the columns; the cache is called by its level."""
    return tuple(f"L{last_level(machine)}" if name == "L3" else name for name in NODE_HEAD)


def node_rows(machine: Machine) -> list[tuple[str, ...]]:
    """One row for each NUMA node, and one more for what is at none."""
    rows = [_node_row(machine, node) for node in machine.nodes]
    loose = [cpu.id for cpu in machine.cpus if cpu.node is None]
    devices = labels.device_counts(machine.devices_on(None))
    if loose or devices:
        cpus = ",".join(map(str, loose)) or "-"
        rows.append(("none", "-", cpus, "-", "-", "-", "-", devices or "-"))
    return rows


def _node_row(machine: Machine, node: NumaNode) -> tuple[str, ...]:
    cpus = [machine.cpu_by_id[cpu] for cpu in node.cpus if cpu in machine.cpu_by_id]
    caches = machine.caches_of_level(last_level(machine))
    sockets = sorted({cpu.socket for cpu in cpus})
    return (
        str(node.id),
        ",".join(map(str, sockets)) or "-",
        str(node.cpus) or "-",
        str(len({cpu.core for cpu in cpus})),
        str(sum(1 for cache in caches if cache.cpus & node.cpus)),
        labels.memory(node).removeprefix("no memory") or "0",
        labels.huge_pages(node.hugepages) or "-",
        labels.device_counts(machine.devices_on(node.id)) or "-",
    )


def _distances(machine: Machine, width: int) -> list[Line]:
    whole = distances.each_alone(machine)
    if whole is None:
        return [line("distances: not known", Tone.DIM)]
    lines = _matrix(whole, width)
    if max(sum(len(span.text) for span in spans) for spans in lines) <= width:
        return lines
    short = distances.alike(machine)
    assert short is not None, "the whole matrix is known"
    return _matrix(short, width)


def _matrix(groups: DistanceGroups, width: int) -> list[Line]:
    names = [str(group) for group in groups.groups]
    head = ["DISTANCE", *names]
    rows = [
        [name, *("/".join(map(str, cell)) for cell in row)]
        for name, row in zip(names, groups.rows, strict=True)
    ]
    lines = columns(head, rows, width=width, right=range(len(head)))
    if any(len(NodeSet(group.mask)) > 1 for group in groups.groups):
        lines.append(line("a/b: from a node to itself, and to the others of its row", Tone.DIM))
    return lines
