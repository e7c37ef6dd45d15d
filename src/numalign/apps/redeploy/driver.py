"""Carries out what the step wants, and feeds it what the cluster says. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import Callable
from typing import Final, TypeVar, assert_never

import structlog

from numalign.adapters.kubernetes.api_server import (
    ApiServer,
    Changed,
    Gone,
    Listed,
    Seen,
    Unreadable,
)
from numalign.adapters.kubernetes.in_order import InOrder
from numalign.apps.redeploy import events
from numalign.apps.redeploy.metrics import RedeployMetrics
from numalign.apps.redeploy.model import RedeployState, Rules
from numalign.apps.redeploy.step import step
from numalign.core.cluster.refused_pods import SeenPod
from numalign.core.errors import ApiError, WireError, unexpected
from numalign.wire.kubernetes.api import EVENTS, HOSTS, PODS, Kind, event_body, head_of
from numalign.wire.kubernetes.redeploy_pods import WatchedPod, gate_patch, recreated, watched_pod

TICK_SECONDS: Final = 1.0
EFFECTS_MAX: Final = 8  # at the same time
COMPONENT: Final = "numalign-redeploy"
T = TypeVar("T")

log = structlog.get_logger("numalign.redeploy")


class Driver:
    """One turn of a replica as the one that acts, from a list of the cluster on."""

    def __init__(
        self, api: ApiServer, rules: Rules, metrics: RedeployMetrics, *, is_dry_run: bool
    ) -> None:
        self.state = RedeployState()
        self._api = api
        self._rules = rules
        self._metrics = metrics
        self._is_dry_run = is_dry_run
        self._requests = InOrder(EFFECTS_MAX)
        self._group = asyncio.TaskGroup()

    async def run(self) -> None:
        """Follows the cluster and acts until cancelled."""
        async with self._group as group:
            group.create_task(self._follow(PODS, watched_pod, _pod_event))
            group.create_task(self._follow(HOSTS, _host_name, _host_event))
            group.create_task(self._tick())

    def handle(self, event: events.Event) -> None:
        """What one event leads to; one that nobody foresaw changes nothing and ends nothing."""
        try:
            self.state, effects = step(self._rules, self.state, event)
        except Exception:
            log.exception("event_not_handled", what=type(event).__name__)
            return
        for effect in effects:
            self._start(effect)

    # Events.

    async def _follow(
        self,
        kind: Kind,
        decode: Callable[[bytes], T],
        event_of: Callable[[Seen[T], float], events.Event | None],
    ) -> None:
        def interrupted(error: ApiError) -> None:
            self._metrics.watch_troubles.inc()
            log.warning("cluster_not_followed", error=str(error))
            self.handle(events.WatchInterrupted(kind.plural, str(error), time.time()))

        seen = self._api.watched(kind, decode, on_trouble=interrupted)
        async with contextlib.aclosing(seen):
            async for what in seen:
                event = event_of(what, time.time())
                if event is not None:
                    self.handle(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.handle(events.Tick(time.time()))

    # Effects.

    def _start(self, effect: events.Effect) -> None:
        pod = effect.pod
        match effect:
            case events.CountRefusal():
                self._metrics.refusals.labels(pod.host, pod.reason).inc()
                log.info("refused", pod=_shown(pod), host=pod.host, reason=pod.reason)
            case events.CountGiveUp():
                self._metrics.give_ups.inc()
            case _:
                self._group.create_task(self._carry_out(effect))

    async def _carry_out(self, effect: events.Change) -> None:
        pod = effect.pod
        action = _ACTIONS[type(effect)]
        kind = pod.owner.kind if pod.owner is not None else ""
        result = "dry-run" if self._is_dry_run else "done"
        try:
            async with self._requests.turn(pod.owner_key):
                if not self._is_dry_run:
                    await self._request(effect)
        except (ApiError, WireError) as error:
            result = "failed"
            log.warning(action, pod=_shown(pod), error=str(error))
            self.handle(events.EffectFailed(effect, time.time()))
        except Exception as error:
            result = "failed"
            log.exception(action, pod=_shown(pod), error=unexpected(error))
            self.handle(events.EffectFailed(effect, time.time()))
        else:
            log.info(action, pod=_shown(pod), dry_run=self._is_dry_run, **_details(effect))
        self._metrics.actions.labels(action, kind, result).inc()

    async def _request(self, effect: events.Change) -> None:
        match effect:
            case events.DeletePod(pod):
                await self._delete(pod)
            case events.OpenGate(pod, avoids):
                await self._open(pod, avoids)
            case events.RecreatePod(pod, avoids):
                await self._recreate(pod, avoids)
            case events.WriteEvent():
                await self._write_event(effect)
            case _:
                assert_never(effect)

    async def _delete(self, pod: SeenPod) -> None:
        await self._api.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)

    async def _open(self, pod: SeenPod, avoids: tuple[str, ...]) -> None:
        data = await self._api.get(PODS, pod.name, pod.namespace)
        patch = None if data is None else gate_patch(data, pod.uid, avoids)
        if patch is not None:
            await self._api.patch(PODS, pod.name, patch, namespace=pod.namespace)

    async def _recreate(self, pod: SeenPod, avoids: tuple[str, ...]) -> None:
        data = await self._api.get(PODS, pod.name, pod.namespace)
        body = None if data is None else recreated(data, pod.uid, avoids)
        if body is None:
            return
        try:
            await self._api.create(PODS, body, pod.namespace)
        except ApiError as error:
            # Made the last time, before we could delete the old one.
            if error.code != 409:
                raise
        await self._delete(pod)

    async def _write_event(self, effect: events.WriteEvent) -> None:
        pod, owner = effect.pod, effect.pod.owner
        regarding = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        if effect.of_owner and owner is not None:
            regarding = {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
            }
        stamp = datetime.datetime.now(datetime.UTC)
        body = event_body(
            regarding={**regarding, "namespace": pod.namespace},
            namespace=pod.namespace,
            name=f"{regarding['name'][:200]}.{int(stamp.timestamp() * 1e6):x}",
            reason=effect.reason,
            note=effect.note,
            is_warning=True,
            component=COMPONENT,
            now=stamp.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        await self._api.create(EVENTS, body, pod.namespace)


def _pod_event(what: Seen[WatchedPod], now: float) -> events.Event | None:
    match what:
        case Listed(items):
            holding = frozenset(item.pod.uid for item in items if item.holds)
            return events.PodsListed(tuple(item.pod for item in items), now, holding)
        case Changed(item):
            return events.PodSeen(item.pod, now, item.holds)
        case Gone(_, _, uid):
            return events.PodGone(uid, now)
        case Unreadable(namespace, name, _, error):
            log.warning("pod_not_readable", pod=f"{namespace}/{name}", error=error)
            return None


def _host_name(data: bytes) -> str:
    return head_of(data).name


def _host_event(what: Seen[str], now: float) -> events.Event | None:
    match what:
        case Listed(items):
            return events.HostsListed(frozenset(items), now)
        case Changed(item):
            return events.HostSeen(item, now)
        case Gone(_, name, _):
            return events.HostGone(name, now)
        case Unreadable():
            return None


_ACTIONS: Final = {
    events.DeletePod: "delete",
    events.OpenGate: "open_gate",
    events.RecreatePod: "recreate",
    events.WriteEvent: "tell",
}


def _details(effect: events.Change) -> dict[str, str]:
    match effect:
        case events.DeletePod(_, why):
            return {"why": why}
        case events.OpenGate(_, avoids) | events.RecreatePod(_, avoids):
            return {"avoids": ",".join(avoids)}
        case events.WriteEvent(_, reason):
            return {"reason": reason}


def _shown(pod: SeenPod) -> str:
    return f"{pod.namespace}/{pod.name}"
