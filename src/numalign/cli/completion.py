"""``numalign completion``: scripts that teach a shell our commands and options."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.main import COMPLETE_VARIABLE, PROGRAM
from numalign.cli.output import Output

SHELLS: Final = ("bash", "zsh", "fish")

app = new_app()


def _shells() -> list[str]:
    return list(SHELLS)


def _check(value: str) -> str:
    if value not in SHELLS:
        raise typer.BadParameter(f"{value!r} is none of {', '.join(SHELLS)}")
    return value


@app.command(
    epilog=examples(
        'bash, for this terminal:  eval "$(numalign completion bash)"',
        "bash, for good:  numalign completion bash > /etc/bash_completion.d/numalign",
        'zsh, in ~/.zshrc:  eval "$(numalign completion zsh)"',
        "fish:  numalign completion fish > ~/.config/fish/completions/numalign.fish",
    )
)
def completion(
    ctx: typer.Context,
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL",
            help=f"One of {', '.join(SHELLS)}.",
            autocompletion=_shells,
            callback=_check,
        ),
    ],
) -> None:
    """Print the completion script for a shell.

    Commands, options, formats and the names of example machines are completed.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer offers it to no one, yet the scripts belong to its own protocol

    script = get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell)
    Output.of(ctx).text(f"{script}\n")
