"""Boxes within boxes: from what is in them to where they are.

A ``Panel`` has headings and grids of further panels. Its ``size`` is the room that it needs;
``place`` turns it into boxes, bars and labels with coordinates. Nothing here knows what the
boxes stand for; that is in ``picture``. Every label comes with the room that it was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from numalign.apps.render.drawing.textwidth import text_width

_LINE: Final = 1.35  # line height, in units of the font size
_RAGGED: Final = 2.2  # how much worse a last row makes it that is not full
_RIGHT_SIZE: Final = 11.0
_BETWEEN: Final = 14.0  # at least so much between the left and the right text of a heading


@dataclass(frozen=True, slots=True)
class Size:
    w: float
    h: float


@dataclass(frozen=True, slots=True)
class Heading:
    """A line of text at the top of a panel, perhaps with more text at its right end."""

    left: str
    right: str = ""
    size: float = 11
    bold: bool = False
    muted: bool = False
    centred: bool = False

    @property
    def right_size(self) -> float:
        """The font size of the text at the right end: it never outshines the name."""
        return min(self.size, _RIGHT_SIZE)

    @property
    def width(self) -> float:
        right = _BETWEEN + text_width(self.right, self.right_size) if self.right else 0
        return text_width(self.left, self.size, bold=self.bold) + right

    @property
    def height(self) -> float:
        return self.size * _LINE


@dataclass(frozen=True, slots=True)
class Bar:
    """A thin bar: how much of the panel's width it takes, and how much of it is special."""

    length: float  # of the width, 0 to 1
    special: float = 0.0  # of the length, 0 to 1
    height: float = 7


class Stretch(StrEnum):
    """Which columns of a grid take the width that is left over."""

    ALL = "all"
    LAST = "last"
    NONE = "none"


@dataclass(frozen=True)
class Grid:
    panels: tuple[Panel, ...]
    columns: int = 1
    gap: float = 5
    stretch: Stretch = Stretch.ALL
    grow: bool = False  # whether they share the height that is left over

    @cached_property
    def widths(self) -> list[float]:
        """The least width of each column."""
        columns = min(self.columns, len(self.panels))
        return [max(p.size.w for p in self.panels[i::columns]) for i in range(columns)]

    @cached_property
    def heights(self) -> list[float]:
        """The least height of each row."""
        columns = min(self.columns, len(self.panels))
        rows = (self.panels[i : i + columns] for i in range(0, len(self.panels), columns))
        return [max(p.size.h for p in row) for row in rows]

    @cached_property
    def size(self) -> Size:
        """The least room that the grid needs."""
        across, down = len(self.widths) - 1, len(self.heights) - 1
        return Size(sum(self.widths) + self.gap * across, sum(self.heights) + self.gap * down)


@dataclass(frozen=True)
class Panel:
    role: str  # what it looks like, for the one who draws it
    headings: tuple[Heading, ...] = ()
    bar: Bar | None = None
    grids: tuple[Grid, ...] = ()
    pad: float = 6
    gap: float = 5
    width_min: float = 0
    height_min: float = 0
    hint: str = ""  # shown when the pointer rests on it
    shade: float = 0.0  # 0 to 1, for roles that show a value

    @cached_property
    def size(self) -> Size:
        """The least room that the panel needs."""
        text = max((heading.width for heading in self.headings), default=0.0)
        width = max([text, *(grid.size.w for grid in self.grids)]) + 2 * self.pad
        parts = [sum(h.height for h in self.headings)] if self.headings else []
        parts += [self.bar.height] if self.bar else []
        parts += [grid.size.h for grid in self.grids]
        height = sum(parts) + self.gap * max(len(parts) - 1, 0) + 2 * self.pad
        return Size(max(width, self.width_min), max(height, self.height_min))


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    w: float
    h: float
    role: str
    hint: str = ""
    shade: float = 0.0


