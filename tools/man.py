"""Manual pages from the commands themselves: ``python -m tools.man DIRECTORY``.

One page for ``numalign`` and one for each command, as ``make install`` puts them into man1.
The same sources give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numalign import __version__
from numalign.cli.app import load, root_command
from numalign.cli.commands import GROUPS, Entry
from numalign.cli.main import PROGRAM

_CODES = {
    "0": "Yes, or done.",
    "1": "No, or it failed.",
    "2": "Wrong usage or bad input.",
    "130": "Interrupted with Ctrl-C.",
    "141": "The reader of the output has gone.",
}


def pages() -> Iterator[tuple[str, str]]:
    """Name of the file and text of every page."""
    root = root_command()
    with root.make_context(PROGRAM, [], resilient_parsing=True) as ctx:
        yield f"{PROGRAM}.1", _root_page()
        for _, entries in GROUPS:
            for entry in entries:
                command = load(entry)
                with command.make_context(
                    entry.name, [], parent=ctx, resilient_parsing=True
                ) as own:
                    yield f"{PROGRAM}-{entry.name}.1", _command_page(entry, command, own)


def _root_page() -> str:
    lines = [
        *_head(PROGRAM, "place work on NUMA machines as the Kubernetes node managers do"),
        ".SH SYNOPSIS",
        rf".B {PROGRAM}",
        r"\fICOMMAND\fR [\fIOPTIONS\fR]",
        ".SH DESCRIPTION",
        f"Each command has a page of its own, {PROGRAM}-COMMAND(1).",
    ]
    for title, entries in GROUPS:
        lines.append(f'.SS "{_escaped(title)}"')
        for entry in entries:
            lines += [".TP", rf"\fB{_escaped(entry.name)}\fR", _escaped(entry.summary)]
    return "\n".join([*lines, *_exit_codes()]) + "\n"


def _command_page(entry: Entry, command: Any, ctx: Any) -> str:
    lines = _head(f"{PROGRAM}-{entry.name}", entry.summary)
    lines += [".SH SYNOPSIS", rf"\fB{PROGRAM} {_escaped(entry.name)}\fR"]
    lines.append(_escaped(" ".join(command.collect_usage_pieces(ctx))))
    lines += [".SH DESCRIPTION", *_paragraphs(command.help)]
    below = getattr(command, "commands", {})
    if below:
        lines.append(".SH COMMANDS")
    for name, inner in below.items():
        with inner.make_context(name, [], parent=ctx, resilient_parsing=True) as own:
            lines += [f'.SS "{_escaped(name)}"', *_paragraphs(inner.help), *_options(inner, own)]
    options = _options(command, ctx)
    if options:
        lines += [".SH OPTIONS", *options]
    examples = [line for line in (command.epilog or "").splitlines()[2:] if line.strip()]
    if examples:
        lines += [".SH EXAMPLES", ".nf", *(_escaped(line.strip()) for line in examples), ".fi"]
    lines += [*_exit_codes(), ".SH SEE ALSO", rf".BR {PROGRAM} (1)"]
    return "\n".join(lines) + "\n"


def _head(name: str, summary: str) -> list[str]:
    title = name.upper().replace("-", r"\-")
    return [
        f'.TH "{title}" "1" "" "{PROGRAM} {__version__}" "{PROGRAM}"',
        ".SH NAME",
        rf"{_escaped(name)} \- {_escaped(summary.rstrip('.'))}",
    ]


def _options(command: Any, ctx: Any) -> list[str]:
    found: list[str] = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            found += [".TP", rf"\fB{_escaped(record[0])}\fR", _escaped(" ".join(record[1].split()))]
    return found


def _paragraphs(text: str | None) -> Iterator[str]:
    for part in (text or "").split("\n\n"):
        yield from (".PP", _escaped(" ".join(part.split())))


def _exit_codes() -> Iterator[str]:
    yield '.SH "EXIT STATUS"'
    for code, meaning in _CODES.items():
        yield from (".TP", rf"\fB{code}\fR", meaning)


def _escaped(text: str) -> str:
    """Text as troff takes it literally: hyphens that can be copied, no line that is a request."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\`")
    plain = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in plain)
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain


def main() -> int:
    """Writes them into the directory that is named."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (directory / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
