"""``numalign apply``: have pods admitted and run."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import CHANGE_FORMATS, AgentOptions
from numalign.cli.client.choose.options import SelectorOption
from numalign.cli.options import optional, unfold
from numalign.cli.output import Output, output_option

app = new_app()


@app.command(
    epilog=examples(
        "numalign apply -f pod.yaml",
        "numalign apply -f examples/pods/",
        "kubectl get pod web -o yaml | numalign apply -f -",
    )
)
@unfold
def apply(
    *,
    ctx: typer.Context,
    files: Annotated[
        list[str],
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="A manifest, a directory of manifests, or - for stdin. Repeat for more.",
        ),
    ],
    namespace: Annotated[
        str | None,
        optional("--namespace", "-n", metavar="NAME", help="For what says no namespace itself."),
    ] = None,
    selector: SelectorOption = None,
    output: Annotated[str, output_option(*CHANGE_FORMATS)] = "lines",
    place: AgentOptions,
) -> None:
    """Have the pods of manifests admitted and run.

    A Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob NAME runs as the pods NAME-0,
    NAME-1 and so on; apply it again to change or scale it. Other kinds are passed over. A pod that
    runs as written is left alone; one that differs or has ended is replaced. A pod that is refused
    stays visible with the reason, and the exit code is 1.
    """
    from numalign.cli import manifests
    from numalign.cli.client.pod_changes import applied, show

    workloads = manifests.read(files, namespace=namespace, selector=selector)
    with place.connected() as agent:
        show(Output.of(ctx), output, applied(agent, workloads))
