"""``numalign admit``: would a pod be admitted, and where would it sit?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host import source_options
from numalign.cli.main import FAILED, OK
from numalign.cli.output import Output, output_option

if TYPE_CHECKING:
    from numalign.apps.snapshots.verdicts import Outcome

FORMATS: Final = ("table", "json", "yaml")

FilesOption = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="A pod or workload, a directory of them, or - for stdin. Repeat for more.",
    ),
]
StaticOption = Annotated[
    bool,
    typer.Option("--static", help="Ask as for static pods, which the kubelet takes for critical."),
]

app = new_app()


@app.command(
    epilog=examples(
        "numalign admit -f pod.yaml",
        "numalign admit -f pod.yaml --on worker-3.tar.gz",
        "numalign admit -f deployment.yaml --on epyc-2s-nps4 --kubelet-config kubelet.yaml",
        "numalign admit -f pod.yaml --machine host --state /var/lib/kubelet "
        "--kubelet-config /var/lib/kubelet/config.yaml",
    )
)
def admit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    files: FilesOption,
    on: source_options.OnOption = None,
    machine: source_options.MachineOption = None,
    kubelet_config: source_options.KubeletConfigOption = None,
    state: source_options.StateOption = None,
    pods: source_options.PodsOption = None,
    kubernetes: source_options.KubernetesOption = None,
    fidelity: source_options.FidelityOption = None,
    static: StaticOption = False,
    output: Annotated[str, output_option(*FORMATS)] = "table",
) -> int:
    """Say whether pods would be admitted, and where they would sit.

    Where: on which CPUs, memory nodes and devices. Nothing is changed. Several pods are asked in
    order, each on the host as those before it left it; of a Deployment, StatefulSet, Job and the
    like every replica. Exit code 0 if all are admitted, 1 if one is not, 2 for bad input.
    """
    from numalign.apps.snapshots import verdicts
    from numalign.cli import manifests

    records = manifests.read_workloads(files)
    found = source_options.loaded(on, machine, kubelet_config, state, pods, kubernetes, fidelity)
    answers = list(verdicts.outcomes(found, records, is_critical=static))
    _show(Output.of(ctx), output, answers)
    return OK if all(answer.is_admitted for answer in answers) else FAILED


def _show(out: Output, output: str, answers: list[Outcome]) -> None:
    from numalign.apps.snapshots import verdicts

    if output != "table":
        out.data(output, [verdicts.as_data(answer) for answer in answers])
        return
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Tone, line
    from numalign.core.kubelet.admission.verdict import refusal

    rows = [row for answer in answers for row in verdicts.rows(answer)]
    if rows:
        out.lines(columns(verdicts.HEAD, rows, width=out.width, flexible=(2, 3, 4)))
    for answer in answers:
        words = refusal(answer.verdict)
        if words is not None:
            name = f"{answer.pod.namespace}/{answer.pod.name}"
            out.lines([line(f"{name} would be refused: {words[0]}: {words[1]}", Tone.WARNING)])
