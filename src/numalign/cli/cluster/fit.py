"""``numalign fit``: which hosts of a cluster would take a pod, and why the others would not."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.main import FAILED, OK
from numalign.cli.options import ClusterOptions, FilesOption, unfold
from numalign.cli.output import Output, output_option

FORMATS: Final = ("table", "json", "yaml")
HEAD: Final = ("HOST", "FITS", "SCORE", "WHY NOT")

app = new_app()


@app.command(
    epilog=examples(
        "numalign fit -f pod.yaml",
        "numalign fit -f deployment.yaml --level upstream",
        "numalign fit -f pod.yaml -o json",
    )
)
@unfold
def fit(
    *,
    ctx: typer.Context,
    files: FilesOption,
    level: Annotated[
        str,
        typer.Option(help="exact: what each kubelet would decide; upstream: the common rules."),
    ] = "exact",
    output: Annotated[str, output_option(*FORMATS)] = "table",
    cluster: ClusterOptions,
) -> int:
    """Say which hosts of a cluster would take a pod, and why not.

    The exit code is 1 if no host would take one of the pods.
    """
    from numalign.apps.scheduler.fit import fit_records, state_of
    from numalign.cli.cluster.client import read_cluster
    from numalign.cli.cluster.scheduler_process import fleet_of
    from numalign.cli.manifests import texts
    from numalign.wire.kubernetes.scheduling import pods_of_manifest

    pods = [
        pod
        for place in files
        for source, data in texts(place)
        for pod in pods_of_manifest(data, source=source)
    ]
    known = read_cluster(cluster, with_pods=True)
    fleet = fleet_of(level, "LeastAllocated")
    state = state_of(fleet, known.hosts, known.topologies.values(), known.pods)
    found: list[dict[str, Any]] = [
        {"pod": pod.pod.name, "namespace": pod.pod.namespace, "hosts": fit_records(state, pod)}
        for pod in pods
    ]
    out = Output.of(ctx)
    if output != "table":
        out.data(output, found)
    else:
        from numalign.apps.render.columns import columns
        from numalign.apps.render.text import Tone, line

        for one in found:
            taking = sum(1 for record in one["hosts"] if record["fits"])
            title = f"{one['namespace']}/{one['pod']}: {taking} of {len(one['hosts'])} hosts"
            rows = [
                (
                    record["host"],
                    "yes" if record["fits"] else "no",
                    "-" if record["score"] is None else str(record["score"]),
                    record["why"] or "",
                )
                for record in one["hosts"]
            ]
            out.lines([line(title, Tone.TITLE)])
            out.lines(
                columns(HEAD, rows, width=out.table_width, flexible=(3,), right=(2,), prose=(3,))
            )
    return OK if all(any(r["fits"] for r in one["hosts"]) for one in found) else FAILED
