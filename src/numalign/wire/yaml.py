"""YAML and JSON texts of configuration files as plain values, with limits.

Less is read than YAML allows: no aliases (they can blow up a small file), no
tags, no key twice. Values are built from the parser's events with a stack of our own, so a
deeply nested text cannot exhaust the stack of the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import yaml

from numalign.core.errors import WireError
from numalign.wire.go import json as gojson

SIZE_BYTES_MAX: Final = 1024 * 1024
DEPTH_MAX: Final = 100

Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | float | bool | None"

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The plain scalars of YAML 1.1 that Kubernetes reads as something else than text.
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS: Final = {
    text: value
    for word, value in {
        "true": True,
        "yes": True,
        "on": True,
        "false": False,
        "no": False,
        "off": False,
    }.items()
    for text in (word, word.title(), word.upper())
}
_HALF: Final = re.compile("[\ud800-\udfff]")
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})", re.ASCII)
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9]{1,30}\.[0-9]{0,30}|\.[0-9]{1,30}|[0-9]{1,30}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?",
    re.ASCII,
)


def load(data: bytes) -> Value:
    """The value of a YAML or JSON text; WireError with a line where it cannot be read."""
    documents = load_all(data)
    if len(documents) > 1:
        raise WireError(f"found {len(documents)} documents, expected one")
    return documents[0] if documents else None


def load_all(data: bytes) -> list[Value]:
    """The values of all documents of a YAML text, or the one value of a JSON text."""
    if len(data) > SIZE_BYTES_MAX:
        raise WireError(f"found {len(data)} bytes, expected at most {SIZE_BYTES_MAX}")
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise WireError(f"found byte {exc.start + 1} that is no UTF-8, expected a text") from exc
    if text.lstrip()[:1] == "{":
        try:
            return [_from_json(gojson.parse(data), 0)]
        except WireError:
            pass  # YAML may begin with a brace too, and its messages name a line
    try:
        return _from_events(_events(text))
    except yaml.YAMLError as exc:
        reason = " ".join(str(exc).replace(' in "<unicode string>",', " at").split())
        raise WireError(f"found unreadable YAML: {reason}") from exc


def _from_json(value: gojson.Json, depth: int) -> Value:
    if depth > DEPTH_MAX:
        raise WireError(f"found more than {DEPTH_MAX} levels of nesting")
    match value:
        case gojson.Members():
            result: dict[str, Value] = {}
            for key, item in value:
                _refuse_twice(result, key, "")
                result[key] = _from_json(item, depth + 1)
            return result
        case list():
            return [_from_json(item, depth + 1) for item in value]
        case gojson.Number():
            return _scalar(str(value))  # a plain text, where it is no number that we read
        case _:
            return value


def _refuse_twice(members: dict[str, Value], key: str, where: str) -> None:
    if key in members:
        raise WireError(f'{where}found the key "{key}" twice, expected it once')


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


class _Frame:
    """A list or a map that is being filled."""

    def __init__(self, holder: dict[str, Value] | list[Value]) -> None:
        self.holder = holder
        self.key: str | None = None

    def add(self, value: Value, line: int) -> None:
        if isinstance(self.holder, list):
            self.holder.append(value)
        elif self.key is None:
            if isinstance(value, dict | list):
                raise WireError(f"line {line}: found a list or map as a key, expected a text")
            self.key = _key_text(value)
            _refuse_twice(self.holder, self.key, f"line {line}: ")
        else:
            self.holder[self.key] = value
            self.key = None


def _key_text(value: str | float | bool | None) -> str:  # noqa: FBT001 - any scalar can be a key
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _from_events(events: Iterator[yaml.Event]) -> list[Value]:
    documents: list[Value] = []
    stack = [_Frame(documents)]
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 0
        match event:
            case yaml.ScalarEvent():
                _refuse_tag(event.tag, line)
                _refuse_half(event.value, line)
                is_plain = event.implicit[0]
                stack[-1].add(_scalar(event.value) if is_plain else event.value, line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                _refuse_tag(event.tag, line)
                if len(stack) > DEPTH_MAX:
                    raise WireError(f"line {line}: found more than {DEPTH_MAX} levels of nesting")
                holder: dict[str, Value] | list[Value]
                holder = {} if isinstance(event, yaml.MappingStartEvent) else []
                stack[-1].add(holder, line)
                stack.append(_Frame(holder))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                stack.pop()
            case yaml.AliasEvent():
                raise WireError(
                    f"line {line}: found the alias *{event.anchor}, expected the value written out"
                )
            case _:
                pass
    return documents


def _refuse_half(text: str, line: int) -> None:
    """An escape such as \\ud800, which libyaml refuses itself: no text with it can be written."""
    if not text.isascii() and _HALF.search(text):
        raise WireError(f"line {line}: found half of a surrogate pair, expected a character")


def _refuse_tag(tag: str | None, line: int) -> None:
    if tag not in (None, "!", "tag:yaml.org,2002:str"):
        raise WireError(f"line {line}: found the tag {tag}, expected a plain value")


def _scalar(text: str) -> Value:
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
