"""Calls to a container runtime through CRI v1; every one of them has a deadline.

The connection heals by itself when the runtime comes back; a call meanwhile is a PeerError that
says to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
import structlog

from numalign.adapters.grpc import unix as unix_grpc
from numalign.core.errors import ConfigError, PeerError, WireError
from numalign.core.values.sets import CpuSet, NodeSet
from numalign.wire.grpc import cri as wire
from numalign.wire.grpc.cri_values import (
    ContainerSpec,
    ImageFound,
    Listed,
    Report,
    RuntimeVersion,
    Sandbox,
    SandboxSpec,
)

# Where containerd and CRI-O listen, unless their configuration says otherwise.
SOCKETS: Final = (Path("/run/containerd/containerd.sock"), Path("/run/crio/crio.sock"))
API_VERSION: Final = "v1"
_T = TypeVar("_T")
RETRY_SECONDS: Final = 0.5  # until a runtime that refuses at the start is asked again
RETRY_SECONDS_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 16 << 20  # what the kubelet takes from a runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long each kind of call may take, in seconds."""

    hello: float = 5.0
    ask: float = 10.0  # what only looks
    place: float = 2.0  # a container's CPUs: others wait for them
    make: float = 120.0  # sandboxes and containers, as the kubelet's runtimeRequestTimeout
    stop_extra: float = 30.0  # beyond the grace period
    pull: float = 1_800.0


DEADLINES: Final = Deadlines()

log = structlog.get_logger("numalign.cri")


class CriClient:
    def __init__(self, socket: Path, deadlines: Deadlines = DEADLINES) -> None:
        self.socket = socket
        self._deadlines = deadlines
        self._channel = unix_grpc.channel(socket, answer_bytes_max=ANSWER_BYTES_MAX)

    async def close(self) -> None:
        await self._channel.close()

    async def _call(self, method: str, request: bytes, seconds_max: float) -> bytes:
        try:
            return await unix_grpc.called(self._channel, method, request, seconds_max)
        except PeerError as error:
            name = method.rpartition("/")[2]
            text = f"{self.socket}: {name}: {error}"
            raise PeerError(text, retry=error.retry) from error.__cause__

    # The runtime itself.

    async def version(self) -> RuntimeVersion:
        """Who answers; ConfigError if it speaks another version of CRI."""
        try:
            data = await self._call(wire.VERSION, wire.EMPTY, self._deadlines.hello)
            found = wire.version_of(data)
        except WireError as error:
            raise ConfigError(f"{self.socket}: this is no container runtime: {error}") from error
        if found.api_version != API_VERSION:
            raise ConfigError(
                f"{self.socket}: found CRI {found.api_version!r} of {found.name or 'a stranger'}, "
                f"expected {API_VERSION!r}; containerd from 1.6 on and CRI-O from 1.20 on have it"
            )
        return found

    async def network_fault(self) -> str:
        """Why pods cannot have a network of their own; "" if they can."""
        data = await self._call(wire.STATUS, wire.EMPTY, self._deadlines.ask)
        return _read(wire.network_fault_of, data)

    async def has_systemd_driver(self) -> bool:
        """Whether the runtime makes cgroups through systemd; False if it does not tell."""
        try:
            data = await self._call(wire.RUNTIME_CONFIG, wire.EMPTY, self._deadlines.ask)
        except PeerError as error:
            if code_of(error) is grpc.StatusCode.UNIMPLEMENTED:
                return False
            raise
        return _read(wire.has_systemd_driver, data)

    # Sandboxes.

    async def run_sandbox(self, spec: SandboxSpec) -> str:
        """Makes and starts a sandbox; its id."""
        request = wire.sandbox_request(spec)
        data = await self._call(wire.RUN_SANDBOX, request, self._deadlines.make)
        return _read(wire.sandbox_id_of, data)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        """Ends all containers of a sandbox and itself."""
        request = wire.sandbox_id_request(sandbox_id)
        await self._call(wire.STOP_SANDBOX, request, self._deadlines.make)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        """Removes a sandbox with all its containers; fine when it is gone."""
        request = wire.sandbox_id_request(sandbox_id)
        await self._call(wire.REMOVE_SANDBOX, request, self._deadlines.make)

    async def sandboxes(self, labels: Mapping[str, str]) -> list[Sandbox]:
        request = wire.sandboxes_request(labels)
        data = await self._call(wire.LIST_SANDBOXES, request, self._deadlines.ask)
        return _read(wire.sandboxes_of, data)

    # Containers.

    async def create(self, sandbox_id: str, sandbox: SandboxSpec, spec: ContainerSpec) -> str:
        """Makes a container without starting it; its id."""
        request = wire.create_request(sandbox_id, sandbox, spec)
        data = await self._call(wire.CREATE_CONTAINER, request, self._deadlines.make)
        return _read(wire.container_id_of, data)

    async def start(self, container_id: str) -> None:
        request = wire.container_request(container_id)
        await self._call(wire.START_CONTAINER, request, self._deadlines.make)

    async def stop(self, container_id: str, grace_seconds: int) -> None:
        """Asks a container to end, kills it after the grace period, and waits for its end."""
        request = wire.stop_request(container_id, grace_seconds)
        seconds_max = grace_seconds + self._deadlines.stop_extra
        await self._call(wire.STOP_CONTAINER, request, seconds_max)

    async def remove(self, container_id: str) -> None:
        """Removes a container, killing it first if it runs; fine when it is gone."""
        request = wire.container_request(container_id)
        await self._call(wire.REMOVE_CONTAINER, request, self._deadlines.make)

    async def containers(self, labels: Mapping[str, str]) -> list[Listed]:
        request = wire.containers_request(labels)
        data = await self._call(wire.LIST_CONTAINERS, request, self._deadlines.ask)
        return _read(wire.containers_of, data)

    async def report(self, container_id: str) -> Report | None:
        """What the runtime says about a container; None if it does not know it."""
        request = wire.status_request(container_id)
        try:
            data = await self._call(wire.CONTAINER_STATUS, request, self._deadlines.ask)
        except PeerError as error:
            if code_of(error) is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return _read(wire.report_of, data)

    async def place(self, container_id: str, cpus: CpuSet | None, mems: NodeSet | None) -> None:
        """Moves a container; PeerError with the kernel's words if it refuses."""
        request = wire.placing_request(container_id, cpus, mems)
        await self._call(wire.UPDATE_RESOURCES, request, self._deadlines.place)

    async def reopen_log(self, container_id: str) -> None:
        """Has the runtime open a log file anew, after it was renamed."""
        request = wire.container_request(container_id)
        await self._call(wire.REOPEN_LOG, request, self._deadlines.ask)

    async def events(self) -> AsyncGenerator[str, None]:
        """The ids of containers to which something happens, as it happens."""
        messages = unix_grpc.streamed(self._channel, wire.EVENTS, wire.EMPTY)
        async for message in messages:
            yield _read(wire.event_id_of, message)

    # Images.

    async def image(self, image: str) -> ImageFound | None:
        """An image; None if it is not there."""
        request = wire.image_request(image)
        data = await self._call(wire.IMAGE_STATUS, request, self._deadlines.ask)
        return _read(wire.image_of, data)

    async def pull(self, image: str) -> str:
        """Fetches an image; its reference."""
        request = wire.pull_request(image)
        data = await self._call(wire.PULL_IMAGE, request, self._deadlines.pull)
        return _read(wire.pulled_of, data)


