"""``numalign diff``: what has changed between two captures."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.main import FAILED, OK, one_line
from numalign.cli.output import Output, output_option

FORMATS: Final = ("lines", "json", "yaml")

app = new_app()


@app.command(
    epilog=examples(
        "numalign diff before.tar.gz after.tar.gz",
        "numalign diff worker-3.tar.gz unix:///var/lib/numalign/agent.sock",
        "numalign diff before.tar.gz after.tar.gz -o json",
    )
)
def diff(
    ctx: typer.Context,
    a: Annotated[
        str, typer.Argument(metavar="A", help="A bundle, or another SRC as for 'admit --on'.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The later one.")],
    output: Annotated[str, output_option(*FORMATS)] = "lines",
) -> int:
    """Show what has changed between two captures.

    That is: pods that came, went or moved, the shared pool, configuration and machine. Exit code 0
    if nothing differs, 1 if something does, 2 for bad input.
    """
    from numalign.apps.snapshots import differences
    from numalign.apps.snapshots.loading import loaded
    from numalign.apps.snapshots.sources import inputs_of

    found = differences.differences(loaded(inputs_of(a)), loaded(inputs_of(b)))
    out = Output.of(ctx)
    if output == "lines":
        out.text("".join(f"{one_line(text)}\n" for text in differences.as_lines(found)))
    else:
        out.data(output, differences.as_data(found))
    return OK if found.is_empty else FAILED
