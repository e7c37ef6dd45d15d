"""Kubernetes quantities: amounts such as ``500m``, ``1.5Gi`` or ``1e3``, held exactly.

Every amount is a whole number of nano units, because the kubelet rounds anything finer away
from zero. Beside the amount a quantity remembers two things that decisions and messages show:

- how it was written (binary, decimal or with an exponent), for its canonical text;
- whether the kubelet holds it as a 64-bit number with a decimal scale or as a big decimal.
  Only the first kind can be "represented as int64", and the two overflow differently.

Two quantities are equal when their amounts are, whatever their texts.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final, Self

# The kubelet's refusals, word for word.
_WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

# No sane amount needs more; beyond these limits one text could cost gigabytes.
TEXT_LENGTH_MAX: Final = 1_000
EXPONENT_MAX: Final = 1_000

# No two parts can match the same characters, so a bad text costs no more than its length.
_TEXT: Final = re.compile(
    r"([+-]?)([0-9]*)\.?((?<=\.)[0-9]*|)((?:[eEinumkKMGTP]+[-+]?|[-+])[0-9]*|)", re.ASCII
)
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)

_NANO_SCALE: Final = -9
_NANOS: Final = 10**9
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_DIGITS_EXACT: Final = 18  # decimal digits that always fit 64 bits
_SHIFTS_UNCHECKED: Final = frozenset({1, 2, 3, 6, 9})
_CACHE_SIZE: Final = 4_096  # pods repeat the same few texts


class _Format(Enum):
    BINARY = "binary"
    DECIMAL = "decimal"
    EXPONENT = "exponent"


_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SCALES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SUFFIXES: Final = ("", *_BINARY_EXPONENTS)
_DECIMAL_SUFFIXES: Final = {scale: suffix for suffix, scale in _DECIMAL_SCALES.items()}


class Quantity:
    """One amount. Immutable and hashable; make it with ``parse`` or ``of``."""

    __slots__ = ("_format", "_milli", "_nanos", "_scale", "_text", "_value")

    def __init__(self, nanos: int, format_: _Format, scale: int | None, text: str | None) -> None:
        self._nanos = nanos
        self._format = format_
        # The decimal scale of the 64-bit form; None for the big decimal form.
        self._scale = scale
        self._text = text
        self._value: int | None = None
        self._milli: int | None = None

    @staticmethod
    def parse(text: str) -> Quantity:
        """The quantity that a text names; ValueError with the kubelet's words for a bad one."""
        return _parsed(text)

    @classmethod
    def of(cls, number: int, *, binary: bool = False) -> Self:
        """The quantity of a whole number, to be written with binary or decimal suffixes."""
        scale = 0 if _INT64_MIN <= number <= _INT64_MAX else None
        return cls(number * _NANOS, _Format.BINARY if binary else _Format.DECIMAL, scale, None)

    @classmethod
    def of_milli(cls, number: int) -> Self:
        scale = -3 if _INT64_MIN <= number <= _INT64_MAX else None
        return cls(number * 10**6, _Format.DECIMAL, scale, None)

    def value(self) -> int:
        """The amount rounded up, as the kubelet's 64-bit number (see ``_scaled``)."""
        if self._value is None:
            self._value = self._scaled(0)
        return self._value

    def milli(self) -> int:
        """The thousandths rounded up, as the kubelet's 64-bit number (see ``_scaled``)."""
        if self._milli is None:
            self._milli = self._scaled(-3)
        return self._milli

    def micro(self) -> int:
        """The millionths rounded up, as the kubelet's 64-bit number (see ``_scaled``)."""
        return self._scaled(-6)

    def _scaled(self, unit_scale: int) -> int:
        """The number of units of 10**unit_scale, rounded away from zero.

        What does not fit 64 bits wraps round, or becomes 0 where the kubelet multiplies in
        small checked steps. No real machine gets there, but it is what the kubelet computes
        (for negative amounts in the big decimal form it computes nonsense; we do not).
        """
        number = _divided_away_from_zero(self._nanos, 10 ** (unit_scale - _NANO_SCALE))
        if _INT64_MIN <= number <= _INT64_MAX:
            return number
        is_checked = self._scale is not None and self._scale - unit_scale not in _SHIFTS_UNCHECKED
        return 0 if is_checked else _wrapped(number)

    def as_int64(self) -> int | None:
        """The whole number, or None where the kubelet cannot represent the quantity as int64.

        This depends on how it was written: ``1000m`` and ``2.0`` are whole but have a fraction
        in their text, and ``1Pi`` needs the big decimal form.
        """
        if self._scale is None or self._scale < 0:
            return None
        number = self._nanos // _NANOS
        return number if _INT64_MIN <= number <= _INT64_MAX else None

    @property
    def is_zero(self) -> bool:
        return not self._nanos

    @property
    def nanos(self) -> int:
        return self._nanos

    def __str__(self) -> str:
        if self._text is None:
            self._text = _canonical(self._nanos, self._format)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self._nanos)

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos

    def __le__(self, other: Quantity) -> bool:
        return self._nanos <= other._nanos

    def __gt__(self, other: Quantity) -> bool:
        return self._nanos > other._nanos

    def __ge__(self, other: Quantity) -> bool:
        return self._nanos >= other._nanos

    def __add__(self, other: Quantity) -> Quantity:
        return self._combined(other, self._nanos + other._nanos)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._combined(other, self._nanos - other._nanos)

    def _combined(self, other: Quantity, nanos: int) -> Quantity:
        """The result of a sum: written as the left side, unless that was nothing at all."""
        format_ = self._format if self._nanos else other._format
        return Quantity(nanos, format_, self._scale_with(other, nanos), None)

    def _scale_with(self, other: Quantity, nanos: int) -> int | None:
        if self._scale is None or other._scale is None:
            return None
        if not other._nanos:
            return self._scale
        scale = min(self._scale, other._scale) if self._nanos else other._scale
        unscaled = nanos // 10 ** (scale - _NANO_SCALE)
        return scale if _INT64_MIN <= unscaled <= _INT64_MAX else None


