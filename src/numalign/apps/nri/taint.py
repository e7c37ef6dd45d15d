"""A taint on the host while nothing is placed there: for runtimes that cannot demand a plugin.

Where the runtime refuses containers without the plugin (its validator), this is not needed. Without
that, the scheduler is kept from a host that has no synchronized plugin, as well as it can be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.errors import PeerError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes.api import HOSTS

KEY: Final = "numalign.io/nri-not-ready"
EFFECT: Final = "NoSchedule"
LOOK_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 5.0  # after the API server refused
CHECK_SECONDS: Final = 60.0  # others change taints too
END_SECONDS_MAX: Final = 3.0

log = structlog.get_logger("numalign.nri")


class _Metadata(msgspec.Struct, rename={"version": "resourceVersion"}):
    version: str = ""


class _Spec(msgspec.Struct):
    taints: list[dict[str, Any]] = []


class _Node(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


def changed_taints(data: bytes, *, is_tainted: bool) -> dict[str, Any] | None:
    """The patch that puts our taint on a Node object or takes it off; None if it is so already."""
    node = msgspec.json.decode(data, type=_Node)
    others = [one for one in node.spec.taints if one.get("key") != KEY]
    if (len(others) != len(node.spec.taints)) == is_tainted:
        return None
    taints = [*others, {"key": KEY, "effect": EFFECT}] if is_tainted else others
    # With the version of what was read: a taint that somebody adds meanwhile is not lost.
    return {"metadata": {"resourceVersion": node.metadata.version}, "spec": {"taints": taints}}


class HostTaint:
    """Keeps the taint of one host what it should be."""

    def __init__(self, api: ApiServer, host_name: str, is_ready: Callable[[], bool]) -> None:
        self._api = api
        self._name = host_name
        self._is_ready = is_ready

    async def run(self) -> None:
        """Works until cancelled, and then puts the taint back."""
        done: bool | None = None
        again_at = 0.0
        loop = asyncio.get_running_loop()
        try:
            while True:
                wanted = not self._is_ready()
                if wanted != done or loop.time() >= again_at:
                    done = wanted if await self._set(is_tainted=wanted) else None
                    wait = CHECK_SECONDS if done is not None else AGAIN_SECONDS
                    again_at = loop.time() + wait
                    if done is None:
                        await asyncio.sleep(AGAIN_SECONDS)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS_MAX):
                    await self._set(is_tainted=True)

    async def _set(self, *, is_tainted: bool) -> bool:
        try:
            data = await self._api.get(HOSTS, self._name)
            if data is None:
                log.warning("host_taint_unchanged", error=f"there is no Node object {self._name}")
                return False
            patch = changed_taints(data, is_tainted=is_tainted)
            if patch is not None:
                await self._api.patch(HOSTS, self._name, patch)
                log.info("host_tainted" if is_tainted else "host_taint_removed", host=self._name)
        except (PeerError, *DECODE_FAULTS) as error:
            log.warning("host_taint_unchanged", error=str(error))
            return False
        return True
