"""``numalign defrag``: which pods to move so that others fit, sit closer, or less is wasted."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.main import FAILED, OK
from numalign.cli.options import ClusterOptions, optional, unfold
from numalign.cli.output import Output, output_option
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.defrag.planning import DefragPlan, Question, Rules
    from numalign.cli.cluster.client import Cluster
    from numalign.wire.kubernetes.scheduling import ClusterPod

FORMATS: Final = ("table", "json", "yaml", "commands")
HEAD: Final = ("STEP", "POD", "FROM", "TO")
MOVES_DEFAULT: Final = 10

app = new_app()


@app.command(
    epilog=examples(
        "numalign defrag -f big-pod.yaml",
        "numalign defrag --shape cpu=32,memory=128Gi --from fleet.tar.gz",
        "numalign defrag --align -l tier!=critical -o commands",
        "numalign defrag --moves 20 --execute",
    )
)
@unfold
def defrag(  # noqa: PLR0913 - one parameter for each option
    *,
    ctx: typer.Context,
    files: Annotated[
        list[str] | None,
        optional(
            "--filename",
            "-f",
            metavar="FILE|DIR|-",
            help="Pods that are to fit, all replicas of a workload.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        optional("--shape", metavar="AMOUNTS", help="A shape that is to fit. Repeat for a gang."),
    ] = None,
    align: Annotated[
        bool, typer.Option("--align", help="Move pods that sit on too many NUMA nodes.")
    ] = False,
    moves: Annotated[
        int | None,
        optional("--moves", min=1, max=1000, help="Lower F_numa with at most so many moves."),
    ] = None,
    source: Annotated[
        Path | None,
        optional("--from", metavar="FILE", help="A capture in place of the live cluster."),
    ] = None,
    selector: Annotated[
        str | None, optional("--selector", "-l", help="Move only pods with these labels.")
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        optional("--namespace", "-n", help="Move only pods of this namespace. Repeat for more."),
    ] = None,
    priority_max: Annotated[
        int | None, optional("--priority-max", help="Move no pod of a higher priority.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Carry the plan out; stops at the first surprise.")
    ] = False,
    output: Annotated[str, output_option(*FORMATS)] = "table",
    cluster: ClusterOptions,
) -> int:
    """Plan the moves of pods that let others in, align or waste less.

    The goal is that pods fit (-f, --shape), that none sits on more NUMA nodes than it needs
    (--align), or a lower F_numa (--moves; 10 without any goal). Only pods that a controller
    replaces are moved, and none whose disruption budget is used up. Every step is proven by the
    managers of both hosts, in this order: a pod moves only when its new place is free. Up to two
    moves the plan is the shortest there is; longer ones come with a lower bound. The exit code is 1
    if a goal cannot be reached, or if --execute met a surprise.
    """
    from numalign.cli.cluster.client import from_capture, read_cluster
    from numalign.cli.fleet.capacity import read_wanted

    if execute and source is not None:
        raise ConfigError("--execute: a capture cannot be changed; leave out --from.")
    if sum((bool(files or shape), align, moves is not None)) > 1:
        raise ConfigError("expected one goal: pods (-f, --shape), --align or --moves")
    found = from_capture(source) if source else read_cluster(cluster, with_pods=True)
    rules = _rules(selector, namespaces, priority_max, cluster, is_live=source is None)
    wanted = read_wanted(shape or [], files or [])
    question = _question(found, rules, wanted)
    plan = _plan(question, found, wanted, align=align, moves=moves)
    out = Output.of(ctx)
    _show(out, plan, output)
    if execute and plan.moves:
        return _execute(out, plan, cluster)
    return FAILED if plan.unresolved else OK


def _rules(
    selector: str | None,
    namespaces: list[str] | None,
    priority_max: int | None,
    cluster: ClusterOptions,
    *,
    is_live: bool,
) -> Rules:
    from numalign.apps.defrag.planning import Rules
    from numalign.cli.client.choose.labels import selector_of
    from numalign.cli.cluster.client import read_budgets

    chosen = selector_of(selector).matches if selector else (lambda _: True)
    budgets = read_budgets(cluster) if is_live else ()
    return Rules(chosen, frozenset(namespaces or ()), priority_max, tuple(budgets))


def _question(found: Cluster, rules: Rules, wanted: list[ClusterPod]) -> Question:
    from numalign.apps.cluster_view.fleet import fleet_hosts
    from numalign.apps.defrag.planning import question_of

    hosts, silent = fleet_hosts(found.hosts, found.topologies, found.pods_by_host())
    closed = {h.name for h in found.hosts if h.is_unschedulable or not h.is_ready}
    fleet = [host for host in hosts if host.name not in closed]
    if not fleet:
        raise ConfigError(
            f"none of {len(silent) + len(hosts)} hosts publishes its placement and takes pods. "
            "Run 'numalign export' on them."
        )
    return question_of(fleet, found.pods, rules, found.hosts, wanted)


def _plan(
    question: Question,
    found: Cluster,
    wanted: list[ClusterPod],
    *,
    align: bool,
    moves: int | None,
) -> DefragPlan:
    from numalign.apps.defrag import planning

    if align:
        return planning.align(question)
    if wanted:
        return planning.let_in(question, [one.pod for one in wanted])
    mix = planning.running_mix(found.pods)
    if not mix:
        raise ConfigError("no Guaranteed pod runs there, so nothing is known of what is expected")
    return planning.lower(question, mix, moves or MOVES_DEFAULT)


def _show(out: Output, plan: DefragPlan, output: str) -> None:
    from numalign.apps.defrag.planning import commands
    from numalign.apps.render.columns import columns
    from numalign.apps.render.text import Tone, line

    if output in {"json", "yaml"}:
        out.data(output, plan.record())
        return
    if output == "commands":
        out.text("\n".join(commands(plan)) + "\n")
        return
    out.lines([line(f"{plan.goal}: {_count(len(plan.moves))}", Tone.TITLE)])
    if plan.moves:
        rows = [(str(i), m.name, m.origin, m.target) for i, m in enumerate(plan.moves, 1)]
        out.lines(columns(HEAD, rows, width=out.table_width, right=(0,)))
    elif not plan.targets and not plan.unresolved:
        out.text("nothing is to be moved\n")
    for name, host in plan.targets.items():
        out.text(f"then {name} fits on {host}\n")
    for name in plan.unresolved:
        out.text(f"no way was found for {name}\n")
    if plan.before is not None and plan.after is not None:
        out.text(
            f"F_numa (idle CPUs of no use to the pods that run now): {plan.before:.1f} before, "
            f"{plan.after:.1f} after; no plan of so many moves gets below {plan.least:.1f}\n"
        )
    if plan.lower_bound is not None and plan.moves:
        if plan.lower_bound >= len(plan.moves):
            out.text("no plan has fewer moves\n")
        else:
            out.text(f"every plan has at least {_count(plan.lower_bound)}\n")
    if plan.stays:
        stays = ", ".join(f"{count} ({why})" for why, count in plan.stays.items())
        out.text(f"pods that may not move: {stays}\n")


def _count(moves: int) -> str:
    return "1 move" if moves == 1 else f"{moves} moves"


def _execute(out: Output, plan: DefragPlan, cluster: ClusterOptions) -> int:
    import asyncio

    from numalign.adapters.kubernetes.api_server import ApiServer
    from numalign.apps.defrag.carrying_out import carry_out

    async def run() -> int:
        done = 0
        async with ApiServer.connect(cluster.kubeconfig, context=cluster.context) as api:
            async for step in carry_out(api, plan.moves):
                if step.surprise is not None:
                    left = len(plan.moves) - done
                    out.text(f"stopped at {step.move.name}: {step.surprise}\n")
                    out.text(f"{_count(done)} made, {_count(left)} left; plan anew before more\n")
                    return FAILED
                done += 1
                out.text(
                    f"{done}/{len(plan.moves)}: {step.move.name} is ready on {step.move.target}\n"
                )
        return FAILED if plan.unresolved else OK

    return asyncio.run(run())
