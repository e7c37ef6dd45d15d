"""Gives a cluster back: pods that wait at our gates go on, and hosts lose our taint.

Done when nothing was found for a while: what made gates and taints may go on for a moment after it
was deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.apps.nri.taint import KEY, changed_taints
from numalign.core.errors import ApiError
from numalign.wire.kubernetes.api import HOSTS, PODS, head_of
from numalign.wire.kubernetes.withdrawal import opened_gates

LOOK_SECONDS: Final = 1.0
_GONE_OR_CHANGED: Final = (404, 409)  # the next look shows what is there now


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
        found = await _gates(api, say, done, is_dry_run=is_dry_run) if opens_gates else 0
        found += await _taints(api, say, done, is_dry_run=is_dry_run)
        now = time.monotonic()
        if found:
            quiet_since = now
        if is_dry_run or now - quiet_since >= settle_seconds:
            done.is_complete = True
            return done
        if now - began >= seconds_max:
            return done
        await asyncio.sleep(LOOK_SECONDS)


async def _gates(
    api: ApiServer, say: Callable[[str], None], done: Withdrawn, *, is_dry_run: bool
) -> int:
    raw, _ = await api.listed(PODS, fields="spec.nodeName=")
    found = [change for one in raw if (change := opened_gates(one))]
    for change in found:
        if not is_dry_run:
            try:
                await api.patch(PODS, change.name, change.patch, namespace=change.namespace)
            except ApiError as error:
                if error.code in _GONE_OR_CHANGED:
                    continue
                raise
        done.gates += 1
        say(f"{change.namespace}/{change.name}: opened {', '.join(change.gates)}")
    return len(found)


async def _taints(
    api: ApiServer, say: Callable[[str], None], done: Withdrawn, *, is_dry_run: bool
) -> int:
    raw, _ = await api.listed(HOSTS)
    count = 0
    for one in raw:
        patch = changed_taints(bytes(one), is_tainted=False)
        if patch is None:
            continue
        count += 1
        name = head_of(one).name
        if not is_dry_run:
            try:
                await api.patch(HOSTS, name, patch)
            except ApiError as error:
                if error.code in _GONE_OR_CHANGED:
                    continue
                raise
        done.taints += 1
        say(f"{name}: removed the taint {KEY}")
    return count
