"""The process behind ``numalign scheduler``: watches, decisions and HTTP in one event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.scheduler import run
from numalign.apps.scheduler.driver import Scheduler
from numalign.apps.scheduler.model import State
from numalign.cli.cluster.scheduler import Asked
from numalign.cli.daemon import address, all_until_stopped, configure_logs
from numalign.cli.options import ClusterOptions
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.cluster.scheduling.fragmentation import Packing
from numalign.core.errors import ConfigError
from numalign.web import extender, probes
from numalign.web.serving.tls import tls_of

LEVELS: Final = ("exact", "upstream")
NO_PACKING: Final = "none"


def run_scheduler(asked: Asked, cluster: ClusterOptions) -> int:
    """Runs a scheduler until it is told to stop; the exit code."""
    if asked.is_extender == asked.is_standalone:
        found = "both" if asked.is_extender else "neither"
        raise ConfigError(f"found {found} of --extender and --standalone, expected one of them")
    configure_logs()
    asyncio.run(_run(asked, cluster))
    return 0


def fleet_of(
    level: str, strategy: str, packing: str = NO_PACKING, *, waits_for_publication: bool = False
) -> Fleet:
    """The fleet that decides about NUMA, by the words of the command line."""
    _check("--level", level, LEVELS)
    _check("--strategy", strategy, [one.value for one in Strategy])
    _check("--packing", packing, [NO_PACKING, *(one.value for one in Packing)])
    return Fleet(
        is_exact=level == "exact",
        strategy=Strategy(strategy),
        pack=None if packing == NO_PACKING else Packing(packing),
        waits_for_publication=waits_for_publication,
    )


def _check(option: str, found: str, known: Sequence[str]) -> None:
    if found not in known:
        raise ConfigError(f"{option}: found {found!r}, expected one of {', '.join(known)}")


async def _run(asked: Asked, cluster: ClusterOptions) -> None:
    tls = tls_of(asked.tls_cert, asked.tls_key, asked.tls_client_ca)
    verbs = address(asked.listen)
    others = address(asked.probes_listen, option="--probes-listen")
    async with ApiServer.connect(cluster.kubeconfig, context=cluster.context) as api:
        state = State(
            fleet_of(
                asked.level,
                asked.strategy,
                asked.packing,
                waits_for_publication=asked.waits_for_publication,
            ),
            "" if asked.is_extender else asked.scheduler_name,
            is_extender=asked.is_extender,
            is_strict=asked.is_strict,
            score_max=asked.score_max,
        )
        scheduler = Scheduler(api, state)
        is_electing = asked.is_standalone and asked.is_electing
        works = run.works(api, scheduler, asked.lease if is_electing else None)
        if verbs is not None and asked.is_extender:
            works.append(
                extender.serve(
                    scheduler,
                    verbs,
                    tls=tls,
                    allowed_hosts=asked.allowed_hosts or (),
                    on_started=_say,
                )
            )
        elif verbs is not None:
            works.append(probes.serve(scheduler, verbs, on_started=_say))
        if others is not None:
            works.append(probes.serve(scheduler, others, on_started=_say))
        await all_until_stopped(works)


def _say(where: str) -> None:
    print(f"The scheduler listens on {where}", file=sys.stderr, flush=True)
