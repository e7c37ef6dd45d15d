"""Where a reader of JSON stands, what was wrong, and what a shape must be able to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from numalign.wire.go.json import Json, Members, Number

T = TypeVar("T")

_ENDS_IN_NUMBER: Final = re.compile(r".*\.[0-9]+", re.ASCII | re.DOTALL)


@dataclass(slots=True)
class Reading:
    """Where in the text we are, and the first thing that was wrong.

    Like Go we go on after a wrong value, so that the first message is the same as Go's.
    """

    struct: str = ""  # the name of the outermost structure
    path: tuple[str, ...] = ()
    fault: str | None = None

    def note(self, text: str) -> None:
        """Remember a fault, unless there was one before."""
        if self.fault is None:
            self.fault = text

    def note_type(self, found: str, go_type: str, reason: str = "") -> None:
        """Remember that a value of another kind was found."""
        text = f"json: cannot unmarshal {found} into {self._place()} of type {go_type}"
        self.note(f"{text}: {reason}" if reason else text)

    def _place(self) -> str:
        if not self.path:
            return "Go value"
        steps = (step.replace("~", "~0").replace("/", "~1") for step in self.path)
        place = f"{self.struct}.{'.'.join(steps)}"
        # Go takes a number at the end for the index of a list, even where it is a key.
        return place if _ENDS_IN_NUMBER.fullmatch(place) else f"Go struct field {place}"


class GoType(Protocol[T]):
    """What may stand at one place of a JSON text."""

    @property
    def go_type(self) -> str:
        """The name of the type in Go's messages."""

    def zero(self) -> T:
        """The value of a place that the text does not mention."""

    def read(self, value: Json, current: T, at: Reading) -> T:
        """The value after reading, given what the place held before."""


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
