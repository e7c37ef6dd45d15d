"""A plan carried out, one pod after the other; the first surprise ends it.

A pod is evicted through the API, which heeds disruption budgets. Its controller makes another,
which a scheduler places; the next step waits until that one is ready on the host of the plan, so
that a disruption budget that covers both has room again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from numalign.adapters.kubernetes.api_server import ApiServer
from numalign.core.errors import ApiError
from numalign.core.fleet.defrag.places import Move
from numalign.wire.kubernetes import objects
from numalign.wire.kubernetes.api import PODS
from numalign.wire.kubernetes.scheduling import ClusterPod, pod_from_json

STEP_SECONDS_MAX: Final = 300.0
LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Carried:
    """One step: None for what went as planned, else the surprise that ends it."""

    move: Move
    surprise: str | None = None


async def carry_out(
    api: ApiServer,
    moves: Sequence[Move],
    *,
    seconds_max: float = STEP_SECONDS_MAX,
    look_seconds: float = LOOK_SECONDS,
) -> AsyncIterator[Carried]:
    """Carries the moves out in order; what comes last has a surprise if not all went well."""
    for move in moves:
        try:
            surprise = await _one(api, move, seconds_max, look_seconds)
        except ApiError as error:
            surprise = f"the API server refused: {error}"
        yield Carried(move, surprise)
        if surprise is not None:
            return


async def _one(api: ApiServer, move: Move, seconds_max: float, look: float) -> str | None:
    namespace, _, name = move.name.rpartition("/")
    data = await api.get(PODS, name, namespace)
    if data is None:
        return "the pod is not there any more"
    pod = pod_from_json(data)
    if pod.pod.uid != move.pod or pod.host != move.origin:
        return f"the pod is another one now, or on {pod.host or 'no host'}"
    known = {one.pod.uid for one, _ in await _siblings(api, pod, namespace)}
    await api.create_part(PODS, name, "eviction", _eviction(name, namespace, move.pod), namespace)
    end = time.monotonic() + seconds_max
    while time.monotonic() < end:
        fresh = [(p, r) for p, r in await _siblings(api, pod, namespace) if p.pod.uid not in known]
        failed = next((p for p, _ in fresh if p.phase == "Failed"), None)
        if failed is not None:
            return f"{failed.host or 'no host'} refused the new pod: {failed.reason}"
        placed = next(((p, is_ready) for p, is_ready in fresh if p.host), None)
        if placed is not None and placed[0].host != move.target:
            return f"the new pod was placed on {placed[0].host}"
        if placed is not None and placed[1]:
            return None
        await asyncio.sleep(look)
    return f"no new pod is ready on {move.target} after {seconds_max:.0f} s"


async def _siblings(
    api: ApiServer, pod: ClusterPod, namespace: str
) -> list[tuple[ClusterPod, bool]]:
    """The pods of the same controller, and whether each is ready."""
    found, _ = await api.listed(PODS, namespace)
    pods = ((pod_from_json(bytes(one)), _is_ready(bytes(one))) for one in found)
    return [(one, is_ready) for one, is_ready in pods if one.owner == pod.owner]


def _is_ready(data: bytes) -> bool:
    conditions = objects.read(objects.POD, data).status.conditions or ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def _eviction(name: str, namespace: str, uid: str) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
