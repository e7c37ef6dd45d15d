"""What ``get`` found, printed: as a table, as names, as data or by a template."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numalign.cli.output import Output
from numalign.core.errors import ConfigError

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, and the text for a record."""

    head: str
    text: Callable[[Record], str]
    wide: bool = False  # only with -o wide
    flexible: bool = False  # may be wrapped
    right: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What there is now: one record per row, and the same as values."""

    columns: Sequence[Column]
    records: Sequence[Record]
    value: object  # for json and yaml
    root: object = None  # for templates
    names: Sequence[str] = ()  # for -o name; empty if these have none
    lost: tuple[str, ...] = ()  # what was asked for and is not there


@dataclass(slots=True)
class Shown:
    """Prints what is found, and after that only what is new."""

    out: Output
    output: str
    has_head: bool = True
    _seen: Any = field(default=None)

    def show(self, found: Found) -> tuple[str, ...]:
        """Prints, and gives what was asked for and is not there."""
        template, equals, argument = self.output.partition("=")
        if self.output in {"json", "yaml"}:
            self._show_data(found)
        elif self.output == "name":
            self._show_rows([], [[name] for name in _names(found)])
        elif equals and template == "jsonpath":
            self._show_template(argument, found)
        elif equals:
            self._show_custom(argument, found)
        else:
            columns = [c for c in found.columns if self.output == "wide" or not c.wide]
            rows = [[column.text(record) for column in columns] for record in found.records]
            self._show_rows(columns, rows)
        return found.lost

    def _show_data(self, found: Found) -> None:
        if found.lost and not found.records:
            return
        if found.value != self._seen:
            self.out.data(self.output, found.value, again=self._seen is not None)
        self._seen = found.value

    def _show_template(self, template: str, found: Found) -> None:
        from numalign.cli.client.formats.jsonpath import rendered

        text = rendered(template, found.root)
        if text != self._seen and not (found.lost and not found.records):
            self.out.text(text)
        self._seen = text

    def _show_custom(self, spec: str, found: Found) -> None:
        from numalign.cli.client.formats.jsonpath import cell, custom_columns

        columns = custom_columns(spec)
        root = found.root
        items = root.get("items", [root]) if isinstance(root, dict) else []
        heads = [Column(head, str) for head, _ in columns]
        self._show_rows(heads, [[cell(path, item) for _, path in columns] for item in items])

    def _show_rows(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        # A pod's age alone is no news.
        ages = [number for number, column in enumerate(columns) if column.head == "AGE"]
        keys = {tuple(t for n, t in enumerate(row) if n not in ages): row for row in rows}
        seen, self._seen = self._seen, keys.keys()
        fresh = rows if seen is None else [row for key, row in keys.items() if key not in seen]
        if seen is None and not fresh:
            self.out.debug("found none")
        self._print(columns, fresh, has_head=seen is None and self.has_head and bool(columns))

    def _print(
        self, shown: Sequence[Column], rows: Sequence[Sequence[str]], *, has_head: bool
    ) -> None:
        from numalign.apps.render.columns import columns
        from numalign.cli.main import one_line

        if not rows and not has_head:
            return
        safe = [[one_line(text) for text in row] for row in rows]
        flexible = [n for n, column in enumerate(shown) if column.flexible]
        lines = columns(
            [column.head if self.has_head else "" for column in shown] or [""],
            safe,
            width=self.out.table_width,
            flexible=flexible,
            right=[n for n, column in enumerate(shown) if column.right],
            prose=flexible,
        )
        self.out.lines(lines if has_head else lines[1:])


def _names(found: Found) -> Sequence[str]:
    if found.records and not found.names:
        raise ConfigError("-o name: these rows have no names; it is for pods.")
    return found.names
