"""The exporter's loop: something changed or time has passed, look, publish."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Final

import structlog

from numalign.adapters.kubernetes.api_server import ApiServer, Backoff, Changed, Gone, Listed
from numalign.adapters.local.state_changes import StateChanges
from numalign.apps.exporter.metrics import ExporterMetrics
from numalign.apps.exporter.publishing import Publisher
from numalign.apps.exporter.scanning import Scanner
from numalign.core.cluster.publish.export import Key, KnownPod, exported, unknown_pods
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.errors import ApiError, NumalignError, PeerError
from numalign.wire.kubernetes import nrt
from numalign.wire.kubernetes.api import PODS
from numalign.wire.kubernetes.known_pods import known_pod

STATE_SECONDS: Final = 1.0  # how often the state files are looked at
TOGETHER_SECONDS: Final = 0.2  # changes within this time are published together
STALE_INTERVALS: Final = 3.0  # after so many without success we are not ready

log = structlog.get_logger("numalign.export")


class Exporter:
    """One host's exporter. Without ``api`` it knows only what the host itself says."""

    def __init__(
        self,
        scanner: Scanner,
        api: ApiServer | None,
        publish: Publisher | Callable[[HostTopology], None],
        interval_seconds: float = 60.0,
    ) -> None:
        self._scanner = scanner
        self._api = api
        self._publish = publish
        self._interval_seconds = interval_seconds
        self.metrics = ExporterMetrics()
        self._pods: dict[Key, KnownPod] = {}
        self._uids: dict[str, Key] = {}
        self._pods_known = asyncio.Event()
        self._due = asyncio.Event()
        self._checks_due = True
        self._error = "nothing was published yet"
        self._succeeded_at: float | None = None

    def problems(self) -> list[str]:
        """Why what is published may not be true; empty if all is well."""
        if self._succeeded_at is None:
            return [self._error]
        age = time.monotonic() - self._succeeded_at
        if age > STALE_INTERVALS * max(self._interval_seconds, 10.0):
            return [f"nothing was published for {age:.0f} s: {self._error}"]
        return []

    def metrics_text(self) -> bytes:
        """Prometheus' text format."""
        return self.metrics.text()

    async def once(self) -> HostTopology:
        """Looks and publishes once; NumalignError if it cannot."""
        if self._api is not None:
            raw, _ = await self._api.listed(PODS, fields=self._selector)
            self._replace([known_pod(bytes(one)) for one in raw])
        return await self._look()

    async def run(self) -> None:
        """Looks and publishes for ever."""
        work = [self._work(), self._tick()]
        if self._scanner.sources.state is not None:
            work.append(self._watch_state())
        if self._api is not None:
            work.append(self._watch_pods(self._api))
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)

    # What makes it look.

    async def _tick(self) -> None:
        while True:
            self._checks_due = True
            self._due.set()
            # All hosts of a cluster often start together; they need not stay together.
            wait = self._interval_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - no secret
            await asyncio.sleep(wait)

    async def _watch_state(self) -> None:
        assert self._scanner.sources.state is not None
        changes = StateChanges(self._scanner.sources.state)
        while True:
            await asyncio.sleep(STATE_SECONDS)
            if changes.changed():
                self._due.set()

    async def _watch_pods(self, api: ApiServer) -> None:
        def trouble(error: ApiError) -> None:
            self.metrics.watch_troubles.inc()
            log.warning("pods_not_followed", error=str(error))

        seen = api.watched(PODS, known_pod, fields=self._selector, on_trouble=trouble)
        async with contextlib.aclosing(seen):
            async for event in seen:
                match event:
                    case Listed(items, unreadable):
                        keys = {(one.namespace, one.name) for one in unreadable}
                        still = [known for key, known in self._pods.items() if key in keys]
                        self._replace([*items, *still])
                        self._pods_known.set()
                    case Changed(item):
                        self._keep(item)
                    case Gone(namespace, name, uid):
                        # A pod of the same name may already be there again.
                        if self._uids.pop(uid, None) is not None:
                            key = namespace, name
                            if self._pods[key].pod.uid == uid:
                                del self._pods[key]
                    case _:
                        name = f"{event.namespace}/{event.name}"
                        log.warning("pod_not_readable", pod=name, error=event.error)
                self._due.set()

    def _replace(self, pods: list[KnownPod]) -> None:
        self._pods.clear()
        self._uids.clear()
        for found in pods:
            self._keep(found)

    def _keep(self, found: KnownPod) -> None:
        key = found.pod.namespace, found.pod.name
        self._pods[key] = found
        self._uids[found.pod.uid] = key

    @property
    def _selector(self) -> str:
        return f"spec.nodeName={self._scanner.sources.host_name}"

    # Looking and publishing.

    async def _work(self) -> None:
        backoff = Backoff()
        if self._api is not None:
            await self._pods_known.wait()
        while True:
            await self._due.wait()
            await asyncio.sleep(TOGETHER_SECONDS)
            self._due.clear()
            try:
                await self._look()
                backoff.reset()
            except NumalignError as error:
                self._error = str(error)
                wait = backoff.next_seconds()
                log.warning("not_published", error=str(error), retry_seconds=round(wait, 1))
                await asyncio.sleep(wait)
                self._due.set()

    async def _look(self) -> HostTopology:
        checks, self._checks_due = self._checks_due, False
        try:
            topology = await self._scanned(checks=checks)
        except NumalignError:
            self._checks_due |= checks
            self.metrics.scans.labels("failed").inc()
            raise
        self.metrics.scans.labels("ok").inc()
        try:
            await self._published(topology, checks=checks)
        except NumalignError:
            self._checks_due |= checks
            self.metrics.publishes.labels("failed").inc()
            raise
        self._succeeded_at = time.monotonic()
        self.metrics.last_success.set_to_current_time()
        return topology

    async def _scanned(self, *, checks: bool) -> HostTopology:
        version = None
        if isinstance(self._publish, Publisher):
            if checks:
                await self._publish.look_up_host()
            version = self._publish.kubelet_version
        started = time.perf_counter()
        pods = self._pods if self._api is not None else None
        report = await self._scanner.scan(pods, version=version)
        unknown = unknown_pods(report)
        for namespace, name in unknown:
            await self._ask_for(namespace, name)
        if unknown_pods(report):
            names = ", ".join("/".join(key) for key in unknown_pods(report)[:3])
            raise PeerError(
                f"the host lists pods that the API server does not know ({names}): nothing is "
                "published until it does, or they are gone",
                retry=True,
            )
        topology = exported(report)
        self.metrics.scan_seconds.observe(time.perf_counter() - started)
        return topology

    async def _ask_for(self, namespace: str, name: str) -> None:
        """A pod that the watch has not told of yet."""
        assert self._api is not None, "without an API server no pod is unknown"
        data = await self._api.get(PODS, name, namespace)
        if data is not None:
            self._keep(known_pod(data))

    async def _published(self, topology: HostTopology, *, checks: bool) -> None:
        if not isinstance(self._publish, Publisher):
            self._publish(topology)
            return
        outcome = await self._publish.publish(topology, checks=checks)
        self.metrics.publishes.labels(outcome).inc()
        if outcome == "written":
            text = nrt.body(topology)["metadata"].get("annotations", {})
            size = len(text.get(nrt.PLACEMENT_ANNOTATION, ""))
            self.metrics.placement_bytes.set(size)
            log.info("published", host=topology.name, zones=len(topology.zones), placement=size)
            if not size:
                log.warning("placement_left_out", host=topology.name, reason=nrt.TOO_LARGE)
