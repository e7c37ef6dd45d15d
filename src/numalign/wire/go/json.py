"""JSON as Go's encoding/json writes and reads it.

State files are compared by checksum, so they must be written byte for byte as the kubelet
does; and a file that cannot be read must be refused with the words that operators search for.
What a text must look like is declared with the shapes of ``goshapes``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from numalign.core.errors import WireError
from numalign.wire.go.json_syntax import fault_in

# A state file of a full host has some 100 kB. A larger text is refused before it costs memory.
SIZE_BYTES_MAX: Final = 64 * 1024 * 1024

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_HTML: Final = re.compile("[<>&]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"
# Escapes in a JSON text: whole pairs of surrogates, halves of one (in the group), all others.
_HIGH: Final = "u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = "u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE: Final = re.compile(rf"\\(?:{_HIGH}\\{_LOW}|({_HIGH}|{_LOW})|.)", re.DOTALL)
_MAY_HALVE: Final = re.compile(rf"\\(?:{_HIGH}|{_LOW})")


class Number(str):
    """A number as it stands in the text: only its shape tells what is allowed."""

    __slots__ = ()


class Members(tuple[tuple[str, "Json"], ...]):
    """The members of an object in the order of the text, with duplicates."""

    __slots__ = ()


Json: TypeAlias = "Members | list[Json] | Number | str | bool | None"


def quote(text: str) -> str:
    """The text as a JSON string, with Go's escapes for HTML and for line separators."""
    out = _ENCODER.encode(text)
    if _HTML.search(out):
        out = out.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    if out.isascii():
        return out
    out = out.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return _LONE_SURROGATE.sub("\\\\ufffd", out)


def written_object(members: Iterable[tuple[str, str]]) -> str:
    """An object of already written values, in the order given."""
    return "{" + ",".join(f"{quote(key)}:{value}" for key, value in members) + "}"


def written_map(values: Mapping[str, str]) -> str:
    """An object of already written values, sorted by key as Go writes a map."""
    return written_object((key, values[key]) for key in sorted(values))


def written_list(values: Iterable[str]) -> str:
    return "[" + ",".join(values) + "]"


def parse(data: bytes) -> Json:
    """The value of a JSON text; WireError with Go's words where it is none.

    Numbers keep their text and objects their order. Bytes that are not UTF-8 become U+FFFD
    one by one, and so do escapes of half a surrogate pair such as \\ud800, as in Go: no text that
    comes out of here is one that cannot be written again.
    """
    if len(data) > SIZE_BYTES_MAX:
        raise WireError(f"the JSON text has {len(data)} bytes, at most {SIZE_BYTES_MAX} are read")
    try:
        value: Json = _DECODER.decode(_without_halves(_decoded(data)))
    except (ValueError, RecursionError) as exc:
        raise WireError(fault_in(data) or "exceeded max depth") from exc
    return value


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        # One stand-in for each bad byte, where Python's own "replace" joins some of them.
        return _LONE_SURROGATE.sub(_REPLACEMENT, data.decode(errors="surrogateescape"))


def _without_halves(text: str) -> str:
    if not _MAY_HALVE.search(text):
        return text
    return _ESCAPE.sub(lambda found: "\\ufffd" if found[1] else found[0], text)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON, though Python reads them


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_int=Number,
    parse_float=Number,
    parse_constant=_refuse_constant,
)
