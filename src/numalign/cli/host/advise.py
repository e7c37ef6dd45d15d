"""``numalign advise``: which settings of a host suit a workload best?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host.source_options import (
    FidelityOption,
    HostOptions,
    KubeletConfigOption,
    KubernetesOption,
    OnOption,
)
from numalign.cli.main import FAILED, OK
from numalign.cli.options import FilesOption, MachineOption, optional
from numalign.cli.output import Output, output_option

if TYPE_CHECKING:
    from numalign.apps.snapshots.advising import Advised

FORMATS: Final = ("table", "json", "yaml")
ROWS_SHOWN: Final = 12

app = new_app()


@app.command(
    epilog=examples(
        "numalign advise -f workload/",
        "numalign advise -f workload/ --on worker-3.tar.gz --write kubelet.yaml",
        "numalign advise -f deployment.yaml --on xeon-2s",
        "numalign advise -f workload/ --on xeon-2s -o yaml",
    )
)
def advise(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    files: FilesOption,
    on: OnOption = None,
    machine: MachineOption = None,
    kubelet_config: KubeletConfigOption = None,
    kubernetes: KubernetesOption = None,
    fidelity: FidelityOption = None,
    write: Annotated[
        Path | None,
        optional(
            "--write",
            metavar="FILE",
            help="Write the recommended KubeletConfiguration to a file.",
        ),
    ] = None,
    show_all: Annotated[
        bool,
        typer.Option("--all", help=f"Show every combination, not only the first {ROWS_SHOWN}."),
    ] = False,
    output: Annotated[str, output_option(*FORMATS)] = "table",
) -> int:
    """Try a workload with all settings of a host; recommend the best.

    Every policy, scope and option is tried: the pods are offered in order to the host as it would
    be without its present pods. Shown are pods admitted and aligned (everything of a container on
    one NUMA node), free CPUs stranded beside owned ones on a core, free memory stranded on nodes
    without free CPUs, and the mean distance (an estimate). -o yaml prints the recommended
    KubeletConfiguration. Exit code 0 if all pods fit with it, 1 if not, 2 for bad input.
    """
    from numalign.apps.snapshots import advising
    from numalign.cli import manifests
    from numalign.cli.host.search_progress import SearchProgress
    from numalign.wire.pods.manifests import core_pod

    out = Output.of(ctx)
    pods = [core_pod(record) for record in manifests.read_workloads(files)]
    found = HostOptions(machine, kubelet_config, kubernetes=kubernetes, fidelity=fidelity).loaded(
        on
    )
    with SearchProgress() as progress:
        result = advising.advised(found, pods, going=progress.going)
    if write is not None:
        out.file(write, result.config.encode())
    if output == "yaml":
        out.text(result.config)
    elif output == "json":
        out.data("json", advising.as_data(result))
    else:
        _show(out, result, show_all=show_all)
    best = result.advice.best
    return OK if best is not None and best.admitted == best.pods else FAILED


def _show(out: Output, result: Advised, *, show_all: bool) -> None:
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Span, Tone, line, wrap
    from numalign.apps.snapshots import advising

    trials = result.advice.trials if show_all else result.advice.trials[:ROWS_SHOWN]
    rows = [advising.row(trial) for trial in trials]
    lines = columns(advising.HEAD, rows, width=out.width, flexible=(7,), right=advising.NUMBERS)
    more = len(result.advice.trials) - len(trials)
    if more:
        lines.append(line(f"{more} more with --all", Tone.DIM))
    if not result.advice.complete:
        lines.append(line("The search was stopped; not all were tried.", Tone.WARNING))
    lines += [line(""), line("recommended: the first row", Tone.TITLE)]
    for reason in (*result.advice.reasons, *result.reservations.reasons):
        lines += wrap((Span(reason),), out.width, first="- ", later="  ", prose=True)
    best = result.advice.best
    for pod, why in best.refused[:ROWS_SHOWN] if best is not None else ():
        lines.append(line(f"- refused: {pod} ({why}); see 'numalign explain'", Tone.WARNING))
    lines += [line(""), line("lines for the kubelet's configuration", Tone.TITLE)]
    lines += [line(f"  {text}") for text in advising.reserved_lines(result)]
    lines.append(line("the whole configuration: -o yaml or --write FILE", Tone.DIM))
    out.lines(lines)
