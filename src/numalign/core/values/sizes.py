"""Numbers of bytes as people write them: 32 MiB, 1.25 MiB, 251.6 GiB.

Only for reading. What must be exact or must be understood by Kubernetes is in ``quantity``.
"""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def human(size_bytes: int) -> str:
    """The size in its largest fitting unit, with as few digits as tell it.

    Two decimals where they say it exactly (a cache of 35.75 MiB), one where nothing does.
    """
    assert size_bytes >= 0, "a size is never negative"
    unit, scale = 0, 1
    while unit + 1 < len(_UNITS) and size_bytes >= scale * 1024:
        unit, scale = unit + 1, scale * 1024
    hundredths, rest = divmod(size_bytes * 100, scale)
    if rest:
        return f"{_tenths(size_bytes, scale)} {_UNITS[unit]}"
    whole, part = divmod(hundredths, 100)
    digits = f"{part:02}".rstrip("0")
    return f"{whole}.{digits} {_UNITS[unit]}" if digits else f"{whole} {_UNITS[unit]}"


def _tenths(size_bytes: int, scale: int) -> str:
    tenths = (size_bytes * 10 + scale // 2) // scale
    return str(tenths // 10) if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: ``1 core``, ``2 cores``."""
    return f"{count} {one}" if count == 1 else f"{count} {many or one + 's'}"
