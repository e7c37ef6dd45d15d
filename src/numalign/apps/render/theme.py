"""How the parts of a picture look, on light and on dark pages.

The colours can be told apart with the common kinds of colour blindness: hues differ in
lightness too, and each is named in the legend besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Looks = Mapping[str, tuple[str, str]]  # of each role: fill and outline

INK: Final = "#1d2733"
INK_DARK: Final = "#e6ebf1"
RADII: Final = {
    "canvas": 0,
    "socket": 6,
    "die": 5,
    "node": 5,
    "loose": 5,
    "cache": 4,
    "core": 3,
    "cpu": 2,
    "bar-room": 2,
    "bar": 2,
    "bar-special": 2,
    "footer": 6,
    "notes": 6,
}
RADIUS: Final = 4  # of all others
LIGHT: Final[Looks] = {
    "canvas": ("#ffffff", "none"),
    "socket": ("#eef1f5", "#8a97a8"),
    "die": ("#e3e8ef", "#a9b4c2"),
    "node": ("#ffffff", "#4a6da7"),
    "loose": ("#ffffff", "#b35900"),
    "cache": ("#fdf0d2", "#d9a441"),
    "core": ("#b9d3ee", "#7ba3cc"),
    "cpu": ("#f6fafe", "#a9c6e3"),
    "bar-room": ("#e4e8ec", "none"),
    "bar": ("#56b09a", "none"),
    "bar-special": ("#0b6b57", "none"),
    "memory": ("#cdeae2", "#3f9c85"),
    "memory-empty": ("#f5f7f9", "#b4bec9"),
    "device-gpu": ("#f7d3bd", "#d55e00"),
    "device-nic": ("#efd5e4", "#b8608f"),
    "device-nvme": ("#f6f1b5", "#b3a500"),
    "device-storage": ("#f6f1b5", "#b3a500"),
    "device-accelerator": ("#ded5f2", "#7d62b5"),
    "device-other": ("#e8ebef", "#9aa5b1"),
    "footer": ("#f8f9fb", "#d3d9e0"),
    "notes": ("#fff8e6", "#d9a441"),
    "muted": ("#5b6775", "none"),
    "light": ("#ffffff", "none"),
}
DARK: Final[Looks] = {
    "canvas": ("#151b23", "none"),
    "socket": ("#1f2833", "#5f7186"),
    "die": ("#26313e", "#4a5b6e"),
    "node": ("#18202a", "#6f95d1"),
    "loose": ("#18202a", "#e08a3c"),
    "cache": ("#3a3018", "#b98a35"),
    "core": ("#28435f", "#5686b8"),
    "cpu": ("#16222f", "#3f6080"),
    "bar-room": ("#2b3642", "none"),
    "bar": ("#2f8a74", "none"),
    "bar-special": ("#bff0e2", "none"),
    "memory": ("#1d4a40", "#57b59c"),
    "memory-empty": ("#1c252f", "#4a5866"),
    "device-gpu": ("#5a2f16", "#e07b39"),
    "device-nic": ("#4d2a3e", "#d18bb1"),
    "device-nvme": ("#4a4614", "#c9bb2e"),
    "device-storage": ("#4a4614", "#c9bb2e"),
    "device-accelerator": ("#3a2f57", "#a48bd8"),
    "device-other": ("#2c3540", "#6d7a88"),
    "footer": ("#1a222c", "#384656"),
    "notes": ("#33290f", "#b98a35"),
    "muted": ("#9fb0c2", "none"),
    "light": ("#10201c", "none"),
}
_HEAT: Final = ((247, 251, 255), (198, 219, 239), (107, 174, 214), (33, 113, 181), (8, 48, 107))
_HEAT_INK_TURNS: Final = 0.6


def rules(looks: Looks, within: str = "") -> str:
    """The looks as CSS rules, for elements within another one if told."""
    return "".join(
        f"{within}.{role}{{fill:{fill};stroke:{outline}}}"
        for role, (fill, outline) in looks.items()
    )


def heat_colour(shade: float) -> str:
    """The colour of a distance, from near (0) to far (1)."""
    at = shade * (len(_HEAT) - 1)
    step = min(int(at), len(_HEAT) - 2)
    pairs = zip(_HEAT[step], _HEAT[step + 1], strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - step)):02x}" for a, b in pairs)


def heat_ink(shade: float) -> str:
    return "#ffffff" if shade > _HEAT_INK_TURNS else INK
