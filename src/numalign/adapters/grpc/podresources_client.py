"""What the PodResources API of a kubelet, or of our agent, answers; asked in bounded time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from numalign.adapters.grpc import unix as unix_grpc
from numalign.core.errors import PeerError
from numalign.core.views.podresources import View
from numalign.wire.grpc import podresources as wire

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
SECONDS_MAX: Final = 3.0  # where somebody waits for the answer
CALL_SECONDS_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 16 << 20  # what the kubelet itself sends at most


def asked(socket: Path, seconds_max: float = SECONDS_MAX) -> View:
    """All pods and all there is to give; PeerError if the socket does not answer in time."""
    return asyncio.run(read(socket, seconds_max))


async def read(socket: Path, seconds_max: float = CALL_SECONDS_MAX) -> View:
    """The same for who has an event loop."""
    try:
        channel = await unix_grpc.dial(socket, seconds_max, answer_bytes_max=ANSWER_BYTES_MAX)
        try:
            listed = await unix_grpc.called(channel, wire.LIST, b"", seconds_max)
            offered = await unix_grpc.called(channel, wire.GET_ALLOCATABLE, b"", seconds_max)
        finally:
            await channel.close()
    except PeerError as error:
        raise PeerError(f"{socket}: the PodResources API: {error}", retry=error.retry) from error
    return View(wire.pods_of(listed), wire.allocatable_of(offered))
