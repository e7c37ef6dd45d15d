"""What ``numalign top`` shows, built from the agent's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from numalign.cli.client.agent_rows import PODS, pod_records
from numalign.core.values.sets import parse_list
from numalign.core.values.sizes import counted, human

BAR_CELLS: Final = 24
_STYLES: Final = {"exclusive": "green", "shared": "yellow", "reserved": "bright_black"}
_MARKS: Final = {"exclusive": "#", "shared": "-", "reserved": "."}  # without colours, too


def view(
    node: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    decisions: Sequence[Mapping[str, Any]],
    now: float,
) -> RenderableType:
    """The whole screen."""
    return Group(_head(node, len(pods)), _nodes(node), Text(), _pods(pods, now), *_last(decisions))


def _head(node: Mapping[str, Any], pod_count: int) -> Text:
    machine, asked, offered = node["machine"], node["requested"], node["allocatable"]
    head = Text()
    head.append(f"{machine['name']}  ", style="bold")
    head.append(f"{counted(machine['cpuCount'], 'CPU')}, {human(machine['memoryBytes'])}, ")
    head.append(f"policy {node['settings']['topologyManagerPolicy']}, ")
    head.append(f"{counted(pod_count, 'pod')}, ")
    head.append(f"CPU {asked.get('cpu', '0')} of {offered.get('cpu', '0')} requested")
    return head


def _nodes(node: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "CPUS # own - shared . reserved", "FREE", "MEMORY USED", "STILL FITS"):
        table.add_column(name, no_wrap=name != "STILL FITS")
    for numa, shape in zip(node["nodes"], node["largest"], strict=True):
        free = parse_list(numa["cpus"]["free"]).bit_count()
        count = parse_list(numa["cpus"]["all"]).bit_count()
        fits = f"{counted(shape['cpus'], 'CPU')}, {human(shape['memory'].get('memory', 0))}"
        devices = [f"{number} {name}" for name, number in shape["devices"].items() if number]
        table.add_row(
            str(numa["id"]),
            _cpu_bar(numa["cpus"]),
            f"{free}/{count}",
            _memory(numa["memory"]),
            ", ".join([fits, *devices]),
        )
    return table


def _cpu_bar(cpus: Mapping[str, str]) -> Text:
    """The CPUs in their order of use, one mark for each, or in proportion if there are many."""
    reserved = parse_list(cpus["reserved"])
    counts = {
        "exclusive": parse_list(cpus["exclusive"]).bit_count(),
        "shared": (parse_list(cpus["shared"]) & ~reserved).bit_count(),
        "reserved": reserved.bit_count(),
    }
    total = sum(counts.values())
    bar = Text("[")
    for use, count in counts.items():
        cells = count if total <= BAR_CELLS else -(-count * BAR_CELLS // total)
        bar.append(_MARKS[use] * cells, style=_STYLES[use])
    bar.append("]")
    return bar


def _memory(tables: Sequence[Mapping[str, Any]]) -> str:
    parts = [
        f"{human(t['usedBytes'])}/{human(t['totalBytes'])}"
        + ("" if t["type"] == "memory" else f" {t['type']}")
        for t in tables
        if t["totalBytes"]
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
