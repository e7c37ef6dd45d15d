"""Lines over time, bars and a map of hosts as plain SVG, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

# Told apart with the common kinds of colour blindness; each line is also dashed in its own way.
COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b3a500", "#56b4e9", "#7d62b5", "#8a5a2b"),
)
_DASHES: Final = ("", "6 3", "2 2", "8 2 2 2", "4 4", "1 3", "10 4", "3 6")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 420, 190, 48, 22, 8


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: Sequence[tuple[float, float]]


def style_of(number: int) -> tuple[str, str]:
    return COLOURS[number % len(COLOURS)], _DASHES[number % len(_DASHES)]


def lines(title: str, series: Sequence[Series], *, per_cent: bool = False) -> str:
    """A chart of several lines over hours."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    if not xs:
        return ""
    right, most = max(xs) or 1.0, _nice(max(ys))
    scale = 100 if per_cent else 1
    parts = [
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">'
    ]
    for i in range(5):
        y = _y(most * i / 4, most)
        text = short(most * scale * i / 4) + (" %" if per_cent else "")
        parts.append(
            f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 6}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 5}" y="{y + 3:.1f}" text-anchor="end">{text}</text>'
        )
    parts += [
        f'<text x="{_LEFT}" y="{_HEIGHT - 5}">0</text>',
        f'<text x="{_WIDTH - 6}" y="{_HEIGHT - 5}" text-anchor="end">{right / 3600:.4g} h</text>',
    ]
    for number, one in enumerate(series):
        colour, dash = style_of(number)
        points = " ".join(f"{_x(x, right):.1f},{_y(y, most):.1f}" for x, y in one.points)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6" '
            f'stroke-dasharray="{dash}"><title>{escape(one.name)}</title></polyline>'
        )
    return "".join([*parts, "</svg></figure>"])


def _x(x: float, right: float) -> float:
    return _LEFT + (_WIDTH - 6 - _LEFT) * x / right


def _y(y: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * y / most


def short(value: float) -> str:
    """A number in at most six characters or so."""
    for least, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= least:
            return f"{value / least * (10 if unit == ' k' else 1):.4g}{unit}"
    return f"{value:.4g}"


def _nice(most: float) -> float:
    """The next round number."""
    if most <= 0:
        return 1.0
    unit = 10.0 ** len(str(int(most))) / 10 if most >= 1 else 0.01
    for step in (1, 2, 2.5, 4, 5, 8, 10, 20, 25, 40, 50, 80, 100):
        if unit * step >= most:
            return unit * step
    return most


def legend(names: Sequence[str]) -> str:
    items = []
    for number, name in enumerate(names):
        colour, dash = style_of(number)
        items.append(
            f'<span><svg viewBox="0 0 26 8" width="26" height="8"><line x1="0" y1="4" x2="26" '
            f'y2="4" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/></svg> '
            f"{escape(name)}</span>"
        )
    return f'<p class="legend">{" ".join(items)}</p>'


def heat_map(title: str, cells: Sequence[tuple[str, float]], columns: int = 60) -> str:
    """One small square for each host, darker for more; its name and value as a tooltip."""
    size = 7
    height = -(-len(cells) // columns) * size + 2
    parts = [
        f'<figure><figcaption>{escape(title)}</figcaption><svg class="map" '
        f'viewBox="0 0 {columns * size} {height}" role="img" aria-label="{escape(title)}">'
    ]
    for number, (name, value) in enumerate(cells):
        x, y = number % columns * size, number // columns * size
        shade = min(1.0, max(0.0, value))
        parts.append(
            f'<rect x="{x}" y="{y}" width="{size - 1}" height="{size - 1}" fill="#0072b2" '
            f'fill-opacity="{0.08 + 0.92 * shade:.2f}"><title>{escape(name)}: {value * 100:.0f} %'
            "</title></rect>"
        )
    return "".join([*parts, "</svg></figure>"])


def bars(title: str, values: Sequence[tuple[str, float]], unit: str = "") -> str:
    """Horizontal bars with their values."""
    most = max((value for _, value in values), default=0.0) or 1.0
    height = 20 * len(values) + 4
    parts = [
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">'
    ]
    for number, (name, value) in enumerate(values):
        y = 20 * number
        width = 130 * value / most
        text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        parts.append(
            f'<text x="0" y="{y + 14}">{escape(name[:38])}</text>'
            f'<rect x="216" y="{y + 3}" width="{width:.1f}" height="13" fill="#0072b2"/>'
            f'<text x="{220 + width:.1f}" y="{y + 14}">{text}{unit}</text>'
        )
    return "".join([*parts, "</svg></figure>"])
