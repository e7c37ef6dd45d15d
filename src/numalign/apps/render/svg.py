"""A machine as an SVG 1.1 picture: plain shapes and text, no scripts, nothing loaded.

The layout comes from ``core.picture``, the colours from ``looks``.
"""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from numalign.apps.render.drawing.boxes import Box, Label
from numalign.apps.render.drawing.picture import picture
from numalign.apps.render.theme import INK, LIGHT, RADII, RADIUS, heat_colour, heat_ink, rules
from numalign.core.machine.machine import Machine

FONTS: Final = "'Open Sans','Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif"


def render(machine: Machine) -> str:
    drawn = picture(machine)
    w, h = _number(drawn.width), _number(drawn.height)
    shapes = "\n".join(filter(None, (_draw(shape) for shape in drawn.shapes)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{w}" height="{h}" '
        f'viewBox="0 0 {w} {h}" font-family="{FONTS}" fill="{INK}">\n'
        f"<title>NUMA topology of {_clean(drawn.title)}</title>\n"
        f"<style>{rules(LIGHT)}</style>\n{shapes}\n</svg>\n"
    )


def _draw(shape: Box | Label) -> str:
    return _box(shape) if isinstance(shape, Box) else _label(shape)


def _box(box: Box) -> str:
    place = " ".join(
        f'{name}="{_number(value)}"'
        for name, value in (("x", box.x), ("y", box.y), ("width", box.w), ("height", box.h))
    )
    if box.role == "heat":
        look = f'fill="{heat_colour(box.shade)}"'
    elif box.role in LIGHT:
        look = f'class="{box.role}" rx="{RADII.get(box.role, RADIUS)}"'
    else:
        return ""
    if not box.hint:
        return f"<rect {place} {look}/>"
    return f"<rect {place} {look}><title>{_clean(box.hint)}</title></rect>"


def _label(label: Label) -> str:
    along = {"start": 0.0, "middle": 0.5, "end": 1.0}[label.anchor]
    x = _number(label.x + label.w * along)
    y = _number(label.y + label.h * 0.5 + label.size * 0.36)  # the baseline, for digits centred
    looks = [f'font-size="{_number(label.size)}"']
    looks += [] if label.anchor == "start" else [f'text-anchor="{label.anchor}"']
    looks += ['font-weight="bold"'] if label.bold else []
    if label.role == "heat":
        looks.append(f'fill="{heat_ink(label.shade)}"')
    elif label.role == "bar-special":
        looks.append('class="light"')
    elif label.muted:
        looks.append('class="muted"')
    return f'<text x="{x}" y="{y}" {" ".join(looks)}>{_clean(label.text)}</text>'


def _clean(text: str) -> str:
    """Text that is safe in XML: escaped, and without the characters that XML does not allow."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
