"""``numalign replay``: would the kubelet of a captured host start again, and keep its pods?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host.source_options import HostOptions, StaticOption, tell
from numalign.cli.main import FAILED, OK, one_line
from numalign.cli.options import unfold
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
@unfold
def replay(
    *,
    ctx: typer.Context,
    bundle: Annotated[
        str | None,
        typer.Argument(
            metavar="BUNDLE", show_default=False, help="A bundle, or another SRC as for --on."
        ),
    ] = None,
    host: HostOptions,
    static: StaticOption = False,
    output: Annotated[str, output_option(*FORMATS)] = "lines",
) -> int:
    """Say whether a kubelet would start again with its state files.

    Checks checksums and what must always hold (no CPU twice or lost, memory accounts that add up,
    no device twice), says whether the kubelet would start, and which running pods would be refused.
    Exit code 0 if all is well, 1 if not, 2 for bad input.
    """
    from numalign.apps.snapshots import replaying

    replayed = replaying.replayed(host.inputs(bundle), is_critical=static)
    out = Output.of(ctx)
    if output == "lines":
        tell(replayed.notes)
        out.text("".join(f"{one_line(text)}\n" for text in replaying.as_lines(replayed)))
    else:
        out.data(output, replaying.as_data(replayed))
    return OK if replayed.is_sound else FAILED