def code_of(error: PeerError) -> grpc.StatusCode | None:
    """The code with which a runtime refused, if it was the runtime."""
    cause = error.__cause__
    return cause.code() if isinstance(cause, grpc.aio.AioRpcError) else None


def _read(reader: Callable[[bytes], _T], data: bytes) -> _T:
    try:
        return reader(data)
    except WireError as error:
        raise PeerError(f"the runtime answered {error}") from error


async def persistently(call: Callable[[], Awaitable[_T]], what: str) -> _T:
    """The answer of a runtime, asked for until it gives one: for the start, when nobody else can.

    A runtime that is just coming up, or is busy, refuses for a while; ending over it would only
    have us started again.
    """
    pause = RETRY_SECONDS
    while True:
        try:
            return await call()
        except PeerError as error:
            log.warning("runtime_not_ready", what=what, error=str(error), again_in=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, RETRY_SECONDS_MAX)


async def connected(socket: Path | None) -> tuple[CriClient, RuntimeVersion]:
    """The runtime at a socket, or at the first usual one that answers; ConfigError if none does."""
    tried: list[str] = []
    for path in SOCKETS if socket is None else (socket,):
        if not path.exists():
            tried.append(f"{path}: not there")
            continue
        client = CriClient(path)
        try:
            return client, await client.version()
        except PeerError as error:
            tried.append(str(error))
            await client.close()
        except (ConfigError, asyncio.CancelledError):
            await client.close()
            raise
    raise ConfigError(
        f"no container runtime answers ({'; '.join(tried)}). Start containerd or CRI-O, or name "
        "its socket with --cri-socket"
    )
