"""Somebody changes a running container through the runtime: a resize in place, mostly."""

from __future__ import annotations

from typing import Final

from numalign.apps.nri.events import (
    AnswerRefused,
    AnswerUpdates,
    ContainerUpdating,
    Effect,
    Refused,
)
from numalign.apps.nri.model import NriState
from numalign.apps.nri.steps.placing import pool_text, with_updates
from numalign.core.values.sets import format_list
from numalign.wire.nri import pod_facts
from numalign.wire.nri.values import Update

NOT_RESIZED: Final = "ExclusiveNotResizable"


def update(state: NriState, event: ContainerUpdating) -> tuple[NriState, list[Effect]]:
    """Lets a wish through, but for CPUs and nodes: those are ours to give."""
    uid, name = event.pod.uid, event.container.name
    cpus = state.host.cpu.entries.get(uid, {}).get(name)
    refused = None if cpus is None else _resize_fault(state, event, cpus)
    if refused is not None:
        pod = f"{event.pod.namespace}/{event.pod.name}"
        text = f"numalign: {NOT_RESIZED}: container {name} of {pod}: {refused}"
        return state, [
            AnswerRefused(NOT_RESIZED, text),
            Refused(pod, name, NOT_RESIZED, refused),
        ]
    own = pool_text(state) if cpus is None else format_list(cpus)
    known = state.containers.get(event.container.id)
    mems = "" if known is None else known.mems
    state, updates = with_updates(state, without=event.container.id)
    mine = (Update(event.container.id, own, mems),) if own or mems else ()
    return state, [AnswerUpdates((*mine, *updates))]


def _resize_fault(state: NriState, event: ContainerUpdating, cpus: int) -> str | None:
    """Why a container with CPUs of its own cannot become what is wished; None if it stays."""
    held = cpus.bit_count()
    for milli in (
        pod_facts.cpu_request_milli(event.wish),
        pod_facts.cpu_limit_milli(event.wish),
    ):
        if milli is not None and milli != held * 1000:
            return (
                f"holds CPUs {format_list(cpus)} of its own and cannot get {milli}m instead of "
                f"{held}; delete the pod and create it with the new size"
            )
    blocks = state.host.memory.entries.get(event.pod.uid, {}).get(event.container.name, ())
    size = next((block.size for block in blocks if block.type == "memory"), None)
    limit = event.wish.memory_limit
    if size is not None and limit is not None and limit != size:
        return (
            f"has {size} bytes on NUMA nodes of its own and cannot get {limit}; delete the pod "
            "and create it with the new size"
        )
    return None
