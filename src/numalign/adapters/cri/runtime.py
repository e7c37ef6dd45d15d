"""Containers in a container runtime such as containerd, through CRI.

The runtime keeps everything: containers outlive the agent, and the agent finds its own again by
their labels. A container may be moved while it is being started: ``wanted`` is where it has to be,
and whoever changes it, or has just created or started the container, sees to it that it gets there.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.cgroups.tree import CpusetPlacement
from numalign.adapters.cri import logs as cri_logs
from numalign.adapters.cri.client import CriClient, persistently
from numalign.adapters.cri.groups import PodGroups
from numalign.adapters.cri.images import Images
from numalign.adapters.cri.watch import RETRY_SECONDS, RETRY_SECONDS_MAX, Watch
from numalign.adapters.processes.values import Drift, DriftKind, Exited, Expected, Running
from numalign.core.errors import PeerError, PostponedError
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.core.values.sets import parse_list
from numalign.wire.grpc import cri as wire
from numalign.wire.grpc.cri_values import (
    ContainerSpec,
    Listed,
    PullPolicy,
    Report,
    RunStatus,
    Sandbox,
    SandboxSpec,
)

# Our own label: other agents (the kubelet too) may use the same runtime.
OWNER: Final = "numalign.io/agent"
LOST_CODE: Final = 137  # nobody is left who knows how it ended: as after a kill
OOM_KILLED: Final = "OOMKilled"  # the runtimes' reason
STARTS_MAX: Final = 8  # at the same time
MOVES_MAX: Final = 16
SETTLE_SECONDS_MAX: Final = 30.0  # for a start that nobody waits for any more
SETTLE_PAUSE_SECONDS: Final = 0.1

Key = tuple[str, str]  # pod uid, container

log = structlog.get_logger("numalign.cri")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A container to start, with all that its pod needs."""

    sandbox: SandboxSpec
    qos: Qos
    pod_limits: Limits
    container: ContainerSpec
    pull: PullPolicy

    @property
    def key(self) -> Key:
        return self.sandbox.uid, self.container.name


