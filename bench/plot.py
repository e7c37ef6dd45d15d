"""A small line chart as SVG, for the docs: it must be readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from numalign.apps.simulator.report.charts import Series, style_of

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 300, 52, 150, 34, 40
_TEXT = 'font-family="Open Sans, Arial, sans-serif" font-size="12" fill="#5b6775"'


def line_chart(title: str, x_title: str, y_title: str, series: Sequence[Series]) -> str:
    """Lines with their names beside them; both axes begin at 0."""
    right = max(x for one in series for x, _ in one.points)
    most = max(y for one in series for _, y in one.points) * 1.15
    bottom, width = _HEIGHT - _BOTTOM, _WIDTH - _LEFT - _RIGHT

    def at(x: float, y: float) -> str:
        return f"{_LEFT + width * x / right:.1f},{bottom - (bottom - _TOP) * y / most:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="18" {_TEXT} font-weight="600">{escape(title)}</text>',
        f'<text x="{_LEFT + width / 2}" y="{_HEIGHT - 8}" text-anchor="middle" {_TEXT}>'
        f"{escape(x_title)}</text>",
        f'<text x="14" y="{(_TOP + bottom) / 2}" text-anchor="middle" {_TEXT} '
        f'transform="rotate(-90 14 {(_TOP + bottom) / 2})">{escape(y_title)}</text>',
    ]
    for i in range(5):
        value = most * i / 4
        x, y = at(0, value).split(",")
        parts.append(
            f'<line x1="{x}" x2="{_LEFT + width}" y1="{y}" y2="{y}" stroke="#d3d9e0"/>'
            f'<text x="{_LEFT - 6}" y="{float(y) + 4:.1f}" text-anchor="end" {_TEXT}>'
            f"{value:.2g}</text>"
        )
    for x in sorted({x for one in series for x, _ in one.points}):
        place = at(x, 0).partition(",")[0]
        parts.append(
            f'<text x="{place}" y="{bottom + 16}" text-anchor="middle" {_TEXT}>{x:g}</text>'
        )
    for number, one in enumerate(series):
        colour, dash = style_of(number)
        points = " ".join(at(x, y) for x, y in one.points)
        drawn = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{points}" fill="none" {drawn}/>')
        y = _TOP + 12 + 20 * number
        begin = _LEFT + width + 12
        parts.append(
            f'<line x1="{begin}" x2="{begin + 24}" y1="{y - 4}" y2="{y - 4}" {drawn}/>'
            f'<text x="{begin + 30}" y="{y}" {_TEXT}>{escape(one.name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
