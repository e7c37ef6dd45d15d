"""Carries out what the step wants, and feeds it what happens. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Final, assert_never

import structlog

from numalign.adapters.kubernetes.api_server import ApiServer, Changed, Gone, Listed, Seen
from numalign.adapters.local.state_changes import StateChanges
from numalign.apps.exporter import events
from numalign.apps.exporter.metrics import ExporterMetrics
from numalign.apps.exporter.model import ExporterState, Setup
from numalign.apps.exporter.publishing import Publisher
from numalign.apps.exporter.scanning import Scanner
from numalign.apps.exporter.step import step
from numalign.core.cluster.publish.export import Key, KnownPod
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import ApiError, NumalignError
from numalign.core.pod import Pod
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.api import PODS
from numalign.wire.pods.running import known_pod

STATE_SECONDS: Final = 1.0  # how often the state files are looked at

log = structlog.get_logger("numalign.export")


class Driver:
    """One run of the exporter, for ever or (``once``) until the first look is over."""

    def __init__(
        self,
        setup: Setup,
        scanner: Scanner,
        api: ApiServer | None,
        publish: Publisher | Callable[[HostTopology], None],
        metrics: ExporterMetrics,
    ) -> None:
        self.state = ExporterState()
        self._setup = setup
        self._scanner = scanner
        self._api = api
        self._publish = publish
        self._metrics = metrics
        self._requests: asyncio.Queue[events.Request] = asyncio.Queue()
        self._timer: asyncio.TimerHandle | None = None
        self._first_look: asyncio.Future[None] | None = None  # if somebody waits for it
        # Who shows the host on a page.
        self.on_seen: Callable[[HostTopology, list[Pod]], None] = lambda _found, _pods: None

    async def run(self) -> None:
        work = [self._work()]
        if self._scanner.sources.state is not None:
            work.append(self._watch_state(StateChanges(self._scanner.sources.state)))
        if self._api is not None:
            work.append(self._watch_pods(self._api))
        try:
            async with asyncio.TaskGroup() as group:
                for one in work:
                    group.create_task(one)
                self._tick()
        finally:
            self._stop()

    async def once(self) -> None:
        """Works until the first look is over; NumalignError if it comes to nothing."""
        pods: list[KnownPod] = []
        if self._api is not None:
            raw, _ = await self._api.listed(PODS, fields=self._selector)
            pods = [known_pod(bytes(one)) for one in raw]
        over = self._first_look = asyncio.get_running_loop().create_future()
        worker = asyncio.create_task(self._work())
        try:
            self._tick()
            if self._api is not None:
                self.handle(events.PodsListed(tuple(pods), time.monotonic()))
            await asyncio.wait([worker, over], return_when=asyncio.FIRST_COMPLETED)
            if worker.done():
                worker.result()
            over.result()
        finally:
            self._stop()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    def handle(self, event: events.Event) -> None:
        self.state, effects = step(self._setup, self.state, event)
        for effect in effects:
            self._carry_out(effect)

    # Events.

    def _tick(self) -> None:
        self.handle(events.Tick(time.monotonic(), _chance()))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _watch_state(self, changes: StateChanges) -> None:
        while True:
            await asyncio.sleep(STATE_SECONDS)
            if changes.changed():
                self.handle(events.StateFilesChanged(time.monotonic()))

    async def _watch_pods(self, api: ApiServer) -> None:
        def trouble(error: ApiError) -> None:
            self._metrics.watch_troubles.inc()
            log.warning("pods_not_followed", error=str(error))

        seen = api.watched(PODS, known_pod, fields=self._selector, on_trouble=trouble)
        async with contextlib.aclosing(seen):
            async for what in seen:
                self.handle(_pod_event(what, time.monotonic()))

    @property
    def _selector(self) -> str:
        return f"spec.nodeName={self._setup.host_name}"

    # Effects.

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.WakeAt(at):
                self._stop()
                wait = max(0.0, at - time.monotonic())
                self._timer = asyncio.get_running_loop().call_later(wait, self._tick)
            case events.CountScan(result, seconds):
                self._metrics.scans.labels(result).inc()
                if result == "ok":
                    self._metrics.scan_seconds.observe(seconds)
            case events.CountPublish(result):
                self._metrics.publishes.labels(result).inc()
            case events.ShowObject(topology):
                assert not isinstance(self._publish, Publisher), "it is written, not shown"
                self._publish(topology)
                self.on_seen(topology, [known.pod for known in self.state.pods.values()])
            case events.ReportSuccess():
                self._metrics.last_success.set_to_current_time()
                if self._first_look is not None and not self._first_look.done():
                    self._first_look.set_result(None)
            case events.ReportFailure(error, seconds):
                self._report_failure(error, seconds)
            case _:
                self._requests.put_nowait(effect)

    def _report_failure(self, error: NumalignError, retry_seconds: float) -> None:
        if self._first_look is None:
            log.warning("not_published", error=str(error), retry_seconds=round(retry_seconds, 1))
        elif not self._first_look.done():
            self._first_look.set_exception(error)

    async def _work(self) -> None:
        while True:
            request = await self._requests.get()
            try:
                event: events.Event = await self._answer(request)
            except NumalignError as error:
                event = events.RequestFailed(error, time.monotonic(), _chance())
            self.handle(event)

    async def _answer(self, request: events.Request) -> events.Event:
        match request:
            case events.ScanHost(version):
                report = await self._scanner.scan(version)
                return events.HostScanned(report, time.monotonic())
            case events.AskForPods(keys):
                pods = await self._find_pods(keys)
                return events.PodsFound(pods, time.monotonic(), _chance())
            case events.LookUpHost():
                host = await self._publisher.find_host()
                now = time.monotonic()
                if host is None:
                    return events.HostMissing(now)
                return events.HostLookedUp(host.uid, host.kubelet_version, now)
            case events.CheckObject():
                version_found = await self._publisher.find_version()
                return events.ObjectChecked(version_found, time.monotonic())
            case events.WriteObject(topology, host_uid):
                version_written = await self._write(topology, host_uid)
                return events.ObjectWritten(version_written, time.monotonic())
            case _:
                assert_never(request)

    @property
    def _publisher(self) -> Publisher:
        assert isinstance(self._publish, Publisher), "nothing is written without a publisher"
        return self._publish

    async def _find_pods(self, keys: tuple[Key, ...]) -> tuple[KnownPod, ...]:
        assert self._api is not None, "without an API server no pod is unknown"
        found = [await self._api.get(PODS, name, namespace) for namespace, name in keys]
        return tuple(known_pod(data) for data in found if data is not None)

    async def _write(self, topology: HostTopology, host_uid: str) -> str:
        written = await self._publisher.write(topology, host_uid)
        size = written.placement_bytes
        self._metrics.placement_bytes.set(size)
        pods = [known.pod for known in self.state.pods.values()]
        self._metrics.seen(topology, pods)
        self.on_seen(topology, pods)
        log.info("published", host=topology.name, zones=len(topology.zones), placement=size)
        if not size:
            log.warning("placement_left_out", host=topology.name, reason=nrt.TOO_LARGE)
        return written.version


def _pod_event(what: Seen[KnownPod], now: float) -> events.Event:
    match what:
        case Listed(items, unreadable):
            names = frozenset((one.namespace, one.name) for one in unreadable)
            return events.PodsListed(items, now, names)
        case Changed(item):
            return events.PodSeen(item, now)
        case Gone(namespace, name, uid):
            return events.PodGone((namespace, name), uid, now)
        case _:
            log.warning("pod_not_readable", pod=f"{what.namespace}/{what.name}", error=what.error)
            return events.PodUnreadable(now)


def _chance() -> float:
    return random.random()  # noqa: S311 - no secret
