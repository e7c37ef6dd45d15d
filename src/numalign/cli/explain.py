"""``numalign explain``: why is a pod admitted or refused, and what would make it fit?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from numalign.cli import source_options as sources
from numalign.cli.admit import FilesOption
from numalign.cli.frame import examples, new_app
from numalign.cli.main import FAILED, OK
from numalign.cli.output import Output, output_option

FORMATS: Final = ("text", "json", "yaml")

app = new_app()


@app.command(
    epilog=examples(
        "numalign explain -f pod.yaml",
        "numalign explain -f pod.yaml --on worker-3.tar.gz",
        "numalign explain -f pod.yaml --on epyc-2s-nps4 --kubelet-config kubelet.yaml",
        "numalign explain -f pod.yaml -o json | jq '.[0].changes[].text'",
    )
)
def explain(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    files: FilesOption,
    on: sources.OnOption = None,
    machine: sources.MachineOption = None,
    kubelet_config: sources.KubeletConfigOption = None,
    state: sources.StateOption = None,
    pods: sources.PodsOption = None,
    kubernetes: sources.KubernetesOption = None,
    fidelity: sources.FidelityOption = None,
    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Search for changes that would help.")
    ] = True,
    output: Annotated[str, output_option(*FORMATS)] = "text",
) -> int:
    """Say why pods are admitted or refused, and what would make a refused one fit.

    One sentence first; then the container, resource and NUMA nodes, the hints, the host, and
    changes of the pod or the host that would let it in, smallest first, each of them tried.
    Several pods are asked in order, each on the host as those before it left it. Exit code 0 if
    all are admitted, 1 if one is not, 2 for bad input.
    """
    from numalign.apps import explaining
    from numalign.cli import manifests
    from numalign.cli.search_progress import SearchProgress

    out = Output.of(ctx)
    records = manifests.read_workloads(files)
    found = sources.loaded(on, machine, kubelet_config, state, pods, kubernetes, fidelity)
    with SearchProgress() as progress:
        answers = list(explaining.answers(found, records, going=progress.going, search=search))
    _show(out, output, answers)
    return OK if all(answer["admitted"] for answer in answers) else FAILED


def _show(out: Output, output: str, answers: list[dict[str, Any]]) -> None:
    if output != "text":
        out.data(output, answers)
        return
    from numalign.apps.render.explanation import render
    from numalign.apps.render.text import line

    for number, answer in enumerate(answers):
        if number:
            out.lines([line("")])
        out.lines(render(answer, width=out.width))
