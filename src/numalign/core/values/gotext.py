"""How Go reads and names numbers and truth values.

The kubelet's refusals carry these texts, and users search for them, so we give the same ones.
"""

from __future__ import annotations

import re
from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT: Final = re.compile(r"[+-]?[0-9]+")
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)


def parse_bool(text: str) -> bool:
    """The truth value that Go's strconv.ParseBool reads."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")


def atoi(text: str) -> int:
    """The number that Go's strconv.Atoi reads."""
    if not _INT.fullmatch(text) or not text.isascii():
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    number = int(text) if len(text) < 25 else _INT64_MAX + 1
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return number


_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


def quoted(text: str) -> str:
    """The text in double quotes as Go's %q and strconv.Quote print it."""
    return '"' + "".join(_quoted_char(c) for c in text) + '"'


def _quoted_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def map_text(items: dict[str, str]) -> str:
    """A map as Go's %v prints it, keys sorted: ``map[a:1 b:2]``."""
    return "map[" + " ".join(f"{k}:{items[k]}" for k in sorted(items)) + "]"
