"""Rows of a CSV file with named columns; what is wrong is said with its line."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from numalign.core.errors import WireError


@dataclass(frozen=True, slots=True)
class CsvRow:
    source: str
    line: int
    values: dict[str, str]

    def text(self, column: str) -> str:
        return self.values[column]

    def number(self, column: str, *, default: int | None = None) -> int:
        """A whole number that is not negative; empty stands for the default, if there is one."""
        value = self.values[column].strip()
        if not value and default is not None:
            return default
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            raise WireError(
                f"{self.source}: line {self.line}: column {column}: found {value!r}, "
                "expected a whole number"
            )
        return int(value)

    def decimal(self, column: str) -> float:
        value = self.values[column].strip()
        try:
            found = float(value)
        except ValueError:
            found = -1.0
        if not 0 <= found < 1e15:
            raise WireError(
                f"{self.source}: line {self.line}: column {column}: found {value!r}, "
                "expected a number of at least 0"
            )
        return found


def rows(
    source: str, text: str, columns: Collection[str], optional: Collection[str] = ()
) -> Iterator[CsvRow]:
    """The rows with these columns, other columns left out; an optional one may be missing."""
    reader = lines(source, text)
    _, head = next(reader, (1, []))
    missing = [name for name in columns if name not in head]
    if missing:
        raise WireError(
            f"{source}: line 1: found the columns {', '.join(head) or '(none)'}, expected also "
            f"{', '.join(missing)}"
        )
    wanted = [
        (name, head.index(name)) for name in itertools.chain(columns, optional) if name in head
    ]
    absent = dict.fromkeys((name for name in optional if name not in head), "")
    for line, values in reader:
        if not values:
            continue
        if len(values) != len(head):
            raise WireError(
                f"{source}: line {line}: found {len(values)} values, "
                f"expected {len(head)} as in line 1"
            )
        yield CsvRow(source, line, {n: values[i] for n, i in wanted} | absent)


def lines(source: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """The values of each line with its number; WireError at the first that is no CSV."""
    reader = csv.reader(io.StringIO(text))
    try:
        for values in reader:
            yield reader.line_num, values
    except csv.Error as error:
        raise WireError(
            f"{source}: line {reader.line_num}: found what is no CSV ({error})"
        ) from error
