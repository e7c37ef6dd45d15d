"""``numalign state``: look at, and clear, what the agent has saved."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from numalign.cli.agent.agent import (
    ConfigOption,
    CriSocketOption,
    StateOption,
    check_runtime,
    socket_of,
)
from numalign.cli.app import examples, new_app
from numalign.cli.main import FAILED, OK
from numalign.cli.options import MachineOption, optional
from numalign.cli.output import Output, output_option

if TYPE_CHECKING:
    from numalign.apps.agent.starting.check import StartCheck

FORMATS: Final = ("text", "json", "yaml")
# What is said of a pod, by its outcome; one that is kept or new is only counted.
_WORDS: Final = {
    "refused": "would be refused",
    "waits": "would wait",
    "ended": "has ended meanwhile",
    "ends": "would end: its manifest is gone, or it was being deleted",
    "freed": "is a pod that only the kubelet's files know: what it holds would be freed",
}
_COUNTED: Final = {
    "admitted": "new admitted",
    "waits": "wait",
    "ended": "ended meanwhile",
    "ends": "end",
    "freed": "freed",
}

app = new_app()


@app.callback(epilog=examples("numalign state check", "numalign state reset --dry-run"))
def state() -> None:
    """Look at, and clear, what the agent has saved."""


@app.command(
    epilog=examples(
        "numalign state check",
        "numalign state check --config new-kubelet.yaml",
        "numalign state check --pods /etc/numalign/pods -o json",
        "numalign state check --state-dir /var/lib/kubelet",
    )
)
def check(
    ctx: typer.Context,
    config: ConfigOption = None,
    state_dir: StateOption = None,
    machine: MachineOption = None,
    pods: Annotated[
        Path | None,
        optional("--pods", help="The directory of manifests that the agent would follow."),
    ] = None,
    runtime: Annotated[
        str | None,
        optional(
            "--runtime",
            help="What would run containers, as for 'numalign agent'. Without it: what ran them "
            "when the state was saved.",
        ),
    ] = None,
    cri_socket: CriSocketOption = None,
    output: Annotated[str, output_option(*FORMATS)] = "text",
) -> int:
    """Say whether the agent would start with the saved state, and what would change.

    Goes through the very steps of a start and writes nothing. Where the saved state and this host
    differ (policies, CPUs, reserved memory, totals), both values are shown. Exit code 0 if it would
    start and refuse no pod, 1 if not, 2 for bad input.
    """
    import asyncio
    import os
    import time

    from numalign.adapters.local import paths
    from numalign.adapters.sources import discovery
    from numalign.apps.agent import run
    from numalign.apps.agent.starting import check as start_check

    out = Output.of(ctx)
    directory = (state_dir or paths.state_directory()).absolute()
    if runtime is not None:
        check_runtime(runtime)
    if not directory.is_dir() and output == "text":
        out.text(f"{directory}: there is no saved state; the agent would start empty\n")
        return OK
    asked = start_check.Asked(
        directory,
        run.read_config(config),
        discovery.discover(machine),
        runtime,
        socket_of(cri_socket),
        run.manifests_of(pods, os.uname().nodename),
    )
    found = asyncio.run(start_check.check_start(asked, time.time()))
    if output == "text":
        _show(out, found)
    else:
        out.data(output, _data(found))
    return FAILED if found.error or found.count(start_check.Outcome.REFUSED) else OK


def _data(found: StartCheck) -> dict[str, Any]:
    return {
        "starts": not found.error,
        "error": found.error,
        "runtime": found.runtime,
        "differences": [
            {"what": d.what, "saved": d.saved, "now": d.now} for d in found.differences
        ],
        "pods": [
            {"name": p.name, "outcome": str(p.outcome), "reason": p.reason, "message": p.message}
            for p in found.pods
        ],
    }


def _show(out: Output, found: StartCheck) -> None:
    from numalign.apps.agent.starting.check import Outcome
    from numalign.apps.render.columns import columns
    from numalign.core.kubelet.start_advice import with_advice

    if found.error:
        out.text(f"it would not start: {with_advice(found.error)}\n")
    if found.differences:
        rows = [(d.what, d.saved, d.now) for d in found.differences]
        out.lines(columns(("DIFFERENCE", "SAVED", "NOW"), rows, width=out.width))
    for pod in found.pods:
        if words := _WORDS.get(pod.outcome):
            why = f": {pod.reason}: {pod.message}" if pod.reason else ""
            out.text(f"{pod.name} {words}{why}\n")
    if found.error:
        out.text("Put the configuration back, or clear the state with `numalign state reset`.\n")
        return
    counts = {outcome: found.count(outcome) for outcome in Outcome}
    parts = [f"{counts.pop(Outcome.KEPT)} pods are kept", f"{counts.pop(Outcome.REFUSED)} refused"]
    parts += [f"{count} {_COUNTED[outcome]}" for outcome, count in counts.items() if count]
    out.text(f"it would start; {', '.join(parts)}\n")


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
