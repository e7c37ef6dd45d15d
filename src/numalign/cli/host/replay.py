"""``numalign replay``: would the kubelet of a captured host start again, and keep its pods?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host import source_options
from numalign.cli.host.admit import StaticOption
from numalign.cli.main import FAILED, OK, one_line
from numalign.cli.output import Output, output_option

FORMATS: Final = ("lines", "json", "yaml")

app = new_app()


@app.command(
    epilog=examples(
        "numalign replay worker-3.tar.gz",
        "numalign replay worker-3.tar.gz --kubelet-config new.yaml",
        "numalign replay --machine host --state /var/lib/kubelet --kubelet-config kubelet.yaml",
    )
)
def replay(  # noqa: PLR0913, PLR0917 - one parameter for each option
    ctx: typer.Context,
    bundle: Annotated[
        str | None,
        typer.Argument(
            metavar="BUNDLE", show_default=False, help="A bundle, or another SRC as for --on."
        ),
    ] = None,
    machine: source_options.MachineOption = None,
    kubelet_config: source_options.KubeletConfigOption = None,
    state: source_options.StateOption = None,
    pods: source_options.PodsOption = None,
    kubernetes: source_options.KubernetesOption = None,
    fidelity: source_options.FidelityOption = None,
    static: StaticOption = False,
    output: Annotated[str, output_option(*FORMATS)] = "lines",
) -> int:
    """Say whether a kubelet would start again with its state files.

    Checks checksums and what must always hold (no CPU twice or lost, memory accounts that add up,
    no device twice), says whether the kubelet would start, and which running pods would be refused.
    Exit code 0 if all is well, 1 if not, 2 for bad input.
    """
    from numalign.apps.snapshots import replaying

    found = source_options.evidence(
        bundle, machine, kubelet_config, state, pods, kubernetes, fidelity
    )
    replayed = replaying.replayed(found, is_critical=static)
    out = Output.of(ctx)
    if output == "lines":
        source_options.tell(replayed.notes)
        out.text("".join(f"{one_line(text)}\n" for text in replaying.as_lines(replayed)))
    else:
        out.data(output, replaying.as_data(replayed))
    return OK if replayed.is_sound else FAILED
