"""One device plugin behind one socket: its connection, its lists of devices and the calls to it.

Each list replaces the one before, so only the newest counts: while a plugin sends faster than we
report, older lists are passed over, and one that sends faster still is read more slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc.aio

from numalign.adapters.grpc import unix as unix_grpc
from numalign.core.errors import PeerError, WireError
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.values.token_bucket import TokenBucket
from numalign.wire.grpc import device_plugin as wire

DIAL_SECONDS_MAX: Final = 10.0
LIST_PAUSE_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how often a plugin may do things. The kubelet only knows some of these."""

    dial_seconds: float = DIAL_SECONDS_MAX
    options_seconds: float = 10.0
    preferred_seconds: float = 10.0
    allocate_seconds: float = 60.0
    prestart_seconds: float = 30.0
    grace_seconds: float = 300.0  # a resource is kept this long after its last plugin went
    lists_per_second: float = 200.0  # read from one plugin
    list_pause_seconds: float = 0.05  # between two reports of one plugin
    list_pause_factor: float = 10.0  # at least so many times what the last report took
    resources: int = 256
    sockets_per_resource: int = 16


LIMITS: Final = Limits()


class Endpoint:
    """A connected plugin. ``newest`` is its last good list, None before the first."""

    def __init__(
        self, resource: str, path: Path, connection: grpc.aio.Channel, limits: Limits
    ) -> None:
        self.resource = resource
        self.path = path
        self._identity = unix_grpc.identity(path.stat())
        self.options = wire.Options(has_preferred=False, prestart=False)
        self.newest: wire.DeviceList | None = None
        self.is_stopped = False
        self._connection = connection
        self._limits = limits
        self._pending: bytes | None = None
        self._changed = asyncio.Event()

    @classmethod
    async def connected(cls, resource: str, path: Path, limits: Limits) -> Endpoint:
        """A plugin that was dialled and said which calls it wants; PeerError otherwise."""
        try:
            connection = await unix_grpc.dial(path, limits.dial_seconds)
        except PeerError as exc:
            raise PeerError(f"failed to dial device plugin: {exc}", retry=True) from exc
        try:
            endpoint = cls(resource, path, connection, limits)
            data = await endpoint._call(wire.GET_OPTIONS, wire.EMPTY, limits.options_seconds)
            endpoint.options = wire.options_of(data)
        except (PeerError, WireError, OSError) as exc:
            await connection.close()
            raise PeerError(f"failed to get device plugin options: {exc}", retry=True) from exc
        except asyncio.CancelledError:
            await connection.close()
            raise
        return endpoint

    def is_same_server(self) -> bool:
        """Whether the socket file is still the one that was dialled."""
        try:
            return unix_grpc.identity(self.path.stat()) == self._identity
        except OSError:
            return False

    async def close(self) -> None:
        """Ends the connection; calls through it fail from now on."""
        self.is_stopped = True
        await self._connection.close()

    # Calls.

    async def preferred(
        self, available: Sequence[str], must: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """The ids that the plugin would choose."""
        request = wire.preferred_request(available, must, size)
        seconds = self._limits.preferred_seconds
        return wire.preferred_of(await self._call(wire.GET_PREFERRED, request, seconds))

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """What a container needs to use these devices."""
        request = wire.allocate_request(ids)
        seconds = self._limits.allocate_seconds
        return wire.allocation_of(await self._call(wire.ALLOCATE, request, seconds))

    async def prestart(self, ids: Sequence[str]) -> None:
        """Tells the plugin that a container with these devices is about to start."""
        request = wire.pre_start_request(ids)
        await self._call(wire.PRE_START, request, self._limits.prestart_seconds)

    async def _call(self, method: str, request: bytes, seconds_max: float) -> bytes:
        if self.is_stopped:
            raise PeerError(f"endpoint {self.path} has been stopped", retry=True)
        return await unix_grpc.called(self._connection, method, request, seconds_max)

    # The stream of lists.

    async def watch(
        self, report: Callable[[wire.DeviceList], None], fault: Callable[[str], None]
    ) -> str:
        """Reports every list that counts; gives the reason once the stream has ended."""
        reading = asyncio.create_task(self._read(fault))
        try:
            return await self._report(reading, report, fault)
        except WireError as exc:
            return str(exc)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, fault: Callable[[str], None]) -> str:
        """Keeps the newest message in ``_pending``; gives the reason for the end."""
        clock = asyncio.get_running_loop().time
        rate = self._limits.lists_per_second
        bucket = TokenBucket.full(per_second=rate, burst=rate, now=clock())
        flooded = False
        try:
            async with aclosing(
                unix_grpc.streamed(self._connection, wire.LIST_AND_WATCH, wire.EMPTY)
            ) as messages:
                async for message in messages:
                    self._pending = message
                    self._changed.set()
                    after = bucket.taken(clock())
                    while after is None:
                        if not flooded:
                            flooded = True
                            fault(f"more than {rate:.0f} lists a second; it is read more slowly")
                        await asyncio.sleep(bucket.seconds_until_next(clock()))
                        after = bucket.taken(clock())
                    bucket = after
        except PeerError as exc:
            return str(exc)
        else:
            return "the plugin ended its list of devices"
        finally:
            self._changed.set()

    async def _report(
        self,
        reading: asyncio.Task[str],
        report: Callable[[wire.DeviceList], None],
        fault: Callable[[str], None],
    ) -> str:
        clock = asyncio.get_running_loop().time
        before: bytes | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            message, self._pending = self._pending, None
            began = clock()
            if message is not None and message != before:
                before = message
                self.newest = wire.devices_of(message)
                for text in self.newest.faults:
                    fault(text)
                report(self.newest)
            if self._pending is None and reading.done():
                return reading.result()
            # The time that a report takes is paid for by a pause, so that a plugin can never
            # keep us busy with its lists alone.
            pause = self._limits.list_pause_factor * (clock() - began)
            await asyncio.wait(
                {reading},
                timeout=min(max(pause, self._limits.list_pause_seconds), LIST_PAUSE_SECONDS_MAX),
            )
