"""Leader election by a Lease object: of all replicas one acts, and another one when it is gone."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any, Final

import msgspec

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.cluster import lease
from numalign.core.cluster.lease import Record, Step, Watching
from numalign.core.errors import ApiError, WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes.api import LEASES, Head

CALL_SECONDS_MAX: Final = 5.0


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: Head
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Election:
    """One replica's part in the election. ``run`` goes on for ever beside the work.

    ``on_change`` hears True when this replica may act, and False as soon as it may not be sure of
    that any more, which is before another one can take over.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_change: Callable[[bool], None],
        duration_seconds: float = lease.DURATION_SECONDS,
        renew_seconds_max: float = lease.RENEW_SECONDS_MAX,
        retry_seconds: float = lease.RETRY_SECONDS,
    ) -> None:
        assert retry_seconds < renew_seconds_max < duration_seconds, "else two could act at once"
        self._api = api
        self._namespace = namespace
        self._name = name
        self._known = Watching(identity)
        self._acquired = ""
        self._on_change = on_change
        self._duration_seconds = duration_seconds
        self._renew_seconds_max = renew_seconds_max
        self._retry_seconds = retry_seconds
        self._end: asyncio.TimerHandle | None = None
        self.is_leading = False
        self.error = "the lease was not looked at yet"  # of the last try; empty if it went well

    async def run(self) -> None:
        """Takes part until cancelled; then the lease is given back, so that nobody has to wait."""
        try:
            while True:
                try:
                    await self._try(asyncio.get_running_loop())
                    self.error = ""
                except ApiError as error:
                    self.error = str(error)
                await asyncio.sleep(self._retry_seconds)
        finally:
            if self.is_leading:
                await self._give_back()

    async def _try(self, loop: asyncio.AbstractEventLoop) -> None:
        self._known = self._known.seen(await self._read(), loop.time())
        todo = lease.step(self._known, loop.time())
        if todo is Step.WAIT:
            self._lead(leading=False)
            return
        now = loop.time()  # before the write: others count from when they see it
        stamp = _stamp()
        if todo is not Step.RENEW or not self._acquired:
            self._acquired = stamp
        body = self._body(lease.next_record(self._known, self._duration_seconds), stamp)
        try:
            if todo is Step.CREATE:
                await self._api.create(LEASES, body, self._namespace, seconds_max=CALL_SECONDS_MAX)
            else:
                await self._write(body)
        except ApiError as error:
            if error.code == 409:  # another one was quicker
                self._lead(leading=False)
                return
            raise
        self._leads_until(loop, now + self._renew_seconds_max)

    def _body(self, record: Record, stamp: str) -> dict[str, Any]:
        metadata = {"name": self._name, "namespace": self._namespace}
        if record.version:
            metadata["resourceVersion"] = record.version
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": metadata,
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": max(1, round(record.duration_seconds)),
                "acquireTime": self._acquired,
                "renewTime": stamp,
                "leaseTransitions": record.transitions,
            },
        }

    def _leads_until(self, loop: asyncio.AbstractEventLoop, end: float) -> None:
        # By a timer of its own: a server that does not answer must not keep us in the belief that
        # we lead.
        if self._end is not None:
            self._end.cancel()
        self._end = loop.call_at(end, lambda: self._lead(leading=False))
        self._lead(leading=loop.time() < end)

    def _lead(self, *, leading: bool) -> None:
        if leading != self.is_leading:
            self.is_leading = leading
            self._on_change(leading)

    async def _give_back(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._lead(leading=False)
        try:
            record = await self._read()
            if record is None or record.holder != self._known.identity:
                return
            empty = Record("", 1, record.transitions, record.version)
            await self._write(self._body(empty, _stamp()))
        except ApiError:
            return  # it runs out by itself

    async def _read(self) -> Record | None:
        try:
            data = await self._api.get(
                LEASES, self._name, self._namespace, seconds_max=CALL_SECONDS_MAX
            )
            return None if data is None else _record(msgspec.json.decode(data, type=_Lease))
        except (WireError, *DECODE_FAULTS) as error:
            raise ApiError(f"found no {LEASES.name} in {self._name}: {error}", code=0) from error

    async def _write(self, body: dict[str, Any]) -> None:
        await self._api.replace(
            LEASES, self._name, body, self._namespace, seconds_max=CALL_SECONDS_MAX
        )


def _stamp() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _record(found: _Lease) -> Record:
    spec = found.spec
    return Record(
        spec.holder_identity or "",
        float(spec.lease_duration_seconds or lease.DURATION_SECONDS),
        spec.lease_transitions or 0,
        found.metadata.resource_version,
    )
