"""``numalign explain``: why is a pod admitted or refused, and what would make it fit?"""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.client.agent_options import AgentOptions
from numalign.cli.cluster import explain_pod
from numalign.cli.host import explain_on_agent
from numalign.cli.host.source_options import DeviceOption, HostOptions, OnOption
from numalign.cli.main import FAILED, OK
from numalign.cli.options import ClusterOptions, FilesOption, optional, unfold
from numalign.cli.output import Output, output_option

FORMATS: Final = ("text", "json", "yaml")

app = new_app()


@app.command(
    epilog=examples(
        "numalign explain -f pod.yaml",
        "numalign explain -f pod.yaml --on worker-3.tar.gz",
        "numalign explain pod db-0 -n shop",
        "numalign explain -f pod.yaml -o json | jq '.[0].changes[].text'",
    )
)
@unfold
def explain(  # noqa: PLR0913 - one parameter for each option
    *,
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[pod NAME]", show_default=False, help="A pod of an agent or a cluster."
        ),
    ] = None,
    files: FilesOption = None,  # type: ignore[assignment] # needed, unless a pod is named
    on: OnOption = None,
    sources: HostOptions,
    device: DeviceOption = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="With pod NAME: its namespace.")
    ] = "default",
    host: Annotated[
        str | None,
        optional(
            "--host", help="With pod NAME: ask this host, and not the pod's own or the closest one."
        ),
    ] = None,
    place: AgentOptions,
    cluster: ClusterOptions,
    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Search for changes that would help.")
    ] = True,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also the facts, the hints, the host and all changes; -v does the same.",
        ),
    ] = False,
    output: Annotated[str, output_option(*FORMATS)] = "text",
) -> int:
    """Say why pods are admitted or refused, and what would help.

    The cause first: a request is named only if the host would decide otherwise without it. Then
    the three best changes, each of them tried: of the pod, of other pods, of the host.
    Several pods are asked in order, each on the host as those before it left it; replicas with
    the same answer are told together. Exit code 0 if all are admitted, 1 if one is not, 2 for bad
    input.

    'pod NAME' asks the agent that --socket or --server names, or the cluster of --kubeconfig,
    --context or --host; without any of these, the agent of this host if one runs, else the cluster.
    """
    details = details or ctx.find_root().obj.verbosity > 0
    if what:

        def live(name: str) -> dict[str, Any]:
            if explain_on_agent.asks_agent(place, cluster, host):
                return explain_on_agent.agent_answer(name, namespace, place, search=search)
            return explain_pod.live_answer(name, namespace, host, cluster, search=search)

        return _live(Output.of(ctx), output, what, live, details=details)
    if not files:
        raise typer.BadParameter("give a manifest with -f, or 'pod NAME' for a pod of a cluster")
    from numalign.apps.snapshots import explaining
    from numalign.cli import manifests
    from numalign.cli.host.search_progress import SearchProgress

    out = Output.of(ctx)
    records = manifests.read_workloads(files)
    found = sources.loaded(on, device)
    with SearchProgress() as progress:
        answers = list(
            explaining.answers(found.snapshot, records, going=progress.going, search=search)
        )
    _show(out, output, answers, details=details)
    return OK if all(answer["admitted"] for answer in answers) else FAILED


def _live(
    out: Output,
    output: str,
    what: list[str],
    answer_of: Callable[[str], dict[str, Any]],
    *,
    details: bool,
) -> int:
    what = what[0].split("/") if len(what) == 1 else what
    if len(what) != 2 or what[0] not in {"pod", "pods", "po"}:
        raise typer.BadParameter(f"found {' '.join(what)!r}, expected 'pod NAME'")
    answer = answer_of(what[1])
    if output == "text":
        from numalign.apps.render.text import Tone, line

        out.lines([line(f"{what[1]}: {answer['status']}", Tone.TITLE)])
        out.lines([line(f"On {answer['host']}, as it is now:", Tone.DIM)])
    _show(out, output, [answer], details=details)
    return OK if answer["admitted"] else FAILED


def _show(out: Output, output: str, answers: list[dict[str, Any]], *, details: bool) -> None:
    if output != "text":
        out.data(output, answers)
        return
    from numalign.apps.render.explanation import grouped, render
    from numalign.apps.render.text import Tone, line

    groups = [("", [one]) for one in answers] if details else list(grouped(answers))
    lines_above = False
    if len(answers) > 1 and not all(together for together, _ in groups):
        admitted = sum(answer["admitted"] for answer in answers)
        out.lines([line(f"{admitted} of {len(answers)} pods are admitted.", Tone.TITLE)])
        lines_above = True
    for together, group in groups:
        if lines_above:
            out.lines([line("")])
        lines_above = True
        if together:
            out.lines([line(together, Tone.TITLE)])
        if not together or not group[0]["admitted"]:
            out.lines(render(group[0], width=out.width, details=details))
