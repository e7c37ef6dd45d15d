"""The shapes that JSON is read into, with the rules and the refusals of Go's encoding/json.

A shape says what may stand at a place. Three rules of Go that surprise:

- keys of a structure match without regard to case, unknown keys are passed over;
- null changes nothing, except that it empties a list, a map or a pointer (``None`` here);
- a key that comes twice is read into what the first one left: a map gains entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from numalign.core.errors import WireError
from numalign.wire.go.json import Json, Members, parse
from numalign.wire.go.reading import GoType, Reading, kind_of
from numalign.wire.go.scalars import INT, Whole

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")


def read(data: bytes, shape: GoType[T]) -> T:
    """The value of a JSON text in its shape; WireError with Go's words for a wrong one."""
    result, fault = attempt(data, shape)
    if fault is not None:
        raise WireError(fault)
    return result


def attempt(data: bytes, shape: GoType[T]) -> tuple[T, str | None]:
    """What can be read of a JSON text, and Go's words for the first thing that was wrong."""
    try:
        value = parse(data)
    except WireError as exc:
        return shape.zero(), str(exc)
    at = Reading()
    result = shape.read(value, shape.zero(), at)
    return result, at.fault


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """A list; None where the text says null or nothing."""

    element: GoType[T]
    name: str = ""

    @property
    def go_type(self) -> str:
        return self.name or f"[]{self.element.go_type}"

    def zero(self) -> list[T] | None:
        return None

    def read(self, value: Json, current: list[T] | None, at: Reading) -> list[T] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            at.note_type(kind_of(value), self.go_type)
            return current
        result, path = [], at.path
        for index, item in enumerate(value):
            at.path = (*path, str(index))
            result.append(self.element.read(item, self.element.zero(), at))
        at.path = path
        return result


@dataclass(frozen=True, slots=True)
class Keyed(Generic[T]):
    """A map by text; None where the text says null or nothing."""

    element: GoType[T]
    name: str = ""

    @property
    def go_type(self) -> str:
        return self.name or f"map[string]{self.element.go_type}"

    def zero(self) -> dict[str, T] | None:
        return None

    def read(self, value: Json, current: dict[str, T] | None, at: Reading) -> dict[str, T] | None:
        """The former map with the entries of the text."""
        return _entries(self, value, current, at, lambda key: key)


@dataclass(frozen=True, slots=True)
class Numbered(Generic[T]):
    """A map by whole number, whose keys the text has as strings."""

    element: GoType[T]
    key: Whole = INT
    name: str = ""

    @property
    def go_type(self) -> str:
        return self.name or f"map[{self.key.go_type}]{self.element.go_type}"

    def zero(self) -> dict[int, T] | None:
        return None

    def read(self, value: Json, current: dict[int, T] | None, at: Reading) -> dict[int, T] | None:
        """The former map with the entries of the text; one with a bad key is left out."""

        def number(key: str) -> int | None:
            found = self.key.number(key.removeprefix("+") if key[1:2].isdigit() else key)
            if found is None:
                at.note_type(f"number {key}", self.key.go_type)
            return found

        return _entries(self, value, current, at, number)


def _entries(
    shape: Keyed[T] | Numbered[T],
    value: Json,
    current: dict[K, T] | None,
    at: Reading,
    key_of: Callable[[str], K | None],
) -> dict[K, T] | None:
    """The former map with the entries of the text, but for those whose key is none."""
    if value is None:
        return None
    if not isinstance(value, Members):
        at.note_type(kind_of(value), shape.go_type)
        return current
    result, path = dict(current or {}), at.path
    for text, item in value:
        at.path = (*path, text)
        key = key_of(text)
        if key is not None:
            result[key] = shape.element.read(item, shape.element.zero(), at)
    at.path = path
    return result


@dataclass(frozen=True, slots=True)
class Pointer(Generic[T]):
    """A value that may be absent."""

    element: GoType[T]

    @property
    def go_type(self) -> str:
        return f"*{self.element.go_type}"

    def zero(self) -> T | None:
        return None

    def read(self, value: Json, current: T | None, at: Reading) -> T | None:
        if value is None:
            return None
        return self.element.read(value, self.element.zero() if current is None else current, at)


# For each key of a structure the attribute that holds it, and its shape.
Fields: TypeAlias = Mapping[str, tuple[str, GoType[Any]]]


@dataclass(frozen=True, slots=True)
class Struct(Generic[T]):
    """A structure: its Go type, how to make an empty one, and what its keys stand for."""

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
        path = at.path
        if not path:
            at.struct = self.go_type.rpartition(".")[2]
        for raw, item in value:
            key = raw if raw in self.fields else self._folded.get(_folded(raw))
            if key is None:
                continue
            attribute, shape = self.fields[key]
            at.path = (*path, raw)
            setattr(current, attribute, shape.read(item, getattr(current, attribute), at))
        at.path = path
        return current


@dataclass(frozen=True, slots=True)
class Converted(Generic[S, T]):
    """A value that Go reads with code of its own: into another shape, and then converted.

    The inner reading knows nothing of its surroundings, which shows in its messages.
    """

    go_type: str
    inner: GoType[S]
    convert: Callable[[S], T]

    def zero(self) -> T:
        """What an empty inner value is converted to."""
        return self.convert(self.inner.zero())

    def read(self, value: Json, current: T, at: Reading) -> T:
        """The converted value; ValueErrors of the conversion become messages as they are."""
        own = Reading()
        read_value = self.inner.read(value, self.inner.zero(), own)
        if own.fault is not None:
            at.note(own.fault)
            return current
        try:
            return self.convert(read_value)
        except ValueError as exc:
            at.note(str(exc))
            return current


def _folded(key: str) -> str:
    """A key without regard to case; two letters beyond ASCII fold to ASCII ones in Unicode."""
    return key.replace("\u017f", "s").replace("\u212a", "k").lower()
