"""Follows the directory of manifests and tells the agent what has changed in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from numalign.adapters.daemon.beside import Beside
from numalign.adapters.local.files import reason_of
from numalign.adapters.local.manifests import Changes, Manifest, ManifestDirectory
from numalign.apps.agent import events
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.steps.admission import FILE
from numalign.apps.agent.views.manifests import Look
from numalign.core.errors import WireError

LOOK_SECONDS: Final = 1.0
SLOW_SECONDS: Final = 10.0  # a look that takes longer is told

log = structlog.get_logger("numalign.agent")


def remembered(pods: Mapping[str, AgentPod]) -> list[Manifest]:
    """The pods that came from files, as far as they are still wanted."""
    found = []
    for uid, known in pods.items():
        wanted = known.successor or known
        if wanted.source.startswith(FILE) and (known.successor or not known.deleting):
            found.append(Manifest(uid, wanted.record, wanted.source, wanted.asker))
    return found


def manifest_events(changes: Changes, now: float) -> list[events.Event]:
    """What a look at the directory tells the agent: what is gone first, so that nothing waits."""
    return [
        *(events.PodDeleted(uid, now) for uid in changes.gone),
        *(events.PodSubmitted(m.uid, m.record, m.source, now, asker=m.asker) for m in changes.new),
    ]


async def follow(
    directory: ManifestDirectory | None,
    hand_in: Callable[[events.Event], Awaitable[None]],
    show: Callable[[Look], None],
    now: Callable[[], float],
) -> None:
    """Looks again and again; once it was read, all sources of pods have spoken."""
    is_ready, beside = False, Beside("numalign-manifests", 1)
    look = Look("" if directory is None else str(directory.root))
    while True:
        if directory is not None:
            look, happened = await _looked(beside, directory, look, show, now)
            show(look)
            for event in happened:
                await hand_in(event)
        if not is_ready and not look.problem:
            await hand_in(events.SourcesReady(now()))
            is_ready = True
        await asyncio.sleep(LOOK_SECONDS)


async def _looked(
    beside: Beside,
    directory: ManifestDirectory,
    before: Look,
    show: Callable[[Look], None],
    now: Callable[[], float],
) -> tuple[Look, list[events.Event]]:
    try:
        changes = await _changes(beside, directory, before, show)
    except (OSError, WireError) as error:
        why = f"{directory.root}: the directory cannot be read: "
        problem = str(error) if isinstance(error, WireError) else why + reason_of(error)
        if problem != before.problem:
            log.warning("manifests_unreadable", directory=before.directory, error=str(error))
        return replace(before, problem=problem), []
    for fault in changes.faults:
        log.warning("manifest_refused", error=fault)
    for note in changes.notes:
        log.info("manifest_note", note=note)
    look = Look(before.directory, changes.files, changes.passed_over)
    return look, manifest_events(changes, now())


async def _changes(
    beside: Beside, directory: ManifestDirectory, before: Look, show: Callable[[Look], None]
) -> Changes:
    """One look, told about while it takes too long: a file system may hang."""
    start = time.monotonic()
    work = asyncio.ensure_future(beside.run(directory.changes))
    while not work.done():
        await asyncio.wait({work}, timeout=SLOW_SECONDS)
        if not work.done():
            seconds = time.monotonic() - start
            text = f"{directory.root}: a look at it takes {seconds:.0f} s by now"
            show(replace(before, problem=f"{text}; is its file system stuck?"))
    return work.result()
