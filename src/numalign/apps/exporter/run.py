"""One host's exporter, put together: its setup, its metrics and its driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.exporter.driver import Driver
from numalign.apps.exporter.metrics import ExporterMetrics
from numalign.apps.exporter.model import ExporterState, Setup, problems
from numalign.apps.exporter.publishing import Publisher
from numalign.apps.exporter.scanning import Scanner
from numalign.apps.exporter.shown import ShownHost
from numalign.core.cluster.publish.zones import HostTopology


class Exporter:
    """Without ``api`` it knows only what the host itself says."""

    def __init__(
        self,
        scanner: Scanner,
        api: ApiServer | None,
        publish: Publisher | Callable[[HostTopology], None],
        interval_seconds: float = 60.0,
    ) -> None:
        self.metrics = ExporterMetrics()
        self._scanner = scanner
        self._api = api
        self._publish = publish
        self._setup = Setup(
            host_name=scanner.sources.host_name,
            interval_seconds=interval_seconds,
            follows_pods=api is not None,
            writes=isinstance(publish, Publisher),
        )
        self._driver: Driver | None = None
        self.shown = ShownHost(self.problems)

    def problems(self) -> list[str]:
        """Why what is published may not be true; empty if all is well."""
        state = ExporterState() if self._driver is None else self._driver.state
        return problems(self._setup, state, time.monotonic())

    def metrics_text(self) -> bytes:
        return self.metrics.text()

    async def once(self) -> None:
        """Looks and publishes once; NumalignError if it cannot."""
        # Nothing else is to come that could be published together with it.
        await self._new_driver(replace(self._setup, together_seconds=0.0)).once()

    async def run(self) -> None:
        await self._new_driver(self._setup).run()

    def _new_driver(self, setup: Setup) -> Driver:
        self._driver = Driver(setup, self._scanner, self._api, self._publish, self.metrics)
        self._driver.on_seen = self.shown.published
        return self._driver
