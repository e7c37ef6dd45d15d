"""``numalign advise``: which settings of a host suit a workload best?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host.source_options import (
    DeviceOption,
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
    from numalign.apps.render.text import Line
    from numalign.apps.snapshots.advising import Advised
    from numalign.core.what_if.settings_advice import Trial

FORMATS: Final = ("table", "json", "yaml")
ROWS_SHOWN: Final = 12
NONE_FIT: Final = "no settings admit any of these pods"

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
    device: DeviceOption = None,
    write: Annotated[
        Path | None,
        optional(
            "--write",
            metavar="FILE",
            help="Change the recommended keys in the kubelet's configuration FILE; all other keys, "
            "their order and comments stay. It is what is tried, unless --kubelet-config says "
            "otherwise. Without such a file: write them as a drop-in.",
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
    without free CPUs, and the mean distance (an estimate). -o yaml prints what is recommended as a
    drop-in for the kubelet's --config-dir; --write changes a file. Both are checked by starting
    the managers with the outcome. Exit code 0 if all pods fit with it, 1 if not, 2 for bad input.
    """
    from numalign.apps.snapshots import advising
    from numalign.cli import manifests
    from numalign.cli.host.search_progress import SearchProgress
    from numalign.wire.pods.manifests import core_pod

    out = Output.of(ctx)
    pods = [core_pod(record) for record in manifests.read_workloads(files)]
    if write is not None and kubelet_config is None and write.exists():
        kubelet_config = write  # the file that is to be changed is what is tried
        on = on or (None if machine else "host")
    options = HostOptions(machine, kubelet_config, kubernetes=kubernetes, fidelity=fidelity)
    found = options.loaded(on, device)
    with SearchProgress() as progress:
        result = advising.advised(found, pods, going=progress.going)
    if output == "yaml":
        out.text(result.text)
    elif output == "json":
        out.data("json", advising.as_data(result))
    else:
        _show(out, result, show_all=show_all)
    if result.config is None and output == "yaml":
        why = [NONE_FIT, *map(_unoffered, result.unoffered)]
        print(f"nothing is recommended: {'; '.join(why)}", file=sys.stderr)
    if write is not None:
        _write(out, result, write)
    best = result.advice.best
    return OK if best is not None and best.admitted == best.pods else FAILED


def _write(out: Output, result: Advised, path: Path) -> None:
    """Puts what is recommended into a file, and says on stderr what that means."""
    from numalign.adapters.local.files import read_small
    from numalign.apps.snapshots import advising
    from numalign.apps.snapshots.host_files import CONFIG_BYTES_MAX

    if result.config is None:
        print(f"{path}: not written, nothing is recommended", file=sys.stderr)
        return
    data = read_small(path, CONFIG_BYTES_MAX)
    if data is None:
        out.file(path, result.text.encode())
        print(f"{path}: written as a drop-in for the kubelet's --config-dir", file=sys.stderr)
        return
    new = advising.changed_file(result, data, str(path))
    if new == data:
        print(f"{path}: says this already, not changed", file=sys.stderr)
        return
    out.changed_file(path, new)
    print(f"{path}: changed {', '.join(advising.changed_keys(result))}", file=sys.stderr)


def _show(out: Output, result: Advised, *, show_all: bool) -> None:
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Tone, line
    from numalign.apps.snapshots import advising

    if result.config is None and not show_all:
        out.lines(_recommendation(out, result))
        return
    trials = result.advice.trials if show_all else result.advice.trials[:ROWS_SHOWN]
    rows = [advising.row(trial) for trial in trials]
    lines = columns(
        advising.HEAD, rows, width=out.table_width, flexible=(7,), right=advising.NUMBERS
    )
    more = len(result.advice.trials) - len(trials)
    if more:
        lines.append(line(f"{more} more with --all", Tone.DIM))
    if not result.advice.complete:
        lines.append(line("The search was stopped; not all were tried.", Tone.WARNING))
    out.lines(lines + _recommendation(out, result))


def _recommendation(out: Output, result: Advised) -> list[Line]:
    from numalign.apps.render.text import Span, Tone, line, wrap

    def item(text: str, tone: Tone = Tone.PLAIN) -> list[Line]:
        return wrap((Span(text, tone),), out.width, first="- ", later="  ", prose=True)

    best = result.advice.best
    offers = [text for name in result.unoffered for text in item(_unoffered(name), Tone.WARNING)]
    if result.config is None:
        count = len(result.advice.trials)
        title = f"nothing is recommended: {NONE_FIT} ({count} were tried)"
        lines = [line(title, Tone.WARNING), *offers]
        for text in _grouped(best):
            lines += item(f"{text}; see 'numalign explain'")
        return lines
    lines = [line(""), line("recommended: the first row", Tone.TITLE)]
    for reason in (*result.advice.reasons, *result.reservations.reasons):
        lines += item(reason)
    lines += offers
    for text in _grouped(best):
        lines += item(f"refused: {text}; see 'numalign explain'", Tone.WARNING)
    lines += [line(""), line("what it costs", Tone.TITLE)]
    if steps := result.cost.steps():
        lines += item(f"{', '.join(steps)}. Pods that run are admitted anew when it starts.")
    else:
        lines += item("nothing: the host is set up like this already.")
    if result.loaded.inputs.config is None:
        lines += item("the settings of the host are not known; see the note on what was assumed.")
    lines += [line(""), line("as a drop-in for the kubelet's --config-dir", Tone.TITLE)]
    lines += [line(f"  {text}") for text in result.text.splitlines()]
    lines.append(line("alone: -o yaml; changed in your file: --write FILE", Tone.DIM))
    return lines


def _grouped(trial: Trial | None) -> list[str]:
    """The pods that a trial refused, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for pod, why in trial.refused if trial is not None else ():
        by_reason.setdefault(why, []).append(pod)
    return [
        f"{pods[0]}{f' and {len(pods) - 1} more' if len(pods) > 1 else ''} ({why})"
        for why, pods in by_reason.items()
    ]


def _unoffered(resource: str) -> str:
    from numalign.apps.snapshots.declared import unoffered_text

    return unoffered_text(resource)
