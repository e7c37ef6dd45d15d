"""How wide a text may become in a picture, whatever font the viewer has.

The numbers are those of the widest common sans-serif font, rounded up, so that a text which
fits by this measure fits in narrower fonts too. In units of the font size.
"""

from __future__ import annotations

from typing import Final

_CLASSES: Final = (
    (0.34, " .,:;'|!ijl/I"),
    (0.43, '-()[]ftr"`'),
    (0.65, "0123456789abcdeghknopqsuvxyz_?*LFJTYEPZS"),
    (0.80, "ABCDGHKNOQRUVX+=<>~#$wx"),
    (1.00, "MWm%@&…"),
)
_WIDTHS: Final = {letter: width for width, letters in reversed(_CLASSES) for letter in letters}
_OTHER: Final = 1.0
_BOLD: Final = 1.12


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """An upper bound for the width of the text at this font size."""
    width = sum(_WIDTHS.get(letter, _OTHER) for letter in text) * size
    return width * _BOLD if bold else width


def shortened(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, cut with an ellipsis if it needs more than the room."""
    if text_width(text, size, bold=bold) <= room:
        return text
    for end in range(len(text) - 1, 0, -1):
        cut = text[:end].rstrip() + "…"
        if text_width(cut, size, bold=bold) <= room:
            return cut
    return ""
