"""Carries out what the step wants, and feeds it what happens. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.grpc import podresources_client
from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.nri.connection import UNKNOWN_METHOD, NriConnection, Reply
from numalign.adapters.nri.cpusets import Cpusets
from numalign.adapters.nri.two_copies import TwoCopies
from numalign.apps.nri import events, saved
from numalign.apps.nri.journal import Journal
from numalign.apps.nri.metrics import NriMetrics
from numalign.apps.nri.model import NriState
from numalign.apps.nri.step import step
from numalign.core.errors import NumalignError, PeerError
from numalign.core.values.sets import format_list, parse_list
from numalign.core.views.podresources import View
from numalign.wire.checkpoints import state_files
from numalign.wire.nri import messages
from numalign.wire.nri.ttrpc import Code
from numalign.wire.nri.values import Container, Event, Sandbox

DEVICE_SECONDS_MAX: Final = 0.5  # and at most a quarter of what the runtime gives us
DEVICE_RETRY_SECONDS: Final = 0.02  # the kubelet lets ten calls pass at once
CHECK_SECONDS: Final = 2.0  # after an answer that moved others: they need a moment for it
PUBLISH_SECONDS: Final = 0.5  # how often what others read is written at most
PODS_MAX: Final = 100_000  # in one synchronization
NOT_SAVED: Final = "StateNotSaved"
SHUTDOWN: Final = "Shutdown"

log = structlog.get_logger("numalign.nri")


class Driver:
    """The plugin's state, and everything that is done about it."""

    def __init__(
        self,
        state: NriState,
        file: TwoCopies,
        files: StateDirectory,
        metrics: NriMetrics,
        *,
        kubelet: Path | None = None,
        on_config: Callable[[str], None] | None = None,
        cpusets: Cpusets,
    ) -> None:
        self.state = state
        self._file = file  # what is held
        self._files = files  # what others read
        self._metrics = metrics
        self._journal = Journal(metrics)
        self._kubelet = kubelet  # its PodResources socket
        self._on_config = on_config
        self._cpusets = cpusets
        self._checking: asyncio.TimerHandle | None = None
        self._connection: NriConnection | None = None
        self._pods: list[Sandbox] = []
        self._containers: list[Container] = []
        self._published: NriState | None = None
        self._publishing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._request_seconds = messages.REQUEST_SECONDS_DEFAULT  # what the runtime gives us
        self.is_ended = False  # the runtime has asked us to go
        self._methods: dict[str, Callable[[bytes], Awaitable[Reply]]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "UpdateContainer": self._update,
            "StopContainer": self._stop_container,
            "StateChange": self._state_change,
            "RunPodSandbox": self._run_pod,
            "StopPodSandbox": self._stop_pod,
            "RemovePodSandbox": self._remove_pod,
            "RemoveContainer": self._remove_container,
            SHUTDOWN: self._shut_down,
        }

    async def serve(self, connection: NriConnection, name: str, index: str) -> None:
        """Registers and works until the connection ends; PeerError or WireError says why."""
        self._connection = connection
        self._pods, self._containers = [], []
        running = asyncio.create_task(connection.run(self._handle))
        try:
            registering = asyncio.create_task(
                connection.call("RegisterPlugin", messages.registration(name, index))
            )
            await asyncio.wait([running, registering], return_when=asyncio.FIRST_COMPLETED)
            if registering.done():
                registering.result()
            await running
        finally:
            running.cancel()
            self._connection = None
            self.handle(events.Disconnected())
            await asyncio.gather(running, return_exceptions=True)
            with contextlib.suppress(BaseException):
                registering.cancel()

    def stop(self) -> None:
        """Writes what others read a last time."""
        for timer in (self._publishing, self._checking):
            if timer is not None:
                timer.cancel()
        self._publish(self.state)

    # Events.

    def handle(self, event: events.Event) -> events.Answer | events.AskDevices | None:
        """What is to be answered; the state is as before if it cannot be saved."""
        after, effects = step(self.state, event)
        answer: events.Answer | events.AskDevices | None = None
        for effect in effects:
            match effect:
                case events.Save(state):
                    try:
                        with self._metrics.save_seconds.time():
                            self._file.write(partial(saved.dump, state))
                    except PeerError as error:
                        log.warning("state_not_saved", error=str(error))
                        text = f"numalign: {NOT_SAVED}: {error}"
                        return events.AnswerRefused(NOT_SAVED, text)
                case (
                    events.AskDevices()
                    | events.AnswerPlaced()
                    | events.AnswerUpdates()
                    | events.AnswerRefused()
                ):
                    answer = effect
                case events.SendUpdates(updates):
                    task = asyncio.get_running_loop().create_task(
                        self._send(messages.unsolicited(updates), len(updates))
                    )
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case _:
                    self._journal.note(effect)
        if isinstance(answer, events.AnswerPlaced | events.AnswerUpdates) and answer.updates:
            self._soon_checked()
        if after.host is not self.state.host or after.policy is not self.state.policy:
            self._soon_published()
        self.state = after
        self._journal.measure(after)
        return answer

    async def _handle(self, method: str, payload: bytes) -> Reply:
        work = self._methods.get(method)
        if work is None:
            return UNKNOWN_METHOD
        began = time.perf_counter()
        try:
            return await work(payload)
        finally:
            self._metrics.requests.labels(method).inc()
            self._metrics.seconds.labels(method).observe(time.perf_counter() - began)

    async def _configure(self, payload: bytes) -> Reply:
        found = messages.configuration_of(payload)
        log.info(
            "runtime_connected",
            runtime=found.runtime,
            version=found.runtime_version,
            nri=".".join(map(str, found.nri_version)) or "before 0.12",
            request_seconds=found.request_seconds,
        )
        if found.config and self._on_config is not None:
            try:
                self._on_config(found.config)
            except NumalignError as error:
                return Reply(code=Code.UNKNOWN, message=f"numalign: {error}")
        self._request_seconds = found.request_seconds
        self.handle(events.Connected(found.nri_version))
        return Reply(messages.configured())

    async def _synchronize(self, payload: bytes) -> Reply:
        pods, containers, more = messages.synchronization_of(payload)
        self._pods += pods
        self._containers += containers
        if len(self._containers) > PODS_MAX or len(self._pods) > PODS_MAX:
            return Reply(code=Code.UNKNOWN, message=f"numalign: more than {PODS_MAX} pods")
        if more:
            return Reply(messages.synchronized((), more=True))
        containers = tuple(self._as_they_are(one) for one in self._containers)
        event = events.Synchronized(tuple(self._pods), containers, await self._devices())
        self._pods, self._containers = [], []
        answer = self.handle(event)
        if isinstance(answer, events.AnswerUpdates):
            self._metrics.connections.inc()
            self._metrics.updates.inc(len(answer.updates))
            log.info(
                "synchronized",
                pods=len(event.pods),
                containers=len(event.containers),
                told=len(answer.updates),
                unplaced=len(self.state.unplaced),
            )
            return Reply(messages.synchronized(answer.updates))
        return _refusal(answer)

    def _as_they_are(self, one: Container) -> Container:
        """A container with the CPUs and nodes that the kernel says, where that can be seen.

        What a runtime says is what it was told last, whether or not that was carried out.
        """
        found = self._cpusets.read(one.cgroups_path) if one.is_alive else None
        if found is None:
            return one
        cpus, mems = format_list(found.cpus), format_list(found.mems)
        return replace(one, resources=replace(one.resources, cpus=cpus, mems=mems))

    async def _create(self, payload: bytes) -> Reply:
        pod, container = messages.creation_of(payload)
        answer = self.handle(events.ContainerCreating(pod, container))
        if isinstance(answer, events.AskDevices):
            devices = await self._devices()
            is_there = self._kubelet is not None and self._kubelet.exists()
            event = events.ContainerCreating(
                pod,
                container,
                devices,
                is_asked=True,
                is_unanswered=is_there and devices is None,
            )
            answer = self.handle(event)
        if isinstance(answer, events.AnswerPlaced):
            self._metrics.updates.inc(len(answer.updates))
            return Reply(messages.created(answer.placing, answer.updates))
        return _refusal(answer)

    async def _update(self, payload: bytes) -> Reply:
        return self._updates(self.handle(events.ContainerUpdating(*messages.update_of(payload))))

    async def _stop_container(self, payload: bytes) -> Reply:
        _, container = messages.pod_event_of(payload)
        return self._updates(self.handle(events.ContainerStopped(container)))

    def _updates(self, answer: events.Answer | events.AskDevices | None) -> Reply:
        if isinstance(answer, events.AnswerUpdates):
            self._metrics.updates.inc(len(answer.updates))
            return Reply(messages.updated(answer.updates))
        return _refusal(answer)

    async def _state_change(self, payload: bytes) -> Reply:
        number, pod, container = messages.state_change_of(payload)
        match number:
            case Event.RUN_POD_SANDBOX:
                return self._noted(events.PodStarted(pod))
            case Event.STOP_POD_SANDBOX:
                return self._noted(events.PodStopped(pod))
            case Event.REMOVE_POD_SANDBOX:
                return self._noted(events.PodRemoved(pod))
            case Event.REMOVE_CONTAINER:
                return self._noted(events.ContainerRemoved(container))
            case _:
                return Reply()

    async def _run_pod(self, payload: bytes) -> Reply:
        return self._noted(events.PodStarted(messages.pod_event_of(payload)[0]))

    async def _stop_pod(self, payload: bytes) -> Reply:
        return self._noted(events.PodStopped(messages.pod_event_of(payload)[0]))

    async def _remove_pod(self, payload: bytes) -> Reply:
        return self._noted(events.PodRemoved(messages.pod_event_of(payload)[0]))

    async def _remove_container(self, payload: bytes) -> Reply:
        return self._noted(events.ContainerRemoved(messages.pod_event_of(payload)[1]))

    async def _shut_down(self, _: bytes) -> Reply:
        self.is_ended = True
        log.info("runtime_ends")
        return Reply()

    def _noted(self, event: events.Event) -> Reply:
        answer = self.handle(event)
        return Reply() if answer is None else _refusal(answer)

    # Effects.

    async def _devices(self) -> View | None:
        """Who has which device, by the kubelet; None if it does not say so in time."""
        if self._kubelet is None or not self._kubelet.exists():
            return None
        deadline = time.monotonic() + min(DEVICE_SECONDS_MAX, self._request_seconds / 4)
        while True:
            left = deadline - time.monotonic()
            try:
                return await podresources_client.read(self._kubelet, max(0.01, left))
            except PeerError as error:
                if left > DEVICE_RETRY_SECONDS and "rate limit" in str(error):
                    await asyncio.sleep(DEVICE_RETRY_SECONDS)
                    continue
                self._metrics.device_faults.inc()
                log.warning("devices_unknown", error=str(error))
                return None

    async def _send(self, payload: bytes, count: int) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            failed = messages.failed_updates_of(await connection.call("UpdateContainers", payload))
        except NumalignError as error:
            log.warning("updates_refused", error=str(error))
            return
        self._metrics.updates.inc(count)
        if failed:
            self.handle(events.DriftSeen(failed))

    def _soon_checked(self) -> None:
        if self._checking is None:
            loop = asyncio.get_running_loop()
            self._checking = loop.call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """Looks whether containers are where they were told to be."""
        self._checking = None
        drifted = tuple(
            id_
            for id_, one in self.state.containers.items()
            if one.cpus
            and (found := self._cpusets.read(one.cgroups_path)) is not None
            and found.cpus != parse_list(one.cpus)
        )
        if drifted:
            self._metrics.drifted.inc(len(drifted))
            log.warning("containers_drifted", containers=len(drifted), first=drifted[0])
            self.handle(events.DriftSeen(drifted))

    def _soon_published(self) -> None:
        if self._publishing is None:
            loop = asyncio.get_running_loop()
            self._publishing = loop.call_later(PUBLISH_SECONDS, self._begin_publishing)

    def _begin_publishing(self) -> None:
        # Beside the loop: nobody who waits for an answer needs these files.
        self._publishing = None
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._publish, self.state))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _publish(self, state: NriState) -> None:
        """Writes the kubelet's state files of what is held, for whoever reads those."""
        before = None if self._published is None else self._published.host
        try:
            found = state_files.encoded(state.host, state.policy.host.settings, before)
            for name, data in found.items():
                if name != state_files.DEVICES:
                    self._files.write(name, data)
        except PeerError as error:
            log.warning("state_not_published", error=str(error))
            return
        self._published = state


def _refusal(answer: events.Answer | events.AskDevices | None) -> Reply:
    assert isinstance(answer, events.AnswerRefused), "every request has an answer"
    return Reply(code=Code.UNKNOWN, message=answer.message)
