"""What ``numalign top`` shows, built from the agent's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numalign.cli.client.agent_rows import PODS, pod_records
from numalign.core.values.sets import format_list, mask_of, parse_list
from numalign.core.values.sizes import counted, human

BAR_CELLS: Final = range(8, 25)  # from the narrowest to the widest
OTHER_COLUMNS: Final = 58  # of an ordinary row, beside the bar
_STYLES: Final = {"exclusive": "green", "shared": "yellow", "reserved": "bright_black"}
_MARKS: Final = {"exclusive": "#", "shared": "-", "reserved": "."}  # without colours, too


def view(
    node: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    decisions: Sequence[Mapping[str, Any]],
    now: float,
    width: int,
) -> RenderableType:
    """The whole screen."""
    nodes = _nodes(node, width)
    return Group(_head(node, len(pods)), nodes, Text(), _pods(pods, now), *_last(decisions))


def _head(node: Mapping[str, Any], pod_count: int) -> Text:
    machine, asked, offered = node["machine"], node["requested"], node["allocatable"]
    head = Text()
    head.append(f"{machine['name']}  ", style="bold")
    head.append(f"{counted(machine['cpuCount'], 'CPU')}, {human(machine['memoryBytes'])}, ")
    head.append(f"policy {node['settings']['topologyManagerPolicy']}, ")
    head.append(f"{counted(pod_count, 'pod')}, ")
    head.append(f"CPU {asked.get('cpu', '0')} of {offered.get('cpu', '0')} requested")
    return head


def _nodes(node: Mapping[str, Any], width: int) -> Table:
    """One row for each NUMA node, however narrow; those that hold nothing and have no CPUs in one.

    What is too long goes on in the next line: a column that may be cut can be cut to nothing.
    """
    cells = max(BAR_CELLS.start, min(BAR_CELLS.stop - 1, width - OTHER_COLUMNS))
    table = Table(box=None, pad_edge=False, header_style="bold")
    rows = _rows(node, cells)
    heads = ("NODE", "CPUS # own - shared . reserved", "FREE", "MEMORY USED", "STILL FITS")
    for index, head in enumerate(heads):
        fixed = max([len(row[index]) for row in rows], default=0) if index < 3 else 0
        least = max(fixed, len(head.split()[0]))
        table.add_column(head, min_width=least, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _rows(node: Mapping[str, Any], cells: int) -> list[tuple[Text, ...]]:
    found = []
    empty = [numa for numa in node["nodes"] if _is_empty(numa)]
    for numa, shape in zip(node["nodes"], node["largest"], strict=True):
        if numa not in empty or len(empty) == 1:
            found.append(_row(numa, shape, cells))
        elif numa is empty[0]:
            ids = format_list(mask_of(one["id"] for one in empty))
            total = sum(t["totalBytes"] for one in empty for t in one["memory"])
            texts = (ids, "no CPUs", "-", f"0 B/{human(total)}", "unused")
            found.append(tuple(map(Text, texts)))
    return found


def _is_empty(numa: Mapping[str, Any]) -> bool:
    """Whether a node is memory only and nobody has any of it."""
    return not numa["cpus"]["all"] and not any(t["usedBytes"] for t in numa["memory"])


def _row(numa: Mapping[str, Any], shape: Mapping[str, Any], cells: int) -> tuple[Text, ...]:
    free = parse_list(numa["cpus"]["free"]).bit_count()
    count = parse_list(numa["cpus"]["all"]).bit_count()
    fits = f"{counted(shape['cpus'], 'CPU')}, {human(shape['memory'].get('memory', 0))}"
    devices = [f"{number} {name}" for name, number in shape["devices"].items() if number]
    return (
        Text(str(numa["id"])),
        _cpu_bar(numa["cpus"], cells) if count else Text("no CPUs"),
        Text(f"{free}/{count}" if count else "-"),
        Text(_memory(numa["memory"])),
        Text(", ".join([fits, *devices])),
    )


def _cpu_bar(cpus: Mapping[str, str], cells: int) -> Text:
    """The CPUs in their order of use, one mark for each, or in proportion if there are many."""
    reserved = parse_list(cpus["reserved"])
    counts = {
        "exclusive": parse_list(cpus["exclusive"]).bit_count(),
        "shared": (parse_list(cpus["shared"]) & ~reserved).bit_count(),
        "reserved": reserved.bit_count(),
    }
    bar = Text("[")
    for use, marks in _shares(counts, cells).items():
        bar.append(_MARKS[use] * marks, style=_STYLES[use])
    bar.append("]")
    return bar


def _shares(counts: Mapping[str, int], cells: int) -> dict[str, int]:
    """How many marks each use gets: as many as there are cells, and one at least."""
    total = sum(counts.values())
    if total <= cells:
        return dict(counts)
    found = {use: max(1, count * cells // total) if count else 0 for use, count in counts.items()}
    largest = max(counts, key=lambda use: counts[use])
    found[largest] += cells - sum(found.values())
    return found


def _memory(tables: Sequence[Mapping[str, Any]]) -> str:
    """What is used of the memory, and of the huge pages where somebody has some."""
    parts = [
        f"{human(t['usedBytes'])}/{human(t['totalBytes'])}"
        + ("" if t["type"] == "memory" else f" {t['type']}")
        for t in sorted(tables, key=lambda t: t["type"] != "memory")
        if t["totalBytes"] and (t["type"] == "memory" or t["usedBytes"])
    ]
    return ", ".join(parts) or "-"


def _pods(pods: Sequence[Mapping[str, Any]], now: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [column for column in PODS if not column.wide]
    for column in shown:
        table.add_column(column.head, justify="right" if column.right else "left")
    for record in pod_records(pods, now):
        is_well = record["status"] in {"Running", "Completed"}
        style = "" if is_well else "yellow"
        table.add_row(*(Text(column.text(record), style=style) for column in shown))
    return table


def _last(decisions: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    texts = [
        f"refused: {d['pod']}: {d.get('reason', '')}: {d.get('message', '')}"
        for d in decisions
        if d["outcome"] == "pod_rejected"
    ]
    return [Text(text, style="red") for text in dict.fromkeys(texts)]
