"""``numalign state``: look at, and clear, what the agent has saved."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from numalign.cli.agent.agent import ConfigOption, StateOption
from numalign.cli.app import examples, new_app
from numalign.cli.options import MachineOption
from numalign.cli.output import Output

if TYPE_CHECKING:
    from numalign.apps.agent.model import AgentState

app = new_app()


@app.callback(epilog=examples("numalign state check", "numalign state reset --dry-run"))
def state() -> None:
    """Look at, and clear, what the agent has saved."""


@app.command(
    epilog=examples(
        "numalign state check",
        "numalign state check --config new-kubelet.yaml",
        "numalign state check --state-dir /var/lib/kubelet",
    )
)
def check(
    ctx: typer.Context,
    config: ConfigOption = None,
    state_dir: StateOption = None,
    machine: MachineOption = None,
) -> int:
    """Say whether the agent would start with the saved state, and what would change.

    Reads only. Exit code 0 if it would start and keep every pod, 1 if not.
    """
    from numalign.adapters.local import paths
    from numalign.adapters.local.state_files import StateDirectory
    from numalign.adapters.sources import discovery
    from numalign.apps.agent import run
    from numalign.apps.agent.steps.recovery import recovered
    from numalign.core.errors import NumalignError

    out = Output.of(ctx)
    directory = state_dir or paths.state_directory()
    if not directory.is_dir():
        out.text(f"{directory}: there is no saved state; the agent would start empty\n")
        return 0
    setup, _ = run.setup_of(run.read_config(config), discovery.discover(machine))
    try:
        found = run.restored(StateDirectory(directory), setup)
        after, _ = recovered(setup, **found, alive={}, ended={}, now=0.0)
    except NumalignError as error:
        out.text(f"it would not start: {error}\n")
        out.text("Put the configuration back, or clear the state with `numalign state reset`.\n")
        return 1
    return _verdict(out, {uid: p.phase.value for uid, p in found["pods"].items()}, after)


def _verdict(out: Output, before: dict[str, str], after: AgentState) -> int:
    refused = [
        pod
        for uid, pod in after.pods.items()
        if pod.phase.value == "Failed" and before.get(uid) != "Failed"
    ]
    for pod in refused:
        out.text(
            f"{pod.pod.namespace}/{pod.pod.name} would be refused: {pod.reason}: {pod.message}\n"
        )
    kept = len(after.host.pods)
    out.text(f"it would start; {kept} pods are kept, {len(refused)} refused\n")
    return 1 if refused else 0


@app.command(
    epilog=examples("numalign state reset --dry-run", "numalign state reset --state-dir DIR")
)
def reset(
    ctx: typer.Context,
    state_dir: StateOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
) -> int:
    """Remove the saved state, so that the agent starts empty.

    Do this with the agent stopped. Processes of pods that still run are ended at its next start,
    since nothing is known of them any more.
    """
    from numalign.adapters.local import paths
    from numalign.adapters.local.state_files import StateDirectory
    from numalign.apps.agent.saved import STATE_FILES
    from numalign.cli.agent.process import alone

    out = Output.of(ctx)
    directory = state_dir or paths.state_directory()
    there = [name for name in STATE_FILES if (directory / name).exists()]
    if not there:
        out.text(f"{directory}: there is nothing to remove\n")
        return 0
    if dry_run:
        out.text("".join(f"would remove {directory / name}\n" for name in there))
        return 0
    with alone(directory):
        files = StateDirectory(directory)
        for name in there:
            files.remove(name)
            out.text(f"removed {directory / name}\n")
    return 0
