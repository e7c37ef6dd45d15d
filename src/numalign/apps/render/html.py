"""A machine as one self-contained web page: the picture, the table of nodes, the distances.

No scripts, nothing loaded from elsewhere; light or dark as the reader's system is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from numalign.apps.render import svg, table
from numalign.apps.render.drawing.footer import shades
from numalign.apps.render.theme import DARK, INK_DARK, heat_colour, heat_ink, rules
from numalign.core.machine import distances, labels
from numalign.core.machine.distances import DistanceGroups
from numalign.core.machine.machine import Machine

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --line: #d3d9e0;
  --page: #ffffff; --head: #f1f4f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf1; --soft: #9fb0c2; --line: #384656; --page: #151b23; --head: #1f2833; }
  %s }
body { margin: 2rem auto; max-width: 90rem; padding: 0 1.5rem; color: var(--ink);
  background: var(--page); font: 15px/1.5 "Open Sans", "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0; } h2 { margin: 2rem 0 .5rem; font-size: 1.15rem; }
p { margin: .2rem 0; } .soft { color: var(--soft); }
.picture { border: 1px solid var(--line); border-radius: 8px; overflow: auto; margin-top: 1rem; }
.picture svg { display: block; max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
  vertical-align: top; }
th { background: var(--head); font-weight: 600; }
.distances td { text-align: center; }
"""


def _style() -> str:
    dark = f".picture svg{{fill:{INK_DARK}}}" + rules(DARK, ".picture ")
    return _STYLE.replace("%s", dark)


def render(machine: Machine) -> str:
    parts = [
        f"<h1>{escape(machine.name)}</h1>",
        f'<p class="soft">{escape(labels.shape(machine))}</p>',
        f'<div class="picture">{svg.render(machine)}</div>',
        "<h2>NUMA nodes</h2>",
        _table(table.node_head(machine), table.node_rows(machine)),
        *_distances(machine),
        *_notes(machine),
    ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(machine.name)} - NUMA topology</title>\n"
        f"<style>{_style()}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = "".join(f"<th>{escape(name.capitalize())}</th>" for name in head)
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{_breakable(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>\n<tr>{names}</tr>\n{lines}\n</table></div>'


def _breakable(text: str) -> str:
    """Text that may be broken after its commas, so that a long list of CPUs fits its cell."""
    return escape(text).replace(",", ",<wbr>")


def _distances(machine: Machine) -> list[str]:
    groups = distances.alike(machine)
    return [] if groups is None else ["<h2>Distances</h2>", _matrix(groups)]


def _matrix(groups: DistanceGroups) -> str:
    shade = shades(groups)
    names = [str(group) for group in groups.groups]
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = []
    for name, row in zip(names, groups.rows, strict=True):
        cells = "".join(
            f'<td style="background:{heat_colour(shade[values[-1]])};'
            f'color:{heat_ink(shade[values[-1]])}">{"/".join(map(str, values))}</td>'
            for values in row
        )
        lines.append(f"<tr><th>{name}</th>{cells}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table class="distances">\n<tr><th></th>{head}</tr>\n{body}\n'
        "</table></div>"
    )


def _notes(machine: Machine) -> list[str]:
    texts = [f"Offline CPUs: {machine.offline}"] if machine.offline else []
    texts += machine.notes
    if not texts:
        return []
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return ["<h2>Notes</h2>", f"<ul>{items}</ul>"]
