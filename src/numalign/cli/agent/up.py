"""``numalign up``: the agent with a few example pods, to try it out."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from numalign.cli.agent.agent import ConfigOption, ListenOptions
from numalign.cli.app import examples, new_app
from numalign.cli.options import optional, unfold

app = new_app()

UpStateOption = Annotated[
    Path | None,
    optional(
        "--state-dir",
        help="Where state, logs and sockets are kept. Without it: /var/lib/numalign/up for root, "
        "~/.local/state/numalign/up for others.",
    ),
]


@app.command(
    epilog=examples("numalign up", "numalign up --keep", "numalign up --state-dir /tmp/try")
)
@unfold
def up(
    *,
    config: ConfigOption = None,
    state_dir: UpStateOption = None,
    listening: ListenOptions,
    keep: Annotated[
        bool, typer.Option("--keep", help="Let the example pods go on when it stops.")
    ] = False,
) -> int:
    """Run the agent on this host with a few example pods.

    A worker with a CPU of its own, a memory streamer and a sidecar in the shared pool, and one pod
    that is refused and says why. They are ended when it stops. Its state is kept apart from that of
    'numalign agent', in the directory 'up' below it, so that trying things out touches nothing
    else.
    """
    from numalign.adapters.local.paths import example_pods, trial_directory
    from numalign.cli.agent.process import run_agent

    return run_agent(
        config=config,
        pods=example_pods(),
        state_dir=state_dir or trial_directory(),
        runtime="process",
        machine=None,
        listening=listening,
        ends_pods=not keep,
    )
