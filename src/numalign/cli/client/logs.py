"""``numalign logs``: what a container has written."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions, NamespaceOption
from numalign.cli.options import optional, unfold

app = new_app()


@app.command(
    epilog=examples(
        "numalign logs web",
        "numalign logs web -c sidecar --tail 20",
        "numalign logs web -f",
    )
)
@unfold
def logs(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pod.")],
    container: Annotated[
        str | None,
        optional(
            "--container",
            "-c",
            metavar="NAME",
            help="The container; needed if the pod has several.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the container has ended.")
    ] = False,
    tail: Annotated[
        int | None,
        optional(
            "--tail", metavar="LINES", min=0, max=1_000_000, help="Only so many lines from the end."
        ),
    ] = None,
    namespace: NamespaceOption = None,
    place: AgentOptions,
) -> None:
    """Print what a container has written to its stdout and stderr."""
    with place.connected() as agent:
        pod = agent.pod_named(name, namespace)
        query: dict[str, str | int] = {"follow": "true" if follow else "false"}
        if container is not None:
            query["container"] = container
        if tail is not None:
            query["tail"] = tail
        with agent.stream(f"/pods/{pod['metadata']['uid']}/log", **query) as parts:
            for part in parts:
                sys.stdout.buffer.write(part)
                sys.stdout.buffer.flush()
