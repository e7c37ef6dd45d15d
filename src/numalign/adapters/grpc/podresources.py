"""The PodResources API on a unix socket: who holds what, for monitoring agents on the same host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import grpc

from numalign.adapters.grpc import unix as unix_grpc
from numalign.core.errors import PeerError, WireError
from numalign.core.values.token_bucket import TokenBucket
from numalign.core.views.podresources import View
from numalign.wire.grpc import podresources as wire

DIRECTORY_MODE: Final = 0o750
REQUEST_BYTES_MAX: Final = 64 << 10
CALLS_PER_SECOND_MAX: Final = 100.0  # over all methods and versions, as in the kubelet
CALLS_BURST_MAX: Final = 10.0
RATE_REFUSAL: Final = "rejected by rate limit"

Method = Literal["list", "get", "get_allocatable"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was answered, for the counters; those over the rate do not count."""

    version: Literal["v1", "v1alpha1"]
    method: Method
    failed: bool = False


class PodResources:
    """The server. ``view`` gives the host as it is now, ``counted`` hears of every call."""

    def __init__(
        self,
        socket: Path,
        view: Callable[[], View],
        *,
        counted: Callable[[Call], None] = lambda _: None,
    ) -> None:
        self._socket = socket
        self._view = view
        self._counted = counted
        self._bucket: TokenBucket | None = None
        self._served: unix_grpc.Served | None = None

    async def start(self) -> None:
        """Listens, in place of whatever was there under this name."""
        try:
            self._socket.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        except OSError as exc:
            raise PeerError(f"{self._socket.parent}: cannot be made ({exc})") from exc
        methods: dict[str, unix_grpc.Handler] = {
            wire.LIST: self._list,
            wire.GET: self._get,
            wire.GET_ALLOCATABLE: self._get_allocatable,
            wire.LIST_V1ALPHA1: self._list_v1alpha1,
        }
        self._served = await unix_grpc.serve(
            self._socket, methods, request_bytes_max=REQUEST_BYTES_MAX
        )

    async def stop(self) -> None:
        if self._served is not None:
            await self._served.stop()
            self._served = None

    async def _list(self, _: bytes) -> bytes:
        self._pass()
        self._counted(Call("v1", "list"))
        return wire.list_response(self._view().pods)

    async def _get(self, data: bytes) -> bytes:
        self._pass()
        try:
            wanted = wire.wanted_of(data)
        except WireError as exc:
            raise unix_grpc.RefusedError(str(exc), grpc.StatusCode.INTERNAL) from exc
        for pod in self._view().pods:
            if (pod.name, pod.namespace) == (wanted.name, wanted.namespace):
                self._counted(Call("v1", "get"))
                return wire.get_response(pod)
        self._counted(Call("v1", "get", failed=True))
        raise unix_grpc.RefusedError(f"pod {wanted.name} in namespace {wanted.namespace} not found")

    async def _get_allocatable(self, _: bytes) -> bytes:
        self._pass()
        self._counted(Call("v1", "get_allocatable"))
        return wire.allocatable_response(self._view().allocatable)

    async def _list_v1alpha1(self, _: bytes) -> bytes:
        self._pass()
        self._counted(Call("v1alpha1", "list"))
        view = self._view()
        return wire.list_response_v1alpha1(view.pods + view.ended)

    def _pass(self) -> None:
        """Lets a call pass if the rate allows it."""
        now = asyncio.get_running_loop().time()
        bucket = self._bucket or TokenBucket.full(
            per_second=CALLS_PER_SECOND_MAX, burst=CALLS_BURST_MAX, now=now
        )
        after = bucket.taken(now)
        if after is None:
            raise unix_grpc.RefusedError(RATE_REFUSAL, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self._bucket = after
