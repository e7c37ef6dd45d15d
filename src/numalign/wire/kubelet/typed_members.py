"""The members of a configuration object by type, with every wrong one noted.

A note says what was found, what was expected and what to do, and reading goes on with the
default, so that all faults of a file can be told at once.
"""

from __future__ import annotations

from numalign.core.values import goduration
from numalign.core.values.gotext import quoted
from numalign.core.values.quantity import Quantity
from numalign.wire.yaml import Value

_QUOTES = "put it in quotes"


def shown(value: Value) -> str:
    match value:
        case dict():
            return "a map"
        case list():
            return "a list"
        case bool():
            return "the truth value true" if value else "the truth value false"
        case int() | float():
            return f"the number {value}"
        case None:
            return "nothing"
        case str():
            return f"the text {quoted(value)}"


class TypedMembers:
    """One object of a configuration file; null members count as absent."""

    def __init__(self, values: dict[str, Value], path: str = "") -> None:
        self.values = {key: value for key, value in values.items() if value is not None}
        self.path = path
        self.faults: list[str] = []

    def note(self, key: str, found: str, expected: str, advice: str = "") -> None:
        text = f"{self.path}{key}: found {found}, expected {expected}"
        self.faults.append(f"{text}; {advice}" if advice else text)

    def text(self, key: str, default: str) -> str:
        """A text; an empty one means the default, as in the kubelet."""
        value = self.values.get(key, "")
        if isinstance(value, str):
            return value or default
        self.note(key, shown(value), "a text", _advice(value))
        return default

    def truth(self, key: str, *, default: bool) -> bool:
        value = self.values.get(key, default)
        if isinstance(value, bool):
            return value
        self.note(key, shown(value), "true or false", "write it without quotes")
        return default

    def whole(self, key: str, default: int) -> int:
        """A whole number of 32 bits."""
        value = self.values.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31:
            return value
        self.note(key, shown(value), "a whole number of 32 bits")
        return default

    def decimal(self, key: str) -> float | None:
        """A number, or None where there is none."""
        value = self.values.get(key)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        self.note(key, shown(value), "a number")
        return None

    def duration(self, key: str, default: int) -> int:
        """A duration in nanoseconds."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.note(key, shown(value), "a duration with its unit", 'for instance "10s"')
            return default
        try:
            return goduration.parse(value)
        except ValueError as exc:
            self.faults.append(f"{self.path}{key}: {exc}")
            return default

    def texts(self, key: str) -> dict[str, str] | None:
        """A map of texts, or None where there is none."""
        value = self._map(key)
        if value is None:
            return None
        inner = TypedMembers(value, f"{self.path}{key}.")
        result = {name: inner.text(name, "") for name in value}
        self.faults += inner.faults
        return {name: text for name, text in result.items() if isinstance(value[name], str | None)}

    def truths(self, key: str) -> dict[str, bool]:
        value = self._map(key) or {}
        inner = TypedMembers(value, f"{self.path}{key}.")
        result = {name: inner.truth(name, default=False) for name in value}
        self.faults += inner.faults
        return result

    def quantities(self, key: str) -> dict[str, Quantity]:
        """A map of quantities, which may be written as numbers too."""
        result = {}
        for name, value in (self._map(key) or {}).items():
            try:
                result[name] = Quantity.parse(_quantity_text(value))
            except ValueError as exc:
                self.faults.append(f"{self.path}{key}.{name}: found {shown(value)}: {exc}")
        return result

    def items(self, key: str) -> list[Value]:
        value = self.values.get(key, [])
        if isinstance(value, list):
            return value
        self.note(key, shown(value), "a list")
        return []

    def _map(self, key: str) -> dict[str, Value] | None:
        value = self.values.get(key)
        if value is None or isinstance(value, dict):
            return value
        self.note(key, shown(value), "a map")
        return None


def _advice(value: Value) -> str:
    return _QUOTES if isinstance(value, bool | int | float) else ""


def _quantity_text(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value)) if value == int(value) else str(value)
    return ""
