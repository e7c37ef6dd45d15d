"""Lines of text whose parts know what they are, so that colour is decided where they are shown.

A renderer gives lines of spans. A terminal paints each span by its tone; a file or a pipe
takes the plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_CLAUSES: Final = re.compile(r"[^,;|]*[,;|] ?|[^,;|]+")  # a list may be broken after a comma
_WORDS: Final = re.compile(r"[^ ]* |[^ ]+")  # a sentence may be broken after each word
_ROOM_MIN: Final = 16  # columns for text, however deep the indentation


class Tone(StrEnum):
    """What a span of text is about."""

    PLAIN = "plain"
    TITLE = "title"
    NODE = "node"
    CACHE = "cache"
    CPU = "cpu"
    DEVICE = "device"
    DIM = "dim"
    WARNING = "warning"


def printable(text: str) -> str:
    """Without characters that a terminal would act on: names may come from another host."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]


def line(text: str, tone: Tone = Tone.PLAIN) -> Line:
    return (Span(text, tone),)


def plain(lines: Iterable[Line]) -> str:
    """The lines as text without colour; each ends with a newline."""
    return "".join("".join(span.text for span in spans).rstrip() + "\n" for spans in lines)


def wrap(
    spans: Sequence[Span], width: int, first: str = "", later: str = "", *, prose: bool = False
) -> list[Line]:
    """The spans as lines of at most this width, behind their prefixes.

    Lists are broken after commas, so that ``32 GiB`` stays in one piece; prose after words.
    A piece longer than a whole line keeps its length: a cut number would be a wrong number.
    """
    pieces = _WORDS if prose else _CLAUSES
    lines: list[list[Span]] = [[Span(first, Tone.DIM)]]
    used, room = 0, max(width - len(first), _ROOM_MIN)
    for span in spans:
        for piece in pieces.findall(span.text):
            if used and used + len(piece.rstrip()) > room:
                lines.append([Span(later, Tone.DIM)])
                used, room = 0, max(width - len(later), _ROOM_MIN)
            lines[-1].append(Span(piece, span.tone))
            used += len(piece)
    return [tuple(spans) for spans in lines]
