"""Label selectors as kubectl takes them: a=b, a!=b, a, !a, a in (x,y), a notin (x)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.errors import ConfigError

_NAME: Final = r"[A-Za-z0-9][-A-Za-z0-9_./]{0,316}"
_EQUAL: Final = re.compile(rf"({_NAME})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)")
_SET: Final = re.compile(rf"({_NAME})\s+(in|notin)\s*\(([-A-Za-z0-9_.,\s]*)\)")
_THERE: Final = re.compile(rf"(!?)\s*({_NAME})")


@dataclass(frozen=True, slots=True)
class Condition:
    key: str
    values: frozenset[str] | None  # None: any
    wanted: bool  # whether one of the values must be there, or must not

    def holds(self, labels: Mapping[str, str]) -> bool:
        """A label that is not there is none of any values, as in Kubernetes."""
        is_one = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return is_one is self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    conditions: tuple[Condition, ...]

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(condition.holds(labels or {}) for condition in self.conditions)


def selector_of(text: str) -> Selector:
    """The conditions of a selector, all of which must hold; ConfigError for another text."""
    parts = re.split(r",(?![^(]*\))", text)
    return Selector(tuple(_condition(part.strip()) for part in parts))


def _condition(text: str) -> Condition:
    if found := _EQUAL.fullmatch(text):
        return Condition(found[1], frozenset({found[3]}), found[2] != "!=")
    if found := _SET.fullmatch(text):
        values = frozenset(value.strip() for value in found[3].split(","))
        return Condition(found[1], values, found[2] == "in")
    if found := _THERE.fullmatch(text):
        return Condition(found[2], None, not found[1])
    raise ConfigError(
        f"-l: found {text!r}, expected KEY=VALUE, KEY!=VALUE, KEY, !KEY, 'KEY in (A,B)' or "
        "'KEY notin (A)'."
    )
