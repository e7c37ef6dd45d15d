"""``numalign admit``: would a pod be admitted, and where would it sit?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host.source_options import DeviceOption, HostOptions, OnOption, StaticOption
from numalign.cli.main import FAILED, OK
from numalign.cli.options import FilesOption, unfold
from numalign.cli.output import Output, output_option

if TYPE_CHECKING:
    from numalign.apps.snapshots.verdicts import Outcome

FORMATS: Final = ("table", "json", "yaml")

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
@unfold
def admit(
    *,
    ctx: typer.Context,
    files: FilesOption,
    on: OnOption = None,
    host: HostOptions,
    device: DeviceOption = None,
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
    answers = list(verdicts.outcomes(host.loaded(on, device), records, is_critical=static))
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
