"""Writes docs/reference/cli.md from the commands themselves: ``python -m tests.cli.reference``.

The text around the help is here; the help is what ``--help`` prints on 80 columns, of which
it leaves 2 free.
"""

from __future__ import annotations

from typing import Any

from tests.paths import DOCS

from numalign.cli.app import load, root_command
from numalign.cli.commands import GROUPS
from numalign.cli.main import PROGRAM

PAGE = DOCS / "reference" / "cli.md"
HEAD = """\
# The command line

<!-- Written by `python -m tests.cli.reference`; do not edit by hand. -->

`numalign COMMAND --help` shows the same texts as this page. Each ends with command lines that
can be copied.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | yes, or done |
| 1 | no, or it failed: the answer is no, a peer did not answer, or a bug |
| 2 | wrong usage or bad input: unknown option, unreadable file, impossible machine |
| 130 | interrupted with Ctrl-C |
| 141 | the reader of the output has gone, as in `numalign topology --full \\| head -1` |

An error is one line on stderr that begins with `error:`. With `-v` there is more on stderr:
what was read and how long it took, the cause of an error, and for a bug its traceback.

## Environment

| variable | effect |
| --- | --- |
| `NO_COLOR` | if set and not empty: no colours, as with `--no-color` |
| `TERM=dumb` | no colours |
| `COLUMNS` | the width to fill; without it that of the terminal, or 100 for a pipe |
| `NUMALIGN_SOCKET` | the agent's unix socket, as with `--socket` |
| `NUMALIGN_TOKEN` | the token for changes with `--server`; without it the one in the usual state \
directory, if this user may read it |
| `XDG_STATE_HOME` | where the state directory of a user who is not root lies |
| `PYTHONOPTIMIZE` | must not be set: numalign refuses to run without its own checks |

Pipes and files never get colours.

## Shell completion

| shell | for this terminal | for good |
| --- | --- | --- |
| bash | `eval "$(numalign completion bash)"` | \
`numalign completion bash > /etc/bash_completion.d/numalign` |
| zsh | `eval "$(numalign completion zsh)"` | the same line in `~/.zshrc`, after `compinit` |
| fish | `numalign completion fish \\| source` | \
`numalign completion fish > ~/.config/fish/completions/numalign.fish` |

Commands, options, formats and the names of the example machines are completed.

"""


def page() -> str:
    """The whole page."""
    root = root_command()
    with root.make_context(PROGRAM, [], resilient_parsing=True, terminal_width=78) as ctx:
        parts = [HEAD, "## numalign\n\n", _block(root, ctx)]
        for _, entries in GROUPS:
            for entry in entries:
                parts += _command(load(entry), entry.name, ctx)
    return "".join(parts)


def _command(command: Any, name: str, parent: Any) -> list[str]:
    """The help of a command and of those below it."""
    with command.make_context(name, [], parent=parent, resilient_parsing=True) as ctx:
        parts = [f"\n## {ctx.command_path}\n\n", _block(command, ctx)]
        for below, inner in getattr(command, "commands", {}).items():
            parts += _command(inner, below, ctx)
    return parts


def _block(command: Any, ctx: Any) -> str:
    return f"```text\n{command.get_help(ctx).rstrip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page())
