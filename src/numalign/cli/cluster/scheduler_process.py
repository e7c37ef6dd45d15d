"""The process behind ``numalign scheduler``: watches, decisions and HTTP in one event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.adapters.local.shapes import read_mix
from numalign.apps.scheduler import run
from numalign.apps.scheduler.driver import Scheduler
from numalign.apps.scheduler.model import PrePlacing, State
from numalign.cli.cluster.scheduler import Asked
from numalign.cli.daemon import address, all_until_stopped, configure_logs
from numalign.cli.options import ClusterOptions
from numalign.core.cluster.nrt_match.match import Strategy
from numalign.core.cluster.scheduling.fleet import Fleet
from numalign.core.cluster.scheduling.fragmentation import Packing
from numalign.core.errors import ConfigError
from numalign.core.fleet.growth import Growth
from numalign.core.fleet.measures import Mix
from numalign.web import extender, probes
from numalign.web.fleet.beside import serve_fleet
from numalign.web.fleet.hub import hub_of
from numalign.web.serving.tls import tls_of

LEVELS: Final = ("exact", "upstream")
PAGE: Final = "127.0.0.1:8426"
NO_PACKING: Final = "none"


def run_scheduler(asked: Asked, cluster: ClusterOptions) -> int:
    """Runs a scheduler until it is told to stop; the exit code."""
    _check_mode(asked)
    configure_logs()
    asyncio.run(_run(asked, cluster))
    return 0


def _check_mode(asked: Asked) -> None:
    modes = {
        "--pre-place": asked.is_pre_placing,
        "--extender": asked.is_extender,
        "--standalone": asked.is_standalone,
    }
    found = [name for name, is_wanted in modes.items() if is_wanted]
    if len(found) != 1:
        raise ConfigError(
            f"found {' and '.join(found) or 'none'} of {', '.join(modes)}, expected one of them"
        )
    _check_with(asked)


def _check_with(asked: Asked) -> None:
    """Options that mean something in one mode only."""
    if asked.open_gate_after is not None and not asked.is_pre_placing:
        raise ConfigError("--open-gate-after: found it without --pre-place, expected it with that")
    if asked.is_asked_thrice and not asked.is_extender:
        raise ConfigError("--three-calls: found it without --extender, expected it with that")


def fleet_of(
    level: str,
    strategy: str,
    packing: str = NO_PACKING,
    *,
    mix: Mix = (),
    waits_for_publication: bool = False,
) -> Fleet:
    """The fleet that decides about NUMA, by the words of the command line."""
    _check("--level", level, LEVELS)
    _check("--strategy", strategy, [one.value for one in Strategy])
    _check("--packing", packing, [NO_PACKING, *(one.value for one in Packing)])
    if packing == Packing.FRAGMENTATION and not mix:
        raise ConfigError(
            "--packing fragmentation: found no reference mix, expected a file of shapes with "
            "--shapes: it says which pods are expected"
        )
    return Fleet(
        is_exact=level == "exact",
        strategy=Strategy(strategy),
        pack=None if packing == NO_PACKING else Packing(packing),
        growth=Growth(mix).of_states if mix else None,
        waits_for_publication=waits_for_publication,
    )


def _check(option: str, found: str, known: Sequence[str]) -> None:
    if found not in known:
        raise ConfigError(f"{option}: found {found!r}, expected one of {', '.join(known)}")


async def _run(asked: Asked, cluster: ClusterOptions) -> None:
    tls = tls_of(asked.tls_cert, asked.tls_key, asked.tls_client_ca)
    verbs = address(asked.listen)
    others = address(asked.probes_listen, option="--probes-listen")
    mix = read_mix(asked.shapes)
    async with ApiServer.connect(cluster.kubeconfig, context=cluster.context) as api:
        fleet = fleet_of(
            asked.level,
            asked.strategy,
            asked.packing,
            mix=mix,
            waits_for_publication=asked.waits_for_publication,
        )
        state = State(
            fleet,
            "" if asked.is_extender else asked.scheduler_name,
            is_extender=asked.is_extender,
            makes_room=asked.makes_room,
            is_reserving=asked.is_extender and not asked.is_asked_thrice,
            pre=PrePlacing(asked.open_gate_after) if asked.is_pre_placing else None,
            is_strict=asked.is_strict,
            score_max=asked.score_max,
        )
        scheduler = Scheduler(api, state)
        if mix:
            scheduler.metrics.follow_capacity(mix, fleet.frame_and_state)
        is_electing = not asked.is_extender and asked.is_electing
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
        page = address(PAGE if asked.page_listen is None else asked.page_listen)
        if page is not None:
            hub = hub_of(scheduler, fleet, mix, kind="scheduler")
            is_asked_for = asked.page_listen is not None
            works.append(serve_fleet(hub, page, is_asked_for=is_asked_for, on_started=_say_page))
        await all_until_stopped(works)


def _say_page(where: str) -> None:
    print(f"All hosts in a browser: {where}/", file=sys.stderr, flush=True)


def _say(where: str) -> None:
    print(f"The scheduler listens on {where}", file=sys.stderr, flush=True)
