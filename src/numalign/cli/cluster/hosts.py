"""``numalign hosts``: the hosts of a cluster by NUMA node."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import ClusterOptions, unfold
from numalign.cli.output import Output, output_option

FORMATS: Final = ("table", "json", "yaml")
HEAD: Final = ("HOST", "POLICY", "SCOPE", "NUMA", "CPU FREE", "MEMORY FREE", "OTHERS FREE")

app = new_app()


@app.command(
    epilog=examples(
        "numalign hosts",
        "numalign hosts worker-0 worker-1",
        "numalign hosts --context production -o json",
    )
)
@unfold
def hosts(
    *,
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", show_default=False, help="Only these hosts."),
    ] = None,
    output: Annotated[str, output_option(*FORMATS)] = "table",
    published: Annotated[
        bool, typer.Option("--published", help="Exit with 1 if a host publishes nothing.")
    ] = False,
    cluster: ClusterOptions,
) -> int:
    """Show the hosts of a cluster by NUMA node, with what is free.

    The line with "largest" is the largest container that the host would admit now: its managers
    are asked, where it publishes its placement. Where it does not, the line says how much of each
    resource is free for one, counted in one NUMA node where the policy asks for that.
    """
    from numalign.apps.cluster_view.views import host_records
    from numalign.cli.cluster.client import read_cluster
    from numalign.core.errors import ConfigError

    found = read_cluster(cluster, with_pods=True)
    known = {host.name for host in found.hosts} | found.topologies.keys()
    for name in names or ():
        if name not in known:
            raise ConfigError(f"found no host {name!r} in the cluster. See 'numalign hosts'.")
    records = host_records(names or known, found.topologies, found.pods_by_host())
    out = Output.of(ctx)
    if output != "table":
        out.data(output, records)
    else:
        from numalign.apps.render.columns import columns

        rows = [row for record in records for row in _rows(record)]
        out.lines(columns(HEAD, rows, width=out.table_width, flexible=(6,), right=(3,), prose=(6,)))
    is_silent = not records or any(not record["published"] for record in records)
    return 1 if published and is_silent else 0


def _rows(record: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    from numalign.apps.cluster_view.views import amount

    name = record["name"]
    if not record["published"]:
        yield name, "-", "-", "-", "-", "-", "publishes nothing: run 'numalign export' there"
        return
    head = (name, record["policy"], record["scope"])
    for node in record["nodes"]:
        free = {
            name: f"{amount(name, own['available'])} of {amount(name, own['allocatable'])}"
            for name, own in node["resources"].items()
        }
        others = ", ".join(
            f"{name} {text}" for name, text in free.items() if name not in {"cpu", "memory"}
        )
        yield *head, str(node["id"]), free.get("cpu", "-"), free.get("memory", "-"), others
        head = ("", "", "")
    most = {name: amount(name, value) for name, value in record["largest"].items()}
    others = ", ".join(
        f"{name} {text}" for name, text in most.items() if name not in {"cpu", "memory"}
    )
    largest = "largest" if record["nodes"] else "none"
    if record["isProven"] and not most:
        yield *head, largest, "nothing", "", ""
        return
    if not record["isProven"] and record["nodes"]:
        others = "; ".join(filter(None, (others, "(counted)")))
    yield *head, largest, most.get("cpu", "-"), most.get("memory", "-"), others
