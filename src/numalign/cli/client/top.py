"""``numalign top``: a live view of NUMA nodes and pods in the terminal."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions
from numalign.cli.options import unfold
from numalign.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from numalign.adapters.local.agent_client import AgentClient

SECONDS_LEAST: Final = 0.2

app = new_app()


@app.command(
    epilog=examples(
        "numalign top",
        "numalign top --interval 5",
        "numalign top --once",
    )
)
@unfold
def top(
    *,
    ctx: typer.Context,
    once: Annotated[
        bool, typer.Option("--once", help="Show it once and end, as for scripts.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="SECONDS", min=SECONDS_LEAST, help="How often to look."),
    ] = 1.0,
    place: AgentOptions,
) -> None:
    """Watch NUMA nodes and pods in the terminal.

    For each NUMA node: its CPUs by use, its memory, and the largest container that still fits.
    Nodes that are memory only and unused share a row.
    Ctrl-C ends it. Into a pipe it is shown once.
    """
    from rich.console import Console

    out = Output.of(ctx)
    is_live = not once and sys.stdout.isatty()
    console = Console(
        no_color=not out.colour,
        force_terminal=sys.stdout.isatty(),
        width=None if is_live else out.width,
        highlight=False,
        markup=False,
    )
    with place.connected() as agent:
        if is_live:
            _live(console, agent, interval)
        else:
            console.print(_view(agent, console.width))


def _live(console: Console, agent: AgentClient, interval: float) -> None:
    from rich.live import Live

    with Live(
        _view(agent, console.width), console=console, screen=True, auto_refresh=False
    ) as live:
        while True:
            time.sleep(interval)
            live.update(_view(agent, console.width), refresh=True)


def _view(agent: AgentClient, width: int) -> RenderableType:
    from numalign.cli.client.top_view import view

    node = agent.get("/node")
    pods = agent.get("/pods")["items"]
    decisions = agent.get("/decisions", limit=5)["items"]
    return view(node, pods, decisions, time.time(), width)
