"""One replica of the redeploy loop: its metrics, its election, and a driver while it may act."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.adapters.kubernetes.lease import Election
from numalign.apps.redeploy.driver import Driver
from numalign.apps.redeploy.metrics import RedeployMetrics
from numalign.apps.redeploy.model import Rules

LEASE: Final = "numalign-redeploy"

log = structlog.get_logger("numalign.redeploy")


class Redeployer:
    """One replica. With an election it acts only while it leads, and starts anew each time."""

    def __init__(self, api: ApiServer, rules: Rules, *, is_dry_run: bool = False) -> None:
        self.metrics = RedeployMetrics()
        self._api = api
        self._rules = rules
        self._is_dry_run = is_dry_run
        self._driver = self._new_driver()
        self._election: Election | None = None
        self._acting: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def problems(self) -> list[str]:
        """Why it is not ready; a replica that waits for its turn is."""
        if self._election is not None and not self._election.is_leading:
            return [self._election.error] if self._election.error else []
        return self._driver.state.problems

    def metrics_text(self) -> bytes:
        self.metrics.take_gauges(self._driver.state)
        return self.metrics.text()

    async def run(self, *, identity: str | None, namespace: str, lease: str = LEASE) -> None:
        """Runs for ever; ``identity`` None: without an election, as the only replica."""
        if identity is None:
            self.metrics.leading.set(1)
            await self._driver.run()
            return
        self._election = Election(
            self._api,
            namespace=namespace,
            name=lease,
            identity=identity,
            on_change=self._change_lead,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._election.run())
            group.create_task(self._take_turns(self._election))

    def _new_driver(self) -> Driver:
        return Driver(self._api, self._rules, self.metrics, is_dry_run=self._is_dry_run)

    def _change_lead(self, leading: bool) -> None:  # noqa: FBT001 - as Election calls it
        log.info("leading" if leading else "not_leading")
        self.metrics.leading.set(1 if leading else 0)
        if not leading and self._acting is not None:
            self._acting.cancel()  # at once: another one may act soon
        self._changed.set()

    async def _take_turns(self, election: Election) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not election.is_leading:
                continue
            self._driver = self._new_driver()
            self._acting = asyncio.create_task(self._driver.run())
            try:
                await asyncio.wait([self._acting])
                if not self._acting.cancelled():
                    self._acting.result()
            finally:
                self._acting.cancel()
                await asyncio.gather(self._acting, return_exceptions=True)
