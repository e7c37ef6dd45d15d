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

    Where: 0-3@0 stands for CPUs 0 to 3 of NUMA node 0; memory and devices alike. A container is
    aligned if all that is its own is on one node; the distance from its CPUs to its memory and
    devices is an estimate (10 = local). Nothing is changed. Several pods are asked in order, each
    on the host as those before it left it; of a Deployment, StatefulSet, Job and the like every
    replica. Exit code 0 if all are admitted, 1 if one is not, 2 for bad input.
    """
    from numalign.apps.snapshots import verdicts
    from numalign.cli import manifests

    records = manifests.read_workloads(files)
    answers = list(verdicts.outcomes(host.loaded(on, device).snapshot, records, is_critical=static))
    hint = "'numalign explain' with the same options says why and what would help."
    show(Output.of(ctx), output, answers, hint)
    return OK if all(answer.is_admitted for answer in answers) else FAILED


def show(out: Output, output: str, answers: list[Outcome], hint: str = "") -> None:
    """Prints where pods would sit, and which would be refused."""
    from numalign.apps.snapshots import verdicts

    if output != "table":
        out.data(output, [verdicts.as_data(answer) for answer in answers])
        return
    from numalign.apps.render import placements
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Tone, line

    rows = [row for answer in answers for row in placements.rows(answer)]
    if rows:
        out.lines(
            columns(
                placements.HEAD,
                rows,
                width=out.table_width,
                flexible=placements.FLEXIBLE,
                right=placements.NUMBERS,
            )
        )
    out.lines([line(text, Tone.WARNING) for text in placements.refusal_lines(answers)])
    refused = [answer for answer in answers if not answer.is_admitted]
    if refused:
        from numalign.apps.snapshots.declared import unoffered, unoffered_text

        for name in unoffered(refused[0].before, [answer.pod for answer in refused]):
            out.lines([line(unoffered_text(name), Tone.WARNING)])
    if len(rows) > 1 or (rows and refused):
        out.lines([line(placements.totals_text(answers), Tone.DIM)])
    if refused and hint:
        out.lines([line(hint)])
