"""Durations as Go writes and reads them: ``10s``, ``1h30m``, ``100ms``. Held in nanoseconds."""

from __future__ import annotations

import re
from typing import Final

from numalign.core.values.gotext import quoted

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
_MINUTE: Final = 60 * SECOND
_HOUR: Final = 60 * _MINUTE

_UNITS: Final = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,  # U+00B5, the micro sign
    "μs": MICROSECOND,  # U+03BC, the Greek letter, is read too
    "ms": MILLISECOND,
    "s": SECOND,
    "m": _MINUTE,
    "h": _HOUR,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)", re.ASCII)
_INT64_MAX: Final = 2**63 - 1
_TEXT_LENGTH_MAX: Final = 200


def parse(text: str) -> int:
    """The nanoseconds of a duration; ValueError with Go's words for a text that is none."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest or len(text) > _TEXT_LENGTH_MAX:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    total = 0
    while rest:
        part = _PART.match(rest)
        assert part is not None, "every part of the pattern may be empty"
        total += _part_ns(text, part)
        rest = rest[part.end() :]
    if total > _INT64_MAX:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    return -total if text[0] == "-" else total


def _part_ns(text: str, part: re.Match[str]) -> int:
    whole, fraction, unit = part[1], part[2] or "", part[3]
    if not whole and not fraction:
        raise ValueError(f"time: invalid duration {quoted(text)}")
    if not unit:
        raise ValueError(f"time: missing unit in duration {quoted(text)}")
    if unit not in _UNITS:
        raise ValueError(f"time: unknown unit {quoted(unit)} in duration {quoted(text)}")
    digits = whole + fraction
    scale: int = 10 ** len(fraction)
    return int(digits) * _UNITS[unit] // scale


def text_of(nanoseconds: int) -> str:
    """A duration as Go prints it: ``1m30s``, ``500µs``, ``0s``."""
    if not nanoseconds:
        return "0s"
    sign, number = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if number < MICROSECOND:
        return f"{sign}{number}ns"
    if number < MILLISECOND:
        return f"{sign}{_decimal(number, MICROSECOND)}µs"
    if number < SECOND:
        return f"{sign}{_decimal(number, MILLISECOND)}ms"
    minutes, rest = divmod(number, _MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).zfill(len(str(unit)) - 1).rstrip('0')}"
