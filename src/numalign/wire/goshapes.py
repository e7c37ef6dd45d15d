"""The shapes that JSON is read into, with the rules and the refusals of Go's encoding/json.

A shape says what may stand at a place. Reading never stops at the first wrong value: like Go
it keeps the first message, leaves the value at its zero and goes on, so that the message is
the same as the kubelet's. Three rules that surprise:

- keys of a structure match without regard to case, unknown keys are passed over;
- null changes nothing, except that it empties a list, a map or a pointer (``None`` here);
- a key that comes twice is read into what the first one left: a map gains entries.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from numalign.core.errors import WireError
from numalign.core.sets import parse_list
from numalign.wire.gojson import Json, Members, Number, clean, parse

T = TypeVar("T")
K = TypeVar("K", str, int)

_WHOLE: Final = re.compile(r"-?[0-9]+", re.ASCII)
_DIGITS_MAX: Final = 20  # of any 64-bit number


@dataclass(slots=True)
class Reading:
    """Where in the structures we are, and the first thing that was wrong."""

    struct: str = ""
    path: tuple[str, ...] = ()
    fault: str | None = None

    def note(self, text: str) -> None:
        """Remember a fault, unless there was one before."""
        if self.fault is None:
            self.fault = text

    def note_type(self, found: str, go_type: str) -> None:
        """Remember that a value of another kind was found."""
        place = f"struct field {self.struct}.{'.'.join(self.path)}" if self.struct else "value"
        self.note(f"json: cannot unmarshal {found} into Go {place} of type {go_type}")


class Shape(Protocol[T]):
    """What may stand at one place of a JSON text."""

    @property
    def go_type(self) -> str:
        """The name of the type in Go's messages."""

    def zero(self) -> T:
        """The value of a place that the text does not mention."""

    def read(self, value: Json, current: T, at: Reading) -> T:
        """The value after reading, given what the place held before."""


def read(data: bytes, shape: Shape[T]) -> T:
    """The value of a JSON text in its shape; WireError with Go's words for a wrong one."""
    result, fault = attempt(data, shape)
    if fault is not None:
        raise WireError(fault)
    return result


def attempt(data: bytes, shape: Shape[T]) -> tuple[T, str | None]:
    """What can be read of a JSON text, and Go's words for the first thing that was wrong."""
    try:
        value = parse(data)
    except WireError as exc:
        return shape.zero(), str(exc)
    at = Reading()
    result = shape.read(value, shape.zero(), at)
    return result, at.fault


