"""A machine as a PNG picture, made from the SVG without a browser.

The font comes with the product, so that text is there on a host without any font, and the
picture is the same everywhere.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from numalign.apps.render import svg
from numalign.core.errors import ConfigError
from numalign.core.machine.machine import Machine

SCALE: Final = 2  # pixels for each unit of the SVG, so that small text is sharp
_FONT_PACKAGE: Final = "ttf_opensans"


def render(machine: Machine) -> bytes:
    """The picture as PNG bytes."""
    return from_svg(svg.render(machine))


def from_svg(text: str, *, scale: int = SCALE) -> bytes:
    """An SVG text of ours as PNG bytes."""
    import resvg_py  # noqa: PLC0415  # takes time to load and is needed for pictures only

    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=text,
            zoom=scale,
            background="#ffffff",
            skip_system_fonts=True,
            font_files=[str(path) for path in _fonts()],
            font_family="Open Sans",
            sans_serif_family="Open Sans",
        )
    )


def _fonts() -> list[Path]:
    # Found but not imported: the package would load an imaging library if there is one.
    spec = find_spec(_FONT_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise ConfigError(
            f"PNG pictures need the font package {_FONT_PACKAGE}, which is not installed here: "
            "pip install 'numalign[png]', or write an SVG instead (-o svg)"
        )
    folder = Path(next(iter(folders))) / "ttf"
    return [folder / "OpenSans-Regular.ttf", folder / "OpenSans-Bold.ttf"]
