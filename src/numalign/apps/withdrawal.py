"""Gives a cluster back: pods that wait at our gates go on, and hosts lose our taint.

Done when nothing was found for a while: what made gates and taints may go on for a moment after it
was deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.nri.taint import KEY, changed_taints
from numalign.core.errors import ApiError
from numalign.wire.kubernetes.api import HOSTS, PODS, Kind, head_of
from numalign.wire.kubernetes.withdrawal import opened_gates

LOOK_SECONDS: Final = 1.0
_GONE_OR_CHANGED: Final = (404, 409)  # the next look shows what is there now


@dataclass(frozen=True, slots=True)
class _Change:
    kind: Kind
    name: str
    namespace: str | None
    patch: dict[str, Any]
    line: str


@dataclass(slots=True)
class Withdrawn:
    """What was done."""

    gates: int = 0
    taints: int = 0
    is_complete: bool = False


async def withdraw(
    api: ApiServer,
    say: Callable[[str], None],
    *,
    settle_seconds: float,
    seconds_max: float,
    opens_gates: bool = True,
    is_dry_run: bool = False,
) -> Withdrawn:
    """Opens gates and removes taints until none has been there for ``settle_seconds``."""
    done = Withdrawn()
    began = quiet_since = time.monotonic()
    while True:
        found = [*(await _gates(api) if opens_gates else ()), *await _taints(api)]
        for change in found:
            if is_dry_run or await _is_made(api, change):
                say(change.line)
                done.gates += change.kind is PODS
                done.taints += change.kind is HOSTS
        now = time.monotonic()
        if found:
            quiet_since = now
        if is_dry_run or now - quiet_since >= settle_seconds:
            done.is_complete = True
            return done
        if now - began >= seconds_max:
            return done
        await asyncio.sleep(LOOK_SECONDS)


async def _gates(api: ApiServer) -> list[_Change]:
    raw, _ = await api.listed(PODS, fields="spec.nodeName=")
    return [
        _Change(
            PODS,
            one.name,
            one.namespace,
            one.patch,
            f"{one.namespace}/{one.name}: opened {', '.join(one.gates)}",
        )
        for one in map(opened_gates, raw)
        if one is not None
    ]


async def _taints(api: ApiServer) -> list[_Change]:
    raw, _ = await api.listed(HOSTS)
    found = []
    for one in raw:
        patch = changed_taints(bytes(one), is_tainted=False)
        if patch is not None:
            name = head_of(one).name
            found.append(_Change(HOSTS, name, None, patch, f"{name}: removed the taint {KEY}"))
    return found


async def _is_made(api: ApiServer, change: _Change) -> bool:
    try:
        await api.patch(change.kind, change.name, change.patch, namespace=change.namespace)
    except ApiError as error:
        if error.code not in _GONE_OR_CHANGED:
            raise
        return False
    return True
