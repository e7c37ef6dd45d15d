"""``numalign crd``: print the definition of NodeResourceTopology."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.output import Output

app = new_app()


@app.command(epilog=examples("numalign crd | kubectl apply -f -", "numalign crd > nrt-crd.yaml"))
def crd(ctx: typer.Context) -> None:
    """Print the NodeResourceTopology CRD for a cluster.

    It serves v1alpha1 and v1alpha2 and stores the latter. Where another exporter has installed it
    already, there is nothing to do.
    """
    from numalign.wire.kubernetes import crd as wire

    Output.of(ctx).text(wire.text())
