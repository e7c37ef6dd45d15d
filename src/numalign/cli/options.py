"""Options that several commands share."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _machine_names() -> list[tuple[str, str]]:
    from numalign.core.machine.examples.catalogue import EXAMPLES

    names = [(example.name, example.title) for example in EXAMPLES.values()]
    return [("host", "the running host"), *names]


MachineOption = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        metavar="SOURCE",
        autocompletion=_machine_names,
        show_default=False,
        help=(
            "Where the machine comes from: host (the default), a directory with sys/ in it, a "
            "capture, hwloc XML, machine YAML or JSON, an example (see 'numalign machines'), "
            "or a shape such as 2s:1n:16c:2t."
        ),
    ),
]

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="The way to the cluster. Default: KUBECONFIG, the pod we run in, or ~/.kube/config.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", help="The context of the kubeconfig to use.", show_default=False),
]
