"""The API server's part in making room: follows budgets and groups, nominates and evicts.

Decides nothing: each function carries out one effect and tells what came of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from numalign.adapters.kubernetes.api_server import ApiServer, Changed, Gone, Listed, Seen
from numalign.apps.scheduler.room import events as room_events
from numalign.core.cluster.between_pods.gangs import GroupMinimum
from numalign.core.cluster.between_pods.victims import Budget
from numalign.core.errors import ApiError, WireError
from numalign.wire.kubernetes import room
from numalign.wire.kubernetes.api import PODS, Kind

UNSERVED_SECONDS: Final = 600.0  # until the server is asked again for a kind that it has not

log = structlog.get_logger("numalign.scheduler")


async def nominate(api: ApiServer, effect: room_events.Nominate) -> room_events.NominationWritten:
    pod, error = effect.pod.pod, ""
    try:
        await api.patch(
            PODS,
            pod.name,
            room.nominated(pod, effect.host),
            namespace=pod.namespace,
            part="status",
        )
    except (ApiError, WireError) as found:
        error = str(found)
        log.warning("nomination_failed", pod=f"{pod.namespace}/{pod.name}", error=error)
    return room_events.NominationWritten(pod.uid, effect.host, error, time.monotonic())


async def evict(api: ApiServer, effect: room_events.Evict) -> room_events.EvictionEnded:
    pod = effect.victim.pod
    outcome, error = room_events.EvictionOutcome.ACCEPTED, ""
    try:
        await api.create_part(PODS, pod.name, "eviction", room.eviction(pod), pod.namespace)
        log.info("pod_evicted", pod=f"{pod.namespace}/{pod.name}", host=effect.victim.host)
    except ApiError as found:
        error = str(found)
        # 409: another pod has the name by now.
        is_gone = found.code in (404, 409)
        outcome = room_events.EvictionOutcome.GONE if is_gone else outcome.REFUSED
    except WireError as found:
        outcome, error = room_events.EvictionOutcome.REFUSED, str(found)
    if outcome is room_events.EvictionOutcome.REFUSED:
        log.warning("eviction_refused", pod=f"{pod.namespace}/{pod.name}", error=error)
    return room_events.EvictionEnded(effect.uid, pod.uid, outcome, error, time.monotonic())


async def served_kind(api: ApiServer) -> Kind | None:
    """The newest kind of PodGroup that the server has and we may list; None: it has none."""
    for kind in room.GROUPS:
        try:
            await api.listed(kind)
        except ApiError as error:
            if error.code not in (404, 403):
                raise
            if error.code == 403:
                log.warning("groups_not_followed", error=str(error))
            continue
        return kind
    return None


async def served_groups(api: ApiServer, handle: Callable[[room_events.GroupEvent], None]) -> Kind:
    """Waits until the server has PodGroups, and tells that it has none before."""
    while True:
        try:
            kind = await served_kind(api)
        except (ApiError, WireError) as error:
            log.warning("watch_interrupted", kind="podgroups", error=str(error))
            await asyncio.sleep(1.0)
            continue
        if kind is not None:
            return kind
        handle(room_events.GroupsListed((), time.monotonic()))
        await asyncio.sleep(UNSERVED_SECONDS)


def budget_event(seen: Seen[Budget], now: float) -> room_events.BudgetEvent | None:
    match seen:
        case Listed(items):
            return room_events.BudgetsListed(items, now)
        case Changed(item):
            return room_events.BudgetSeen(item, now)
        case Gone(namespace, name, _):
            return room_events.BudgetGone(f"{namespace}/{name}", now)
        case _:
            return None


def group_event(seen: Seen[GroupMinimum], now: float) -> room_events.GroupEvent | None:
    match seen:
        case Listed(items):
            return room_events.GroupsListed(items, now)
        case Changed(item):
            return room_events.GroupSeen(item, now)
        case Gone(namespace, name, _):
            return room_events.GroupGone(f"{namespace}/{name}", now)
        case _:
            return None
