"""``numalign pods``: who sits where in a cluster."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import ClusterOptions, unfold
from numalign.cli.output import Output, output_option

FORMATS: Final = ("table", "json", "yaml")
HEAD: Final = ("NAMESPACE", "POD", "CONTAINER", "HOST", "NUMA", "CPUS", "MEMORY", "DEVICES")

app = new_app()


@app.command(
    epilog=examples(
        "numalign pods -A",
        "numalign pods -n database",
        "numalign pods -A -o json",
    )
)
@unfold
def pods(
    *,
    ctx: typer.Context,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="The pods of all namespaces.")
    ] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="The namespace of the pods.")
    ] = "default",
    output: Annotated[str, output_option(*FORMATS)] = "table",
    cluster: ClusterOptions,
) -> None:
    """Show where the containers of a cluster sit.

    This is what hosts with 'numalign export' have published last. Containers without CPUs of their
    own share those that nobody has.
    """
    from numalign.apps.cluster_view.views import place_records
    from numalign.cli.cluster.client import read_cluster

    found = read_cluster(cluster)
    records = place_records(
        found.topologies.values(), namespace=None if all_namespaces else namespace
    )
    out = Output.of(ctx)
    if output != "table":
        out.data(output, records)
    else:
        from numalign.apps.render.columns import columns

        rows = [_row(record) for record in records]
        out.lines(columns(HEAD, rows, width=out.table_width, flexible=(1, 6, 7), prose=(6, 7)))


def _row(record: dict[str, Any]) -> tuple[str, ...]:
    from numalign.core.values.sizes import human

    memory = ", ".join(
        f"{human(block['sizeBytes'])}{'' if block['type'] == 'memory' else ' ' + block['type']}"
        for block in record["memory"]
    )
    devices = ", ".join(f"{name}: {' '.join(ids)}" for name, ids in record["devices"].items())
    return (
        record["namespace"],
        record["pod"],
        record["container"] or "(pod)",
        record["host"],
        ",".join(map(str, record["numaNodes"])) or "-",
        record["cpus"] or "shared",
        memory or "-",
        devices or "-",
    )
