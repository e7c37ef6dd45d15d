"""``numalign redeploy``: clean up after refused pods and keep new ones from the same fate."""

# ruff: noqa: PLC0415 - a command loads what it needs when it runs
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from numalign.cli.app import examples, new_app
from numalign.cli.options import KubeconfigOption, ProbesOption, optional
from numalign.core.errors import ConfigError

if TYPE_CHECKING:
    from numalign.apps.redeploy.model import Rules

LISTEN_DEFAULT: Final = "127.0.0.1:8424"

app = new_app()


@app.command(
    epilog=examples(
        "numalign redeploy --dry-run",
        "numalign redeploy --reason TopologyAffinityError --reason UnexpectedAdmissionError",
        "numalign redeploy --grace 300 --keep 3 --recreate-bare",
    )
)
def redeploy(  # noqa: PLR0913, PLR0917 - one parameter for each option
    reason: Annotated[
        list[str] | None,
        optional(
            "--reason",
            metavar="REASON",
            help="Refusals to act on; repeat. Without it TopologyAffinityError alone.",
        ),
    ] = None,
    leave_alone: Annotated[
        list[str] | None,
        optional(
            "--leave-alone",
            metavar="NAMESPACE",
            help="Never touch pods of this namespace; repeat. kube-system never is.",
        ),
    ] = None,
    grace: Annotated[
        float, typer.Option("--grace", help="Seconds that a refused pod is left to be looked at.")
    ] = 30.0,
    keep: Annotated[
        int, typer.Option("--keep", help="Newest refused pods per ReplicaSet to leave for longer.")
    ] = 1,
    avoid: Annotated[
        float, typer.Option("--avoid", help="Seconds to avoid a host at first; then doubled.")
    ] = 30.0,
    avoid_max: Annotated[
        float, typer.Option("--avoid-max", help="Seconds to avoid a host at most.")
    ] = 600.0,
    wait: Annotated[
        float, typer.Option("--wait", help="Seconds that an owner waits at first; then doubled.")
    ] = 5.0,
    wait_max: Annotated[
        float, typer.Option("--wait-max", help="Seconds that an owner waits at most.")
    ] = 300.0,
    refusals_max: Annotated[
        int, typer.Option("--refusals-max", help="Refusals per owner before we give up a while.")
    ] = 5,
    window: Annotated[
        float, typer.Option("--window", help="Seconds in which those refusals are counted.")
    ] = 600.0,
    deletions: Annotated[
        float, typer.Option("--deletions-per-minute", help="In the whole cluster.")
    ] = 120.0,
    recreate_bare: Annotated[
        bool,
        typer.Option(
            "--recreate-bare",
            help="Make refused pods without an owner again; otherwise only those with the "
            "annotation numalign.io/recreate=true.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and change nothing.")
    ] = False,
    leader_elect: Annotated[
        bool,
        typer.Option("--leader-elect/--no-leader-elect", help="Act only while holding the lease."),
    ] = True,
    kubeconfig: KubeconfigOption = None,
    listen: ProbesOption = LISTEN_DEFAULT,
) -> None:
    """Clean up after pods that kubelets refused, and end the storm.

    Deletes refused pods so that their controller makes new ones, and avoids the host for pods of
    the same shape for a while. New pods are held back by the scheduling gate numalign.io/redeploy;
    docs/reference/cluster.md says how they get it.
    """
    import asyncio

    from numalign.apps.redeploy.model import Rules
    from numalign.cli.daemon import address, configure_logs
    from numalign.core.cluster.refused_pods import TOPOLOGY_REASON

    rules = Rules(
        reasons=frozenset(reason or {TOPOLOGY_REASON}),
        namespaces_left_alone=frozenset({"kube-system", *(leave_alone or ())}),
        grace_seconds=grace,
        keep=keep,
        avoid_seconds=avoid,
        avoid_seconds_max=avoid_max,
        wait_seconds=wait,
        wait_seconds_max=wait_max,
        refusals_max=refusals_max,
        window_seconds=window,
        deletions_per_minute_max=deletions,
        recreates_bare=recreate_bare,
    )
    _check(rules)
    configure_logs()
    asyncio.run(
        _run(rules, kubeconfig, address(listen), is_dry_run=dry_run, is_electing=leader_elect)
    )


def _check(rules: Rules) -> None:
    from numalign.core.cluster.refused_pods import REASONS

    unknown = sorted(rules.reasons - REASONS)
    if unknown:
        raise ConfigError(
            f"--reason: found {unknown[0]!r}, expected one of {', '.join(sorted(REASONS))}"
        )
    for option, value, least in (
        ("--grace", rules.grace_seconds, 0),
        ("--keep", rules.keep, 0),
        ("--avoid", rules.avoid_seconds, 1),
        ("--avoid-max", rules.avoid_seconds_max, rules.avoid_seconds),
        ("--wait", rules.wait_seconds, 0.1),
        ("--wait-max", rules.wait_seconds_max, rules.wait_seconds),
        ("--refusals-max", rules.refusals_max, 1),
        ("--window", rules.window_seconds, 1),
        ("--deletions-per-minute", rules.deletions_per_minute_max, 1),
    ):
        if value < least:
            raise ConfigError(f"{option}: found {value:g}, expected {least:g} or more")


async def _run(
    rules: Rules,
    kubeconfig: Path | None,
    address: tuple[str, int] | None,
    *,
    is_dry_run: bool,
    is_electing: bool,
) -> None:
    from numalign.adapters.kubernetes.api_server import ApiServer
    from numalign.apps.redeploy.run import Redeployer
    from numalign.cli.daemon import until_stopped

    identity = f"{os.uname().nodename}_{os.getpid()}" if is_electing else None
    async with ApiServer.connect(kubeconfig) as api:
        found = Redeployer(api, rules, is_dry_run=is_dry_run)
        work = found.run(identity=identity, namespace=api.namespace)
        await until_stopped(work, found, address)
