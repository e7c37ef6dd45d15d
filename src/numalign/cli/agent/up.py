"""``numalign up``: the agent with a few example pods, to try it out."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated

import typer

from numalign.cli.agent.agent import LISTEN_DEFAULT, ConfigOption, ListenOption, StateOption
from numalign.cli.app import examples, new_app

app = new_app()


@app.command(
    epilog=examples("numalign up", "numalign up --keep", "numalign up --state-dir /tmp/try")
)
def up(
    config: ConfigOption = None,
    state_dir: StateOption = None,
    listen: ListenOption = LISTEN_DEFAULT,
    keep: Annotated[
        bool, typer.Option("--keep", help="Let the example pods go on when it stops.")
    ] = False,
) -> int:
    """Run the agent on this host with a few example pods.

    A worker with a CPU of its own, a memory streamer and a sidecar in the shared pool, and one pod
    that is refused and says why. They run as nobody, and are ended when it stops. Its state is kept
    apart from that of 'numalign agent', beside it in numalign-up, so that trying things out touches
    nothing else.
    """
    from numalign.adapters.local.askers import nobody
    from numalign.adapters.local.paths import example_pods, state_directory
    from numalign.cli.agent.process import run_agent

    return run_agent(
        config=config,
        pods=example_pods(),
        state_dir=state_dir or state_directory().with_name("numalign-up"),
        runtime="process",
        machine=None,
        listen=listen,
        ends_pods=not keep,
        pods_as=nobody(),
    )