ZERO: Final = Quantity.of(0)


def hugepage_type(size_bytes: int) -> str:
    """The resource name of huge pages of this size, such as ``hugepages-2Mi``."""
    return f"hugepages-{Quantity.of(size_bytes, binary=True)}"


@lru_cache(_CACHE_SIZE)
def _parsed(text: str) -> Quantity:
    if len(text) > TEXT_LENGTH_MAX:
        raise ValueError(
            f"the quantity has {len(text)} characters, at most {TEXT_LENGTH_MAX} are read"
        )
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise ValueError(_WRONG_FORMAT)
    sign, whole, fraction, suffix = match.groups()
    # As in the kubelet a missing number is nothing: "Ki" and even "-" are zero.
    whole = whole.lstrip("0") or "0"
    if suffix in _BINARY_EXPONENTS:
        amount = _binary(text, whole, fraction, _BINARY_EXPONENTS[suffix])
    else:
        format_, exponent = _decimal_suffix(suffix)
        amount = _decimal(text, whole, fraction, exponent, format_)
    return amount if sign != "-" else _negated(amount)


def _decimal_suffix(suffix: str) -> tuple[_Format, int]:
    if suffix in _DECIMAL_SCALES:
        return _Format.DECIMAL, _DECIMAL_SCALES[suffix]
    match = _EXPONENT.fullmatch(suffix)
    exponent = int(match[1]) if match else EXPONENT_MAX + 1
    if abs(exponent) > EXPONENT_MAX:
        raise ValueError(_WRONG_SUFFIX)
    return _Format.EXPONENT, exponent


def _decimal(text: str, whole: str, fraction: str, exponent: int, format_: _Format) -> Quantity:
    digits = whole + fraction
    number = int(digits)
    scale = exponent - len(fraction)
    if len(digits) > _DIGITS_EXACT or scale < _NANO_SCALE:
        return Quantity(_nanos_of(number, scale), format_, None, None)
    # A text that is canonical apart from its point keeps its own form, as in the kubelet:
    # 1.001 stays, 1.5 becomes 1500m and 2000m becomes 2.
    is_kept = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return Quantity(_nanos_of(number, scale), format_, scale, text if is_kept else None)


def _binary(text: str, whole: str, fraction: str, exponent: int) -> Quantity:
    digits = int(whole + fraction)
    number = digits << exponent
    # The kubelet's estimate of what surely fits 64 bits: 10 binary digits are 3 decimal ones.
    if not fraction and 14 - len(whole) - exponent * 3 // 10 >= 0:
        is_kept = digits % 8 != 0  # then no larger suffix fits, see _decimal
        return Quantity(number * _NANOS, _Format.BINARY, 0, text if is_kept else None)
    nanos = min(_nanos_of(number, -len(fraction)), _INT64_MAX * _NANOS)
    format_ = _Format.DECIMAL if 0 < nanos < _NANOS else _Format.BINARY
    return Quantity(nanos, format_, None, None)


def _nanos_of(number: int, scale: int) -> int:
    shift = scale - _NANO_SCALE
    return number * 10**shift if shift >= 0 else _divided_away_from_zero(number, 10**-shift)


def _negated(amount: Quantity) -> Quantity:
    return Quantity(-amount._nanos, amount._format, amount._scale, amount._text)


def _divided_away_from_zero(number: int, unit: int) -> int:
    return -(-number // unit) if number >= 0 else number // unit


def _wrapped(number: int) -> int:
    return ((number - _INT64_MIN) & (2**64 - 1)) + _INT64_MIN


def _canonical(nanos: int, format_: _Format) -> str:
    if not nanos:
        return "0"
    if format_ is _Format.BINARY and abs(nanos) >= 1024 * _NANOS and nanos % _NANOS == 0:
        number, power = _stripped(nanos // _NANOS, 1024, len(_BINARY_SUFFIXES) - 1)
        return f"{number}{_BINARY_SUFFIXES[power]}"
    # The exponent must be a multiple of three; nanos start with one.
    power_max = (18 - _NANO_SCALE) // 3 if format_ is not _Format.EXPONENT else EXPONENT_MAX
    number, power = _stripped(nanos, 1000, power_max)
    exponent = power * 3 + _NANO_SCALE
    if format_ is _Format.EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIXES[exponent]}"


def _stripped(number: int, factor: int, power_max: int) -> tuple[int, int]:
    """The number without this factor, and how often it was taken out."""
    power = 0
    while power < power_max and number % factor == 0:
        number //= factor
        power += 1
    return number, power
