"""The simple shapes: texts, whole numbers and bytes."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from numalign.wire.go.json import Json, Number
from numalign.wire.go.reading import Reading, kind_of


@dataclass(frozen=True, slots=True)
class Text:
    go_type: str = "string"

    def zero(self) -> str:
        """The empty text."""
        return ""

    def read(self, value: Json, current: str, at: Reading) -> str:
        """The text, or the former one for null and for anything else."""
        if isinstance(value, str) and not isinstance(value, Number):
            return value
        if value is not None:
            at.note_type(kind_of(value), self.go_type)
        return current


_WHOLE: Final = re.compile(r"-?[0-9]+", re.ASCII)
_DIGITS_MAX: Final = 20  # of any 64-bit number


@dataclass(frozen=True, slots=True)
class Whole:
    go_type: str
    low: int
    high: int

    def zero(self) -> int:
        return 0

    def read(self, value: Json, current: int, at: Reading) -> int:
        """The number, or the former one for null and for anything else."""
        if isinstance(value, Number):
            if (number := self.number(value)) is not None:
                return number
            at.note_type(f"number {value}", self.go_type)
        elif value is not None:
            at.note_type(kind_of(value), self.go_type)
        return current

    def number(self, text: str) -> int | None:
        """The number that a text gives, if it is whole and within the limits."""
        if not _WHOLE.fullmatch(text) or (text[0] == "-" and self.low >= 0):
            return None
        if len(text.lstrip("-0")) > _DIGITS_MAX:
            return None
        number = int(text)
        return number if self.low <= number <= self.high else None


INT: Final = Whole("int", -(2**63), 2**63 - 1)
INT64: Final = Whole("int64", -(2**63), 2**63 - 1)
UINT64: Final = Whole("uint64", 0, 2**64 - 1)
UINT8: Final = Whole("uint8", 0, 255)
CHECKSUM: Final = Whole("checksum.Checksum", 0, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes, written in base64; None where the text says null or nothing."""

    go_type: str = "[]uint8"

    def zero(self) -> bytes | None:
        """No bytes at all."""
        return None

    def read(self, value: Json, current: bytes | None, at: Reading) -> bytes | None:
        """The bytes behind the base64 text; Go takes a list of numbers too."""
        if isinstance(value, str) and not isinstance(value, Number):
            return self._decoded(value, current, at)
        if isinstance(value, list):
            return self._listed(value, at)
        if value is not None:
            at.note_type(kind_of(value), self.go_type)
            return current
        return None

    def _decoded(self, text: str, current: bytes | None, at: Reading) -> bytes | None:
        compact = text.replace("\r", "").replace("\n", "")
        try:
            return base64.b64decode(compact, validate=True)
        except (binascii.Error, ValueError):
            reason = f"illegal base64 data at input byte {_base64_fault(text)}"
            at.note_type("string", self.go_type, reason)
            return current

    def _listed(self, items: list[Json], at: Reading) -> bytes:
        path, numbers = at.path, []
        for index, item in enumerate(items):
            at.path = (*path, str(index))
            numbers.append(UINT8.read(item, 0, at))
        at.path = path
        return bytes(numbers)


_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n]*", re.ASCII)


def _base64_fault(text: str) -> int:
    """Where Go stops: at a character that is none of base64, or before an incomplete group."""
    match = _BASE64.match(text)
    end = match.end() if match else 0
    return end if end < len(text) else len(text) // 4 * 4
