"""``numalign view``: the page of a host or a fleet, from whatever is known of it."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.host.source_options import HostOptions
from numalign.cli.options import ClusterOptions, ShapesOption, optional, unfold
from numalign.core.errors import ConfigError

app = new_app()


@dataclass(frozen=True, slots=True)
class ShownOptions:
    """What is shown other than one host, and where the page is."""

    is_cluster: Annotated[
        bool, typer.Option("--cluster", help="Show all hosts of a live cluster, and follow it.")
    ] = False
    capture: Annotated[
        Path | None,
        optional("--from", metavar="FILE", help="Show the fleet of a 'capture --cluster'."),
    ] = None
    host: Annotated[
        str | None,
        optional("--host", metavar="NAME", help="Show this host of a simulated scenario."),
    ] = None
    at: Annotated[
        str | None,
        optional(
            "--at",
            metavar="TIME",
            help="When to look at a scenario: seconds, 90m or 36h. Without --host: its fleet.",
        ),
    ] = None
    pool_label: Annotated[
        str | None,
        optional("--pool-label", metavar="LABEL", help="The label of hosts that names their pool."),
    ] = None
    shapes: ShapesOption = None
    listen: Annotated[
        str, typer.Option("--listen", help="Address of the page, on loopback; port 0: any free.")
    ] = "127.0.0.1:8427"


@app.command(
    epilog=examples(
        "numalign view worker-3.tar.gz",
        "numalign view examples/scenarios/telco.yaml --host edge-0007 --at 36h",
        "numalign view --from fleet.tar.gz --shapes shapes.yaml",
        "numalign view --cluster",
    )
)
@unfold
def view(
    *,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[SRC]",
            show_default=False,
            help="A capture, an agent's URL, host, any machine, or with --host or --at a scenario.",
        ),
    ] = None,
    sources: HostOptions,
    shown: ShownOptions,
    cluster: ClusterOptions,
) -> int:
    """Show a host, a capture or a fleet as a page in the browser.

    The same page as that of 'numalign agent', for a host that need not be here: a capture, the
    files of a kubelet (--machine, --state, --kubelet-config, --pods), or a simulated host at any
    time. With --cluster or --from it shows all hosts as tiles, and each host from what it
    publishes. Nothing can be changed on it, and only this host can reach it. Ctrl-C ends it.
    """
    from numalign.adapters.local.shapes import read_mix
    from numalign.cli.daemon import address
    from numalign.cli.host import viewing

    where = address(shown.listen)
    if where is None:
        raise ConfigError("--listen: found '', expected an address such as 127.0.0.1:8427")
    chosen = [
        *(["SRC"] if what is not None else []),
        *(["--cluster"] if shown.is_cluster else []),
        *(["--from"] if shown.capture is not None else []),
    ]
    if len(chosen) > 1:
        raise ConfigError(f"found {' and '.join(chosen)}, expected one of them")
    mix = read_mix(shown.shapes)
    if shown.is_cluster:
        return viewing.view_cluster(cluster, mix, shown.pool_label, where)
    if shown.capture is not None:
        return viewing.view_fleet(
            viewing.captured_fleet(shown.capture), mix, shown.pool_label, where
        )
    if shown.host is not None or shown.at is not None:
        if what is None:
            raise ConfigError("--host and --at: found no SRC, expected a scenario such as a.yaml")
        if shown.host is None:
            fleet = viewing.simulated_fleet(Path(what), shown.at)
            return viewing.view_fleet(fleet, mix, shown.pool_label, where)
        return viewing.view_host(
            viewing.simulated_host(Path(what), shown.host, shown.at), mix, where
        )
    return viewing.view_host(sources.inputs(what), mix, where)
