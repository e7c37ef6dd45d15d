"""The part of kubectl's JSONPath templates that people type at a prompt.

    {.items[*].metadata.name}       members, lists, [0], [-1], [1:3], [*], ['a key'], a\\.key
    {range .items[*]}...{end}       once for each
    {"\\n"}                          a text; what stands outside braces is one too
    $ and @                         the whole value, and the current one

Filters, recursive descent and unions are not there; they are refused by name, never ignored. Kept
by hand: the libraries for JSONPath follow RFC 9535, which has neither templates nor ranges and
another grammar for keys, so that most of what follows would still be needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numalign.core.errors import ConfigError

_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
_KEY: Final = re.compile(r"(?:\\.|[^.\[\]\\])+")
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
_SLICE: Final = re.compile(r"(-?[0-9]{1,9})?:(-?[0-9]{1,9})?")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_UNSUPPORTED: Final = {
    "filters": re.compile(r"\[\s*\?"),
    "recursive descent": re.compile(r"\.\."),
    "unions": re.compile(r"\[[^\]'\"]*,"),
}

Step = str | int | slice | None  # a key, an index, a slice; None: everything in it


@dataclass(frozen=True, slots=True)
class Path:
    steps: tuple[Step, ...]
    is_absolute: bool = False

    def values(self, here: object, whole: object) -> list[Any]:
        """What the path leads to; nothing where a member is missing, as with kubectl."""
        found = [whole if self.is_absolute else here]
        for step in self.steps:
            found = [value for one in found for value in _followed(one, step)]
        return found


@dataclass(frozen=True, slots=True)
class Range:
    path: Path
    body: tuple[Part, ...]


Part = str | Path | Range


def _followed(value: object, step: Step) -> Iterator[object]:
    match step, value:
        case None, dict():
            yield from value.values()
        case None, list():
            yield from value
        case str(), dict() if step in value:
            yield value[step]
        case int(), list() if -len(value) <= step < len(value):
            yield value[step]
        case slice(), list():
            yield from value[step]
        case _:
            pass


def rendered(template: str, value: object) -> str:
    """The text that a template gives for a value; ConfigError if it cannot be understood."""
    return _text(_parsed(template), value, value)


def _text(parts: Sequence[Part], here: object, whole: object) -> str:
    found = []
    for part in parts:
        match part:
            case str():
                found.append(part)
            case Path():
                found.append(" ".join(map(value_text, part.values(here, whole))))
            case Range(path, body):
                found += [_text(body, one, whole) for one in path.values(here, whole)]
    return "".join(found)


def value_text(value: object) -> str:
    """A value as kubectl prints it: texts as they are, the rest as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parsed(template: str) -> tuple[Part, ...]:
    if "{" not in template:
        raise ConfigError(f"jsonpath: found {template!r}, expected one such as {{.items[0].kind}}.")
    open_ranges: list[tuple[Path, list[Part]]] = []
    parts: list[Part] = []
    for text, is_expression in _pieces(template):
        words = text.split(maxsplit=1)
        if not is_expression:
            parts.append(text)
        elif words and words[0] == "range" and len(words) == 2:
            open_ranges.append((parsed_path(words[1]), parts))
            parts = []
        elif words == ["end"]:
            if not open_ranges:
                raise ConfigError("jsonpath: found {end} without a {range ...} before it.")
            path, before = open_ranges.pop()
            parts = [*before, Range(path, tuple(parts))]
        elif quoted := _QUOTED.fullmatch(text):
            parts.append(_unescaped(quoted[1] or quoted[2] or ""))
        else:
            parts.append(parsed_path(text))
    if open_ranges:
        raise ConfigError("jsonpath: found {range ...} without an {end} after it.")
    return tuple(parts)


def _pieces(template: str) -> Iterator[tuple[str, bool]]:
    """Texts and, without their braces, expressions, in order."""
    at = 0
    while at < len(template):
        start = template.find("{", at)
        if start != at:
            yield template[at : start if start >= 0 else len(template)], False
        if start < 0:
            return
        end = start + 1
        while end < len(template) and template[end] != "}":
            quoted = _QUOTED.match(template, end)
            end = quoted.end() if quoted else end + 1
        if end >= len(template):
            raise ConfigError(f"jsonpath: found {template[start:]!r}, expected a closing }}.")
        yield template[start + 1 : end].strip(), True
        at = end + 1


def parsed_path(text: str) -> Path:
    """A path such as .items[*].metadata.name; the leading dot may be left out."""
    for what, pattern in _UNSUPPORTED.items():
        if pattern.search(_QUOTED.sub("''", text)):
            raise ConfigError(
                f"jsonpath: {text!r} needs {what}, which are not supported; use -o json and jq."
            )
    is_absolute = text.startswith("$")
    rest = text.removeprefix("$") if is_absolute else text.removeprefix("@")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        step, at = _step(rest, at, text)
        steps += step
    return Path(tuple(steps), is_absolute)


def _step(rest: str, at: int, text: str) -> tuple[list[Step], int]:
    if rest[at] == ".":
        if at + 1 == len(rest) or rest[at + 1] == "[":
            return [], at + 1  # {.} is the value itself, and .[0] means [0]
        key = _KEY.match(rest, at + 1)
        if key is not None:
            return [None if key[0] == "*" else _unescaped(key[0])], key.end()
    elif rest[at] == "[":
        quoted = _QUOTED.match(rest, at + 1)
        end = rest.find("]", quoted.end() if quoted else at)
        inner = rest[at + 1 : end].strip() if end > 0 else ""
        if end > 0 and (step := _bracket(inner)) is not _NO_STEP:
            return [step], end + 1
    raise ConfigError(
        f"jsonpath: {text!r}: found {rest[at:][:40]!r}, expected .KEY, [NUMBER], [FROM:TO], [*] or "
        "['KEY']."
    )


_NO_STEP: Final = object()


def _bracket(inner: str) -> Any:  # noqa: ANN401 a step, or that there is none
    if inner == "*":
        return None
    if _INDEX.fullmatch(inner):
        return int(inner)
    if sliced := _SLICE.fullmatch(inner):
        return slice(*(int(part) if part else None for part in sliced.groups()))
    if quoted := _QUOTED.fullmatch(inner):
        return _unescaped(quoted[1] or quoted[2] or "")
    return _NO_STEP


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


# Custom columns.


def custom_columns(spec: str) -> list[tuple[str, Path]]:
    """The columns of HEAD:PATH,HEAD:PATH; ConfigError if it cannot be understood."""
    found = []
    for column in re.split(r",(?![^\[]*\])", spec):
        head, colon, path = column.partition(":")
        if not colon or not head.strip() or not path.strip():
            raise ConfigError(
                f"custom-columns: found {column!r}, expected HEAD:PATH such as NAME:.metadata.name."
            )
        found.append((head.strip(), parsed_path(path.strip().removeprefix("{").removesuffix("}"))))
    return found


def cell(path: Path, value: object) -> str:
    """What a column shows for one object."""
    return ",".join(map(value_text, path.values(value, value))) or "<none>"
