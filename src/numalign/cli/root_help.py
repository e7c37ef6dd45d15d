"""The help of ``numalign`` itself, as plain text from the table of commands.

It does not need the machinery that the commands need, so it comes at once.
"""

from __future__ import annotations

from numalign.cli.commands import GROUPS
from numalign.cli.main import PROGRAM, program

_USAGE = """\
Usage: numalign [OPTIONS] COMMAND [ARGS]...

  Place work on NUMA machines exactly as the Kubernetes node managers do.

Options:
  --version      Print the version and exit.
  --no-color     Do not colour the output; NO_COLOR in the environment does the
                 same.
  -v, --verbose  Say more on stderr; for a bug, where it happened. Repeat for
                 yet more.
  -h, --help     Show this message and exit.
"""
_EXAMPLES = """
Examples:
  numalign topology
  numalign topology --machine epyc-2s-nps4
  numalign topology -o png --output-file machine.png
  numalign COMMAND --help
"""


def root_help() -> str:
    """The whole help, without a newline at its end."""
    width = max(len(entry.name) for _, entries in GROUPS for entry in entries)
    parts = [_USAGE]
    for title, entries in GROUPS:
        lines = (f"  {entry.name:{width}}  {entry.summary}\n" for entry in entries)
        parts += [f"\n{title}:\n", *lines]
    text = "".join([*parts, _EXAMPLES]).rstrip()
    return text.replace(f" {PROGRAM} ", f" {program()} ")
