"""``numalign withdraw``: give a cluster back when numalign is taken out of it."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

from typing import Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import ClusterOptions, unfold
from numalign.cli.output import Output

SETTLE_SECONDS: Final = 5.0
SECONDS_MAX: Final = 180.0

app = new_app()


@app.command(epilog=examples("numalign withdraw --dry-run", "numalign withdraw --taints-only"))
@unfold
def withdraw(
    *,
    ctx: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which pods and hosts it is about.")
    ] = False,
    taints_only: Annotated[
        bool,
        typer.Option("--taints-only", help="Leave gates alone: only the NRI plugin is taken out."),
    ] = False,
    settle: Annotated[
        float,
        typer.Option(
            "--settle", min=0, metavar="SECONDS", help="How long nothing more may be found."
        ),
    ] = SETTLE_SECONDS,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=1, metavar="SECONDS", help="When to give up."),
    ] = SECONDS_MAX,
    cluster: ClusterOptions,
) -> int:
    """Open gates and take off taints, so that pods go on without us.

    For when scheduler, redeploy and NRI plugin are gone from a cluster, together with the policies
    that put gates on new pods. 'helm uninstall' runs it. Pods are then placed as the cluster's own
    scheduler places them.
    """
    import asyncio

    from numalign.adapters.kubernetes.api_server import ApiServer
    from numalign.apps.withdrawal import Withdrawn
    from numalign.apps.withdrawal import withdraw as withdrawn

    out = Output.of(ctx)

    async def run() -> Withdrawn:
        async with ApiServer.connect(cluster.kubeconfig, context=cluster.context) as api:
            return await withdrawn(
                api,
                lambda line: out.text(f"{line}\n"),
                settle_seconds=settle,
                seconds_max=timeout,
                opens_gates=not taints_only,
                is_dry_run=dry_run,
            )

    done = asyncio.run(run())
    would = "would be " if dry_run else ""
    out.text(f"{done.gates} pods {would}let go, {done.taints} taints {would}removed\n")
    if not done.is_complete:
        out.text(f"new ones keep coming after {timeout:g} s: is a part of numalign still there?\n")
    return 0 if done.is_complete else 1
