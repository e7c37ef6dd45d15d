"""A machine as an SVG 1.1 picture: plain shapes and text, no scripts, nothing loaded.

The layout comes from ``core.picture``; here are only looks. The colours can be told apart with
the common kinds of colour blindness, and each thing is named in the legend besides.
"""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

from numalign.core.machine import Machine
from numalign.core.panels import Box, Label
from numalign.core.picture import picture

FONTS: Final = "'Open Sans','Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif"
INK: Final = "#1d2733"
# Role: fill, outline, corner radius. Roles without a fill are not drawn.
_LOOKS: Final = {
    "canvas": ("#ffffff", "none", 0),
    "socket": ("#eef1f5", "#8a97a8", 6),
    "die": ("#e3e8ef", "#a9b4c2", 5),
    "node": ("#ffffff", "#4a6da7", 5),
    "loose": ("#ffffff", "#b35900", 5),
    "cache": ("#fdf0d2", "#d9a441", 4),
    "core": ("#b9d3ee", "#7ba3cc", 3),
    "cpu": ("#f6fafe", "#a9c6e3", 2),
    "bar-room": ("#e4e8ec", "none", 2),
    "bar": ("#56b09a", "none", 2),
    "bar-special": ("#0b6b57", "none", 2),
    "memory": ("#cdeae2", "#3f9c85", 4),
    "memory-empty": ("#f5f7f9", "#b4bec9", 4),
    "device-gpu": ("#f7d3bd", "#d55e00", 4),
    "device-nic": ("#efd5e4", "#b8608f", 4),
    "device-nvme": ("#f6f1b5", "#b3a500", 4),
    "device-storage": ("#f6f1b5", "#b3a500", 4),
    "device-accelerator": ("#ded5f2", "#7d62b5", 4),
    "device-other": ("#e8ebef", "#9aa5b1", 4),
    "footer": ("#f8f9fb", "#d3d9e0", 6),
    "notes": ("#fff8e6", "#d9a441", 6),
}
_HEAT: Final = ((247, 251, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))


def render(machine: Machine) -> str:
    """The picture as SVG text."""
    drawn = picture(machine)
    w, h = _number(drawn.width), _number(drawn.height)
    shapes = "\n".join(filter(None, (_draw(shape) for shape in drawn.shapes)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="{w}" height="{h}" '
        f'viewBox="0 0 {w} {h}" font-family="{FONTS}" fill="{INK}">\n'
        f"<title>NUMA topology of {_clean(drawn.title)}</title>\n"
        f"<style>{_styles()}</style>\n{shapes}\n</svg>\n"
    )


def heat_colour(shade: float) -> str:
    """The colour of a distance, from near (0) to far (1)."""
    at = shade * (len(_HEAT) - 1)
    step = min(int(at), len(_HEAT) - 2)
    pairs = zip(_HEAT[step], _HEAT[step + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - step)):02x}" for a, b in pairs)


def _styles() -> str:
    rules = [f".{role}{{fill:{fill};stroke:{line}}}" for role, (fill, line, _) in _LOOKS.items()]
    return "".join([*rules, ".muted{fill:#5b6775}", ".light{fill:#ffffff}"])


def _draw(shape: Box | Label) -> str:
    return _box(shape) if isinstance(shape, Box) else _label(shape)


def _box(box: Box) -> str:
    place = " ".join(
        f'{name}="{_number(value)}"'
        for name, value in (("x", box.x), ("y", box.y), ("width", box.w), ("height", box.h))
    )
    if box.role == "heat":
        look = f'fill="{heat_colour(box.shade)}"'
    elif box.role in _LOOKS:
        radius = _LOOKS[box.role][2]
        look = f'class="{box.role}"' + (f' rx="{radius}"' if radius else "")
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
    if label.role in ("bar-special",) or (label.role == "heat" and label.shade > 0.6):
        looks.append('class="light"')
    elif label.muted:
        looks.append('class="muted"')
    return f'<text x="{x}" y="{y}" {" ".join(looks)}>{_clean(label.text)}</text>'


def _clean(text: str) -> str:
    """Text that is safe in XML: escaped, and without the characters that XML does not allow."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
