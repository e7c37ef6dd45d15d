"""Rows of text in columns, wrapped within their cells to a given width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from numalign.apps.render.text import Line, Span, Tone, plain, printable, wrap

_GAP: Final = "  "
_FLEXIBLE_MIN: Final = 16  # columns that a wrapped cell keeps, however narrow the terminal


def columns(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    flexible: Sequence[int] = (),
    right: Sequence[int] = (),
    prose: Sequence[int] = (),
) -> list[Line]:
    """A head and rows in aligned columns, without characters that a terminal would act on.

    Only flexible columns are wrapped; if that is not enough, lines grow over the width.
    ``right`` names the columns of numbers, ``prose`` those that may be broken at any word.
    """
    rows = [[printable(text) for text in row] for row in rows]
    sizes = _sizes(head, rows, width, flexible)
    for column in flexible:  # what cannot be broken keeps its column wide
        pieces = (_cell(row[column], sizes[column], prose=column in prose) for row in rows)
        sizes[column] = max([sizes[column], *(len(piece) for cell in pieces for piece in cell)])
    lines: list[Line] = [
        (Span(text.rstrip(), Tone.TITLE),) for text in _row(head, sizes, right, prose)
    ]
    for row in rows:
        lines += [(Span(text.rstrip()),) for text in _row(row, sizes, right, prose)]
    return lines


def _sizes(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, flexible: Sequence[int]
) -> list[int]:
    """The width of each column; the widest flexible ones give way until the row fits."""
    sizes = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    spare = width - sum(sizes) - len(_GAP) * (len(sizes) - 1)
    while spare < 0:
        widest = max(flexible, key=lambda i: sizes[i], default=None)
        if widest is None or sizes[widest] <= _FLEXIBLE_MIN:
            break
        sizes[widest] -= 1
        spare += 1
    return sizes


def _row(
    cells: Sequence[str], sizes: Sequence[int], right: Sequence[int], prose: Sequence[int]
) -> list[str]:
    wrapped = [
        _cell(text, size, prose=column in prose)
        for column, (text, size) in enumerate(zip(cells, sizes, strict=True))
    ]
    height = max(map(len, wrapped))
    lines = []
    for i in range(height):
        parts = []
        for column, (texts, size) in enumerate(zip(wrapped, sizes, strict=True)):
            text = texts[i] if i < len(texts) else ""
            parts.append(text.rjust(size) if column in right else text.ljust(size))
        lines.append(_GAP.join(parts))
    return lines


def _cell(text: str, size: int, *, prose: bool) -> list[str]:
    if len(text) <= size:
        return [text]
    return plain(wrap((Span(text),), size, prose=prose)).splitlines()