def kind_of(value: Json) -> str:
    """What Go calls a JSON value."""
    match value:
        case Members():
            return "object"
        case list():
            return "array"
        case Number():
            return "number"
        case str():
            return "string"
        case bool():
            return "bool"
        case None:
            return "null"


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    go_type: str = "string"

    def zero(self) -> str:
        """The empty text."""
        return ""

    def read(self, value: Json, current: str, at: Reading) -> str:
        """The text, or the former one for null and for anything else."""
        if isinstance(value, str) and not isinstance(value, Number):
            return clean(value)
        if value is not None:
            at.note_type(kind_of(value), self.go_type)
        return current


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within limits."""

    go_type: str
    low: int
    high: int

    def zero(self) -> int:
        """Nothing."""
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


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """A list; None where the text says null or nothing."""

    element: Shape[T]
    go_type: str = ""

    def zero(self) -> list[T] | None:
        """No list at all."""
        return None

    def read(self, value: Json, current: list[T] | None, at: Reading) -> list[T] | None:
        """The list of what is read for each element."""
        if value is None:
            return None
        if not isinstance(value, list):
            at.note_type(kind_of(value), self.go_type or f"[]{self.element.go_type}")
            return current
        return [self.element.read(item, self.element.zero(), at) for item in value]


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
            try:
                return _from_base64(value)
            except ValueError as exc:
                at.note(str(exc))
                return current
        if isinstance(value, list):
            return bytes(UINT8.read(item, 0, at) for item in value)
        if value is not None:
            at.note_type(kind_of(value), self.go_type)
            return current
        return None


def _from_base64(text: str) -> bytes:
    try:
        compact = text.replace("\r", "").replace("\n", "").encode("ascii")
        return base64.b64decode(compact, validate=True)
    except (binascii.Error, UnicodeEncodeError) as exc:
        raise ValueError(f"illegal base64 data at input byte {_base64_fault(text)}") from exc


_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n]*", re.ASCII)


def _base64_fault(text: str) -> int:
    match = _BASE64.match(text)
    end = match.end() if match else 0
    return len(text[:end].encode())


@dataclass(frozen=True, slots=True)
class Keyed(Generic[T]):
    """A map by text; None where the text says null or nothing."""

    element: Shape[T]
    go_type: str = ""

    def zero(self) -> dict[str, T] | None:
        """No map at all."""
        return None

    def read(self, value: Json, current: dict[str, T] | None, at: Reading) -> dict[str, T] | None:
        """The former map with the entries of the text."""
        if value is None:
            return None
        if not isinstance(value, Members):
            at.note_type(kind_of(value), self.go_type or f"map[string]{self.element.go_type}")
            return current
        result = dict(current or {})
        path = at.path
        for raw, item in value:
            key = clean(raw)
            at.path = (*path, key)
            result[key] = self.element.read(item, self.element.zero(), at)
        at.path = path
        return result


@dataclass(frozen=True, slots=True)
class Numbered(Generic[T]):
    """A map by whole number, whose keys the text has as strings."""

    element: Shape[T]
    key: Whole = INT
    go_type: str = ""

    def zero(self) -> dict[int, T] | None:
        """No map at all."""
        return None

    def read(self, value: Json, current: dict[int, T] | None, at: Reading) -> dict[int, T] | None:
        """The former map with the entries of the text."""
        if value is None:
            return None
        if not isinstance(value, Members):
            kind = f"map[{self.key.go_type}]{self.element.go_type}"
            at.note_type(kind_of(value), self.go_type or kind)
            return current
        result = dict(current or {})
        path = at.path
        for raw, item in value:
            at.path = (*path, clean(raw))
            read_item = self.element.read(item, self.element.zero(), at)
            number = self.key.number(raw.removeprefix("+"))
            if number is None:
                at.note_type(f"number {clean(raw)}", self.key.go_type)
            else:
                result[number] = read_item
        at.path = path
        return result


@dataclass(frozen=True, slots=True)
class Pointer(Generic[T]):
    """A value that may be absent."""

    element: Shape[T]

    @property
    def go_type(self) -> str:
        """The name of the type in Go's messages."""
        return f"*{self.element.go_type}"

    def zero(self) -> T | None:
        """Nothing to point at."""
        return None

    def read(self, value: Json, current: T | None, at: Reading) -> T | None:
        """The value pointed at."""
        if value is None:
            return None
        return self.element.read(value, self.element.zero() if current is None else current, at)


@dataclass(frozen=True, slots=True)
class CpuList:
    """A CPU set in its list form, held as a mask."""

    go_type: str = "cpuset.CPUSet"

    def zero(self) -> int:
        """No CPU."""
        return 0

    def read(self, value: Json, current: int, at: Reading) -> int:
        """The mask of the set that the text names."""
        if isinstance(value, str) and not isinstance(value, Number):
            try:
                return parse_list(clean(value))
            except ValueError as exc:
                at.note(str(exc))
        elif value is not None:
            at.note_type(kind_of(value), self.go_type)
        return current


# For each key of a structure the attribute that holds it, and its shape.
Fields: TypeAlias = Mapping[str, tuple[str, Shape[Any]]]


@dataclass(frozen=True, slots=True)
class Struct(Generic[T]):
    """A structure: its Go name, how to make an empty one, and for each key an attribute."""

    name: str
    go_type: str
    make: Callable[[], T]
    fields: Fields
    _folded: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        folded = {_folded(key): key for key in self.fields}
        object.__setattr__(self, "_folded", folded)

    def zero(self) -> T:
        """The empty structure."""
        return self.make()

    def read(self, value: Json, current: T, at: Reading) -> T:
        """The structure with the members of the text set."""
        if not isinstance(value, Members):
            if value is not None:
                at.note_type(kind_of(value), self.go_type)
            return current
        struct, path = at.struct, at.path
        for raw, item in value:
            key = raw if raw in self.fields else self._folded.get(_folded(raw))
            if key is None:
                continue
            attribute, shape = self.fields[key]
            at.struct, at.path = self.name, (*path, key)
            setattr(current, attribute, shape.read(item, getattr(current, attribute), at))
        at.struct, at.path = struct, path
        return current


def _folded(key: str) -> str:
    """A key without regard to case; two letters beyond ASCII fold to ASCII ones in Unicode."""
    return key.replace("\u017f", "s").replace("\u212a", "k").lower()
