"""Where results go: a terminal with colours, a pipe without them, or a file.

Colours are for terminals only and never if --no-color, NO_COLOR or a dumb terminal says so.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import typer

from numalign.adapters.local.files import reason_of, replace_file
from numalign.apps.render.text import Line, Tone, plain
from numalign.core.errors import ConfigError

WIDTH_OF_PIPES: Final = 100
UNLIMITED: Final = 1_000_000
_CODES: Final = {
    Tone.TITLE: "1",
    Tone.NODE: "1;36",
    Tone.CACHE: "33",
    Tone.CPU: "32",
    Tone.DEVICE: "35",
    Tone.DIM: "2",
    Tone.WARNING: "1;33",
}
_ASCII: Final = str.maketrans({"├": "|", "└": "`", "│": "|", "─": "-", "…": "~"})


def command_name() -> str:
    """How this program can be called again from here: by its name, if that leads to it."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if called.name == "__main__.py":
        return f"{sys.executable} -m numalign"
    return called.name if found and Path(found).samefile(called) else str(called)


@dataclass(slots=True)
class Settings:
    """What -v and --no-color have set so far, wherever on the command line they stand."""

    verbosity: int = 0
    no_color: bool = False


class Output:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @classmethod
    def of(cls, ctx: typer.Context) -> Output:
        """The output of the command that runs in this context."""
        settings = ctx.find_root().obj
        assert isinstance(settings, Settings), "the frame sets the settings before any command"
        return cls(settings)

    @property
    def colour(self) -> bool:
        """Whether to colour what goes to stdout."""
        if self.settings.no_color or os.environ.get("NO_COLOR"):
            return False
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """How many columns there are to fill."""
        return shutil.get_terminal_size((WIDTH_OF_PIPES, 24)).columns

    @property
    def table_width(self) -> int:
        """How wide a table may be: what reads a pipe takes a line for a row, so none is wrapped."""
        return self.width if sys.stdout.isatty() else UNLIMITED

    def lines(self, lines: Iterable[Line]) -> None:
        """Show lines, coloured where that is wanted."""
        self.text("".join(map(_painted, lines)) if self.colour else plain(lines))

    def text(self, text: str) -> None:
        """Show text; boxes are drawn with other characters where the terminal has none."""
        encoding = sys.stdout.encoding or "ascii"
        if not encoding.lower().startswith("utf"):
            text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
        sys.stdout.write(text)
        sys.stdout.flush()

    def data(self, wanted: str, value: object, *, again: bool = False) -> None:
        """Show plain values as json or yaml; ``again`` marks one that follows another."""
        if wanted == "json":
            import json  # noqa: PLC0415 - not for people

            self.text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        else:
            import yaml  # noqa: PLC0415 - not for people

            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=self.width)
            self.text(f"---\n{text}" if again else text)

    def binary(self, content: bytes, what: str) -> None:
        """Write bytes to a pipe; a terminal would not know what to do with them."""
        if sys.stdout.isatty():
            raise ConfigError(
                f"{what} is not for a terminal: give a file with --output-file, or send it to "
                "a pipe."
            )
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    def file(self, path: Path, content: bytes) -> None:
        """Write a file, and say so when asked to."""
        self._written(path, lambda: path.write_bytes(content))
        self.debug(f"wrote {len(content)} bytes to {path}")

    def private_file(self, path: Path, content: bytes) -> None:
        """Write a file that only its owner may read, whole or not at all."""
        self._written(path, lambda: replace_file(path, content))

    def changed_file(self, path: Path, content: bytes) -> None:
        """Replace a file whole or not at all; its mode, its owner and a link to it stay."""
        place = path.resolve()
        self._written(path, lambda: replace_file(place, content, place.stat()))

    def _written(self, path: Path, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as exc:
            raise ConfigError(f"{path}: cannot write the file: {reason_of(exc)}.") from exc

    def debug(self, text: str) -> None:
        """Say something on stderr with -v."""
        if self.settings.verbosity:
            print(f"debug: {text}", file=sys.stderr)


def output_option(*formats: str) -> Any:  # noqa: ANN401 - as typer.Option
    """The option -o with these formats; one that ends in = takes a text after it."""

    def names() -> list[str]:
        return list(formats)

    def check(value: str | None) -> str | None:
        known = [f for f in formats if value == f or (f[-1] == "=" and str(value).startswith(f))]
        if value is not None and (not known or value[-1:] == "="):
            raise typer.BadParameter(f"{value!r} is none of {shown}")
        return value

    shown = ", ".join(f"{name}TEXT" if name.endswith("=") else name for name in formats)

    return typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help=f"One of {shown}.",
        autocompletion=names,
        callback=check,
    )


def format_of(path: Path | None, formats: Sequence[str], default: str) -> str:
    """The format that the ending of a file name asks for."""
    ending = path.suffix.removeprefix(".").lower() if path else ""
    known = {"htm": "html", "yml": "yaml", "txt": default}.get(ending, ending)
    return known if known in formats else default


def _painted(spans: Line) -> str:
    parts = []
    for tone, same in groupby(spans, key=lambda span: span.tone):
        text = "".join(span.text for span in same)
        code = _CODES.get(tone)
        parts.append(f"\x1b[{code}m{text}\x1b[0m" if code and text else text)
    return "".join(parts) + "\n"