@dataclass(slots=True)
class _Known:
    """A container that we started, or that is being started (then without an id at first)."""

    attempt: int
    wanted: CpusetPlacement | None
    id: str = ""
    pid: int = 0
    is_started: bool = False
    placed: CpusetPlacement | None = None  # as the runtime was told last
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class CriRuntime:
    """Runs containers in a runtime of this name; ``owner`` tells ours from those of others."""

    def __init__(
        self,
        client: CriClient,
        name: str,
        groups: PodGroups,
        owner: str,
        *,
        log_path: Callable[[str, str], Path],
        notes: tuple[str, ...] = (),
        settle_seconds: float = SETTLE_SECONDS_MAX,
    ) -> None:
        self.client = client
        self.name = name
        self.groups = groups
        self.notes = notes
        self._log_path = log_path
        self._settle_seconds = settle_seconds
        self._labels = {OWNER: owner}
        self._known: dict[Key, _Known] = {}
        self._exits: asyncio.Queue[Exited] = asyncio.Queue()
        self._watch = Watch(client, self._find_ended)
        self._images = Images(client)
        self._starts = asyncio.Semaphore(STARTS_MAX)
        self._moves = asyncio.Semaphore(MOVES_MAX)
        self._pods: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: dict[str, asyncio.Task[None]] = {}  # pods that are being removed

    # Starting.

    async def start(self, request: StartRequest) -> tuple[Running, str]:
        """Starts a container and gives its id too.

        PostponedError while its image or the runtime is not there.
        """
        uid, name = request.key
        if request.key in self._known:
            raise PeerError(f"container {name} of pod {uid} runs already")
        resources = request.container.resources
        wanted = CpusetPlacement(resources.cpus, resources.mems)
        known = _Known(request.container.attempt, wanted)
        self._known[request.key] = known
        try:
            image_id = await self._images.ready(request.container, request.pull, known.stopping)
            if (leaving := self._leaving.get(uid)) is not None:
                await asyncio.shield(leaving)  # an earlier pod of the same uid
            async with self._starts:
                running = await self._create_and_start(request, known, image_id)
        except PeerError as error:
            await self._remove_failed(request.key, known)
            if error.retry and not isinstance(error, PostponedError):
                raise PostponedError(str(error), reason="RuntimeUnavailable") from error
            raise
        except asyncio.CancelledError:
            self._known.pop(request.key, None)
            raise
        self._watch.hint()
        return running, known.id

    async def _create_and_start(
        self, request: StartRequest, known: _Known, image_id: str
    ) -> Running:
        uid, name = request.key
        async with self._pods[uid]:
            await self._remove_earlier(self._labels_of(*request.key))
            sandbox_id, sandbox = await self._sandbox(request)
            # What was wanted may have changed while the image was being pulled.
            placement = known.wanted or CpusetPlacement()
            resources = replace(
                request.container.resources, cpus=placement.cpus, mems=placement.mems
            )
            spec = replace(
                request.container,
                image_id=image_id,
                resources=resources,
                labels={**request.container.labels, **self._labels},
            )
            known.placed = placement
            known.id = await self.client.create(sandbox_id, sandbox, spec)
        await self._move(request.key, known)
        if known.stopping.is_set():
            raise PeerError("it was stopped before it was started")
        await self.client.start(known.id)
        known.is_started = True
        report = await self.client.report(known.id)
        known.pid = report.pid if report is not None else 0
        await self._check_placement(request.key, known)
        started_ns = report.started_ns if report is not None else 0
        return Running(uid, name, known.attempt, known.pid, 0, started_ns)

    async def _check_placement(self, key: Key, known: _Known) -> None:
        """The kernel must have what the runtime was told; else the container must not go on."""
        await self._move(key, known)
        fault = self.groups.fault(key[0], known.id, known.wanted or CpusetPlacement())
        if fault and not known.lock.locked() and known.placed == known.wanted:
            raise PeerError(f"the container is not where it should be: {fault}")

    async def _sandbox(self, request: StartRequest) -> tuple[str, SandboxSpec]:
        """The sandbox of a pod that is ready, made if there is none."""
        spec = request.sandbox
        labels = {**spec.labels, **self._labels}
        found = await self.client.sandboxes(self._labels_of(spec.uid))
        for one in found:
            if one.is_ready:
                host = replace(spec.namespaces, host_network=one.host_network)
                return one.id, replace(spec, attempt=one.attempt, labels=labels, namespaces=host)
        for one in found:
            await self.client.remove_sandbox(one.id)
        attempt = 1 + max((one.attempt for one in found), default=-1)
        spec = replace(spec, attempt=attempt, labels=labels)
        self.groups.make(request.qos, spec.uid, request.pod_limits)
        if not spec.namespaces.host_network and (fault := await self.client.network_fault()):
            log.warning("host_network_given", pod=spec.name, uid=spec.uid, error=fault)
            host = replace(spec.namespaces, host_network=True)
            spec = replace(spec, namespaces=host, hostname="")
        if spec.namespaces.host_network:
            # Said with the sandbox, since its later containers must be told the same.
            annotations = {**spec.annotations, wire.HOST_NETWORK: "true"}
            spec = replace(spec, annotations=annotations)
        return await self.client.run_sandbox(spec), spec

    def _labels_of(self, uid: str, name: str | None = None) -> dict[str, str]:
        labels = {**self._labels, wire.POD_UID: uid}
        return labels if name is None else {**labels, wire.CONTAINER_NAME: name}

    async def _remove_earlier(self, labels: Mapping[str, str]) -> None:
        """Removes containers of earlier attempts, and what a start that timed out left behind."""
        for listed in await self.client.containers(labels):
            if await self._settle(listed) is not None:
                await self.client.remove(listed.id)

    async def _settle(self, one: Listed) -> Listed | None:
        """Removes a container whose start was cut short; gives it back if it runs after all.

        A runtime goes on with a start although its caller has died, calls the container created
        meanwhile and refuses to remove it. What comes of the start is then waited for.
        """
        deadline = time.monotonic() + self._settle_seconds
        while one.status is RunStatus.CREATED:
            try:
                await self.client.remove(one.id)
            except PeerError:
                report = await self.client.report(one.id)
                if report and report.status is RunStatus.CREATED and time.monotonic() > deadline:
                    raise
            else:
                return None
            if report is None:
                return None
            one = replace(one, status=report.status)
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)
        return one

    async def _remove_failed(self, key: Key, known: _Known) -> None:
        """Removes a container that could not be started."""
        try:
            if known.id:
                await self.client.remove(known.id)
        except PeerError as error:
            log.warning("container_not_removed", id=known.id, error=str(error))
        finally:
            if self._known.get(key) is known:
                del self._known[key]

    # The end.

    async def exits(self) -> AsyncIterator[Exited]:
        """The end of every container that ran, as it happens. For one reader."""
        watching = asyncio.create_task(self._watch.run())
        reading = asyncio.create_task(self._exits.get())
        try:
            while True:
                await asyncio.wait({reading, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    watching.result()  # it only ends by an error of our own
                yield reading.result()
                reading = asyncio.create_task(self._exits.get())
        finally:
            watching.cancel()
            reading.cancel()

    async def _find_ended(self) -> None:
        """Finds what has ended since the last look."""
        listed = {one.id: one for one in await self.client.containers(self._labels)}
        for key, known in list(self._known.items()):
            if not known.is_started:
                continue
            one = listed.get(known.id)
            if one is None or one.status is not RunStatus.RUNNING:
                await self._note_end(key, known)
        running = [(k.id, self._log_path(*key)) for key, k in self._known.items() if k.is_started]
        await cri_logs.rotate(self.client, running)

    async def _note_end(self, key: Key, known: _Known) -> None:
        report = await self._final(known.id)
        if report is not None and report.status is RunStatus.RUNNING:
            return
        if self._known.get(key) is known:
            del self._known[key]
            self._exits.put_nowait(_exited(key, known.attempt, report))

    async def _final(self, container_id: str) -> Report | None:
        """What is known of a container that should have ended; one in limbo is ended for good."""
        report = await self.client.report(container_id)
        if report is not None and report.status is RunStatus.UNKNOWN:
            await self.client.stop(container_id, 0)
            report = await self.client.report(container_id)
        return report

    async def stop(self, uid: str, name: str, grace_seconds: float) -> None:
        """Asks a container to end, and ends it after the grace period; tries until it works."""
        known = self._known.get((uid, name))
        if known is None:
            return
        known.stopping.set()
        pause = RETRY_SECONDS
        # One that is being started is ended by its start, or stopped again once it runs.
        while known.is_started and self._known.get((uid, name)) is known:
            try:
                await self.client.stop(known.id, math.ceil(grace_seconds))
                break
            except PeerError as error:
                log.warning("container_not_stopped", id=known.id, error=str(error), again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        self._watch.hint()

    # CpusetPlacement.

    async def pin_all(self, placements: Mapping[Key, CpusetPlacement]) -> None:
        """Moves many containers at once. All are tried; PeerError names every refusal."""
        moving = []
        for key, placement in placements.items():
            if (known := self._known.get(key)) is not None:
                known.wanted = placement
                moving.append(self._pin(key, known))
        refusals = [text for text in await asyncio.gather(*moving) if text]
        if refusals:
            raise PeerError("\n".join(refusals))

    async def _pin(self, key: Key, known: _Known) -> str:
        try:
            await self._move(key, known)
        except PeerError as error:
            return f"container {key[1]} of pod {key[0]}: {error}"
        fault = (
            self.groups.fault(key[0], known.id, known.wanted or CpusetPlacement())
            if known.id
            else ""
        )
        return f"container {key[1]} of pod {key[0]}: {fault}" if fault else ""

    async def _move(self, key: Key, known: _Known) -> None:
        """Brings a container to where it is wanted now, however often that changes meanwhile."""
        async with known.lock, self._moves:
            while known.id and known.wanted is not None and known.placed != known.wanted:
                if self._known.get(key) is not known:
                    return
                wanted = known.wanted
                await self.client.place(known.id, wanted.cpus, wanted.mems)
                known.placed = wanted

    async def repair_drift(self, expected: Iterable[Expected]) -> list[Drift]:
        """Puts right what has drifted, and gives what it found; PeerError if that fails."""
        there = [(one, self._known.get((one.pod_uid, one.container))) for one in expected]
        found = await asyncio.gather(
            *(self._repair_one(one, k) for one, k in there if k is not None and k.is_started),
            return_exceptions=True,
        )
        refusals = [str(one) for one in found if isinstance(one, PeerError)]
        if refusals:
            raise PeerError("\n".join(refusals))
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return [drift for drifts in found if isinstance(drifts, list) for drift in drifts]

    async def _repair_one(self, one: Expected, known: _Known) -> list[Drift]:
        key = one.pod_uid, one.container
        known.wanted = CpusetPlacement(one.cpus, one.mems)
        # Moves that are under way are no drift.
        await self._move(key, known)
        async with self._moves:
            report = await self.client.report(known.id)
        if report is None or report.status is not RunStatus.RUNNING:
            self._watch.hint()
            return []
        found = self.groups.drift(one, known.id, known.pid) + _asked_drift(one, report)
        if not found or known.wanted != CpusetPlacement(one.cpus, one.mems):
            return []
        known.placed = None
        await self._move(key, known)
        self.groups.limit_pod(one, known.id)
        self.groups.take_back(one.pod_uid, known.id, {d.pid for d in found if d.pid is not None})
        if fault := self.groups.fault(one.pod_uid, known.id, known.wanted):
            raise PeerError(f"container {one.container} of pod {one.pod_uid}: {fault}")
        return found

    # After a restart.

    async def adopt(self) -> list[Running | Exited]:
        """Finds everything again that was started before, running or ended meanwhile."""
        found: dict[Key, Running | Exited] = {}
        newest: dict[Key, Listed] = {}
        listed = await persistently(lambda: self.client.containers(self._labels), "containers")
        listed.sort(key=lambda c: c.attempt)
        for one in await asyncio.gather(*map(self._settle_or_leave, listed)):
            if one is None:
                continue
            earlier = newest.get((one.uid, one.name))
            if earlier is not None:
                await self._remove_or_leave(earlier)
            newest[one.uid, one.name] = one
        for key, one in newest.items():
            found[key] = await self._adopt_one(key, one)
        return list(found.values())

    async def _remove_or_leave(self, one: Listed) -> None:
        """Removes what is of no use; what the runtime keeps is removed before the next start."""
        try:
            await self.client.remove(one.id)
        except PeerError as error:
            log.warning("container_not_removed", id=one.id, error=str(error))

    async def _settle_or_leave(self, one: Listed) -> Listed | None:
        """As ``_settle``; what cannot be removed is left for the next start, which needs it gone.

        One container in limbo must not keep the agent from looking after all others.
        """
        try:
            return await self._settle(one)
        except PeerError as error:
            log.warning("container_not_removed", id=one.id, error=str(error))
            return None

    async def _adopt_one(self, key: Key, one: Listed) -> Running | Exited:
        try:
            found = _run_of(key, one, await self._final(one.id))
        except PeerError as error:
            # Nothing is known of it but that it is there. If it has ended, the watch will tell.
            log.warning("container_not_reported", id=one.id, error=str(error))
            found = Running(*key, one.attempt, 0, 0, 0)
        if isinstance(found, Running):
            known = _Known(one.attempt, None, id=one.id, pid=found.pid, is_started=True)
            self._known[key] = known
        return found

    async def pods(self) -> set[str]:
        """The uids of all pods of which something is left."""
        found = await persistently(lambda: self.client.sandboxes(self._labels), "sandboxes")
        return {one.uid for one in found} | self.groups.uids()

    # Forgetting.

    def release_pod(self, uid: str) -> None:
        """Ends the sandbox of a pod that will not run again; its containers stay to be seen."""
        self._run_in_background(self._end_sandboxes(uid, remove=False))

    def forget_pod(self, uid: str) -> None:
        """Removes all that is left of a pod, tried until it works."""
        if uid not in self._leaving:
            task = self._run_in_background(self._end_sandboxes(uid, remove=True))
            self._leaving[uid] = task
            task.add_done_callback(lambda _: self._leaving.pop(uid, None))

    async def _end_sandboxes(self, uid: str, *, remove: bool) -> None:
        pause = RETRY_SECONDS
        while True:
            try:
                async with self._pods[uid]:
                    for one in await self.client.sandboxes(self._labels_of(uid)):
                        await self._end_sandbox(one, remove=remove)
                    if pause > RETRY_SECONDS and (pids := self.groups.end(uid)):
                        # A sandbox whose making was cut short: the runtime knows nothing of it.
                        log.warning("left_over_ended", uid=uid, pids=sorted(pids))
                    self.groups.remove(uid)
                break
            except PeerError as error:
                log.warning("pod_not_removed", uid=uid, error=str(error), again_in=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        if remove and not self._pods[uid].locked():
            del self._pods[uid]

    async def _end_sandbox(self, one: Sandbox, *, remove: bool) -> None:
        await self.client.stop_sandbox(one.id)
        if remove:
            await self.client.remove_sandbox(one.id)

    def _run_in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Lets go of all containers, which go on running."""
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()


async def found_runs(client: CriClient, owner: str) -> list[Running | Exited]:
    """What ``adopt`` would find, without touching anything."""
    listed = sorted(await client.containers({OWNER: owner}), key=lambda c: c.attempt)
    newest = {(c.uid, c.name): c for c in listed if c.status is not RunStatus.CREATED}
    return [_run_of(key, c, await client.report(c.id)) for key, c in newest.items()]


def _run_of(key: Key, one: Listed, report: Report | None) -> Running | Exited:
    if report is None or report.status is not RunStatus.RUNNING:
        return _exited(key, one.attempt, report)
    return Running(*key, one.attempt, report.pid, 0, report.started_ns)


def _exited(key: Key, attempt: int, report: Report | None) -> Exited:
    if report is None:
        return Exited(*key, attempt, LOST_CODE, message="somebody else removed it from the runtime")
    return Exited(
        *key,
        attempt,
        report.exit_code,
        message=report.message,
        started_ns=report.started_ns or None,
        finished_ns=report.finished_ns or None,
        oom_killed=report.reason == OOM_KILLED,
    )


def _asked_drift(one: Expected, report: Report) -> list[Drift]:
    """What somebody else has asked the runtime for, which it would bring about at any time."""
    found = []
    for what, asked, wanted in (
        ("CPUs", report.cpus, one.cpus),
        ("memory nodes", report.mems, one.mems),
    ):
        if asked and wanted is not None and parse_list(asked) != wanted.mask:
            where = f"the runtime's {what} of {report.id}"
            found.append(
                Drift(one.pod_uid, one.container, DriftKind.VALUE, where, str(wanted), asked)
            )
    return found