@dataclass(frozen=True, slots=True)
class Label:
    """A text and the rectangle that it must stay within. The baseline is near its bottom."""

    x: float
    y: float
    w: float
    h: float
    text: str
    size: float
    bold: bool = False
    muted: bool = False
    anchor: str = "start"  # start, middle or end of the rectangle
    role: str = ""  # of the panel it is in
    shade: float = 0.0


Drawable = Box | Label


def place(panel: Panel, x: float = 0, y: float = 0, room: Size | None = None) -> Iterator[Drawable]:
    """The panel and all within it, as shapes from back to front."""
    space = room or panel.size
    yield Box(x, y, space.w, space.h, panel.role, panel.hint, panel.shade)
    inner = space.w - 2 * panel.pad
    below = y + panel.pad
    if panel.headings:
        texts = sum(heading.height for heading in panel.headings)
        if panel.headings[0].centred and not panel.grids:  # a leaf has its text in the middle
            below = y + (space.h - texts) / 2
        yield from _labels(panel, x + panel.pad, below, inner)
        below += texts + panel.gap
    if panel.bar:
        yield from _bar(panel.bar, x + panel.pad, below, inner)
        below += panel.bar.height + panel.gap
    spare = space.h - panel.size.h
    for grid in panel.grids:
        height = grid.size.h + (spare if grid.grow else 0)
        yield from _place_grid(grid, x + panel.pad, below, Size(inner, height))
        below += height + panel.gap


def _labels(panel: Panel, x: float, y: float, w: float) -> Iterator[Label]:
    for heading in panel.headings:
        look = (heading.size, heading.bold, heading.muted)
        anchor = "middle" if heading.centred else "start"
        yield Label(x, y, w, heading.height, heading.left, *look, anchor, panel.role, panel.shade)
        if heading.right:
            own = text_width(heading.right, heading.right_size)
            right = (x + w - own, y, own, heading.height, heading.right, heading.right_size)
            yield Label(*right, muted=True, anchor="end", role=panel.role)
        y += heading.height


def _bar(bar: Bar, x: float, y: float, w: float) -> Iterator[Box]:
    length = max(w * bar.length, 2)
    yield Box(x, y, w, bar.height, "bar-room")
    yield Box(x, y, length, bar.height, "bar")
    if bar.special:
        yield Box(x, y, max(length * bar.special, 2), bar.height, "bar-special")


def _place_grid(grid: Grid, x: float, y: float, room: Size) -> Iterator[Drawable]:
    widths, heights = grid.widths, grid.heights
    spare = room.w - grid.gap * (len(widths) - 1) - sum(widths)
    if grid.stretch is Stretch.ALL:
        widths = _shared_out(widths, spare)
    elif grid.stretch is Stretch.LAST:
        widths = [*widths[:-1], widths[-1] + max(spare, 0)]
    heights = _shared_out(heights, room.h - grid.gap * (len(heights) - 1) - sum(heights))
    for i, panel in enumerate(grid.panels):
        row, column = divmod(i, len(widths))
        at = x + sum(widths[:column]) + grid.gap * column
        down = y + sum(heights[:row]) + grid.gap * row
        yield from place(panel, at, down, Size(widths[column], heights[row]))


def _shared_out(tracks: list[float], spare: float) -> list[float]:
    """The tracks, each longer by its share of the spare room."""
    return [track + max(spare, 0) / len(tracks) for track in tracks]


def balanced(panels: Sequence[Panel], ratio: float) -> int:
    """How many columns bring equal panels nearest to this ratio of width to height.

    Full rows are worth a bad ratio, up to a point: 28 become 4 rows of 7, but 29 do not
    become one row of 29.
    """
    sizes = [panel.size for panel in panels]
    w, h = max(s.w for s in sizes), max(s.h for s in sizes)

    def flaw(columns: int) -> float:
        rows = -(-len(panels) // columns)
        shape = columns * w / (rows * h) / ratio
        return max(shape, 1 / shape) * (1 if rows * columns == len(panels) else _RAGGED)

    return min(range(1, len(panels) + 1), key=flaw)
