"""Drives the redeploy loop: watches the cluster, asks ``step``, carries out its effects."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncGenerator
from typing import Final

import structlog

from numalign.adapters.kubernetes.api_server import (
    ApiServer,
    Changed,
    Gone,
    Listed,
    Seen,
    Unreadable,
    merged,
)
from numalign.adapters.kubernetes.lease import Election
from numalign.apps.redeploy.metrics import RedeployMetrics
from numalign.core.cluster.redeploy import (
    DeletePod,
    Effect,
    EffectFailed,
    Event,
    HostFreed,
    HostsKnown,
    OpenGate,
    PodGone,
    PodSeen,
    PodsListed,
    RecreatePod,
    RedeployState,
    Refused,
    Rules,
    SeenPod,
    Tell,
    Tick,
    step,
)
from numalign.core.errors import ApiError
from numalign.wire.kubernetes.api import EVENTS, HOSTS, PODS, event_body, head_of
from numalign.wire.kubernetes.redeploy_pods import WatchedPod, gate_patch, recreated, watched_pod

TICK_SECONDS: Final = 1.0
EFFECTS_MAX: Final = 8  # at the same time
RETRY_SECONDS: Final = 5.0  # before an effect that failed is tried again
COMPONENT: Final = "numalign-redeploy"
LEASE: Final = "numalign-redeploy"

log = structlog.get_logger("numalign.redeploy")


class Redeployer:
    """One replica. With an election it acts only while it leads, and starts anew each time."""

    def __init__(self, api: ApiServer, rules: Rules, *, is_dry_run: bool = False) -> None:
        self._api = api
        self._rules = rules
        self._is_dry_run = is_dry_run
        self.metrics = RedeployMetrics()
        self.state = RedeployState()
        self._election: Election | None = None
        self._leads = asyncio.Event()
        self._lost = asyncio.Event()
        self._problem = "the cluster was not listed yet"
        self._placed: dict[str, str] = {}  # uid of a pod that holds something -> its host
        self._hosts: set[str] = set()
        self._failed: list[tuple[float, str]] = []  # when to try again, uid
        self._slots = asyncio.Semaphore(EFFECTS_MAX)
        self._under_way: set[asyncio.Task[None]] = set()

    def problems(self) -> list[str]:
        """Why it is not ready; a replica that waits for its turn is."""
        if self._election is not None and not self._election.is_leading:
            return [self._election.error] if self._election.error else []
        return [self._problem] if self._problem else []

    def metrics_text(self) -> bytes:
        """Prometheus' text format."""
        self.metrics.look(self.state)
        return self.metrics.text()

    async def run(self, *, identity: str | None, namespace: str, lease: str = LEASE) -> None:
        """Runs for ever; ``identity`` None: without an election, as the only replica."""
        if identity is None:
            self.metrics.leading.set(1)
            await self._act()
            return
        self._election = Election(
            self._api,
            namespace=namespace,
            name=lease,
            identity=identity,
            on_change=self._leadership,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._election.run())
            group.create_task(self._in_turns())

    def _leadership(self, leading: bool) -> None:  # noqa: FBT001 - as Election calls it
        log.info("leading" if leading else "not_leading")
        self.metrics.leading.set(1 if leading else 0)
        (self._leads if leading else self._lost).set()
        (self._lost if leading else self._leads).clear()

    async def _in_turns(self) -> None:
        while True:
            await self._leads.wait()
            acting = asyncio.create_task(self._act())
            lost = asyncio.create_task(self._lost.wait())
            try:
                await asyncio.wait([acting, lost], return_when=asyncio.FIRST_COMPLETED)
                if acting.done():
                    acting.result()
            finally:
                for task in (acting, lost):
                    task.cancel()
                await asyncio.gather(acting, lost, return_exceptions=True)

    # Events.

    async def _act(self) -> None:
        self.state = RedeployState()
        self._placed.clear()
        self._failed.clear()
        events = merged(self._pod_events(), self._host_events(), self._ticks())
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    self.state, effects = step(self._rules, self.state, event)
                    for effect in effects:
                        self._begin(effect)
        finally:
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _ticks(self) -> AsyncGenerator[Event, None]:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.time()
            due = [uid for at, uid in self._failed if at <= now]
            self._failed = [(at, uid) for at, uid in self._failed if at > now]
            for uid in due:
                yield EffectFailed(uid, now)
            yield Tick(now)

    async def _pod_events(self) -> AsyncGenerator[Event, None]:
        seen = self._api.watched(PODS, watched_pod, on_trouble=self._trouble)
        async with contextlib.aclosing(seen):
            async for what in seen:
                for event in self._events_of(what):
                    yield event

    def _events_of(self, what: Seen[WatchedPod]) -> list[Event]:
        now = time.time()
        match what:
            case Listed(items):
                self._problem = ""
                there = {item.pod.uid for item in items}
                left = {host for uid, host in self._placed.items() if uid not in there}
                self._placed = {i.pod.uid: i.pod.host for i in items if i.holds}
                freed: list[Event] = [HostFreed(host, now) for host in sorted(left)]
                return [PodsListed(tuple(item.pod for item in items), now), *freed]
            case Changed(item):
                uid, events = item.pod.uid, list[Event]([PodSeen(item.pod, now)])
                if item.holds:
                    self._placed[uid] = item.pod.host
                elif uid in self._placed:
                    events.append(HostFreed(self._placed.pop(uid), now))
                return events
            case Gone(_, _, uid):
                events = [PodGone(uid, now)]
                if uid in self._placed:
                    events.append(HostFreed(self._placed.pop(uid), now))
                return events
            case Unreadable(namespace, name, error):
                log.warning("pod_not_readable", pod=f"{namespace}/{name}", error=error)
                return []

    async def _host_events(self) -> AsyncGenerator[Event, None]:
        seen = self._api.watched(HOSTS, lambda data: head_of(data).name, on_trouble=self._trouble)
        async with contextlib.aclosing(seen):
            async for what in seen:
                before = frozenset(self._hosts)
                match what:
                    case Listed(items):
                        self._hosts = set(items)
                    case Changed(item):
                        self._hosts.add(item)
                    case Gone(_, name, _):
                        self._hosts.discard(name)
                    case Unreadable():
                        continue
                if before != self._hosts or isinstance(what, Listed):
                    yield HostsKnown(frozenset(self._hosts), time.time())

    def _trouble(self, error: ApiError) -> None:
        self.metrics.watch_troubles.inc()
        self._problem = str(error)
        log.warning("cluster_not_followed", error=str(error))

    # Effects.

    def _begin(self, effect: Effect) -> None:
        if isinstance(effect, Refused):
            pod = effect.pod
            self.metrics.refusals.labels(pod.host, pod.reason).inc()
            log.info("refused", pod=_shown(pod), host=pod.host, reason=pod.reason)
            return
        task = asyncio.create_task(self._carry_out(effect))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _carry_out(self, effect: DeletePod | OpenGate | RecreatePod | Tell) -> None:
        pod = effect.pod
        action = _ACTIONS[type(effect)]
        kind = pod.owner.kind if pod.owner is not None else ""
        result = "dry-run" if self._is_dry_run else "done"
        try:
            async with self._slots:
                if not self._is_dry_run:
                    await self._do(effect)
        except ApiError as error:
            result = "failed"
            log.warning(action, pod=_shown(pod), error=str(error))
            self._failed.append((time.time() + RETRY_SECONDS, pod.uid))
        else:
            log.info(action, pod=_shown(pod), dry_run=self._is_dry_run, **_details(effect))
        self.metrics.actions.labels(action, kind, result).inc()
        if isinstance(effect, Tell) and effect.reason == "TopologyRedeployGaveUp":
            self.metrics.give_ups.inc()

    async def _do(self, effect: DeletePod | OpenGate | RecreatePod | Tell) -> None:
        pod = effect.pod
        match effect:
            case DeletePod():
                await self._delete(pod)
            case OpenGate(_, avoids):
                await self._open(pod, avoids)
            case RecreatePod(_, avoids):
                await self._recreate(pod, avoids)
            case Tell():
                await self._tell(effect)

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

    async def _tell(self, effect: Tell) -> None:
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


_ACTIONS: Final = {
    DeletePod: "delete",
    OpenGate: "open_gate",
    RecreatePod: "recreate",
    Tell: "tell",
}


def _details(effect: DeletePod | OpenGate | RecreatePod | Tell) -> dict[str, str]:
    match effect:
        case DeletePod(_, why):
            return {"why": why}
        case OpenGate(_, avoids) | RecreatePod(_, avoids):
            return {"avoids": ",".join(avoids)}
        case Tell(_, reason):
            return {"reason": reason}


def _shown(pod: SeenPod) -> str:
    return f"{pod.namespace}/{pod.name}"
