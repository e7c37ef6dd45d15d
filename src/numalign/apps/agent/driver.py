"""Carries the agent's effects out and feeds what comes of them back as events.

One writer: only the loop here changes the state, one turn after the other, and effects are carried
out in the order in which ``step`` gives them. Everything slow (device plugins, explanations, the
end of a container) runs beside the loop and comes back as an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.processes import callers
from numalign.apps.agent import events, saved
from numalign.apps.agent.journal import Decision, Journal
from numalign.apps.agent.model import RUN_SOURCE, AgentSetup, AgentState, Caller, Run
from numalign.apps.agent.notes import Note, PodAdmitted, PodRejected
from numalign.apps.agent.runtimes.protocols import CallHeard, Plugins, Runtime, unheard
from numalign.apps.agent.starting import refusals
from numalign.apps.agent.step import not_saved, step
from numalign.core.asker import Asker
from numalign.core.errors import PeerError, PostponedError
from numalign.core.explain.causes import Case
from numalign.core.explain.explain import explain
from numalign.core.kubelet.host import HostState
from numalign.core.machine.machine import Machine
from numalign.wire.checkpoints import state_files
from numalign.wire.pods.records import PodRecord

EVENTS_WAITING_MAX: Final = 20_000
EVENTS_AT_ONCE_MAX: Final = 64  # decided one by one, saved together
CANNOT_START_CODE: Final = 128
STOP_SECONDS_MIN: Final = 2.0

log = structlog.get_logger("numalign.agent")


class Agent:
    def __init__(
        self,
        setup: AgentSetup,
        machine: Machine,
        files: StateDirectory,
        runtime: Runtime,
        plugins: Plugins,
        now: Callable[[], float],
    ) -> None:
        self.setup = setup
        self.machine = machine
        self.runtime = runtime
        self.plugins = plugins
        self.journal = Journal(now)
        self._files = files
        self._now = now
        self._state: AgentState | None = None
        self._written: HostState | None = None  # what the files say, if that is known
        self._events: asyncio.Queue[events.Event] = asyncio.Queue(EVENTS_WAITING_MAX)
        self._answers: dict[int, asyncio.Future[events.Answer]] = {}
        self._requests = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._problems: dict[str, str] = {}
        # Who counts Register calls, Allocate calls (with their seconds) and PodResources calls.
        self.on_registered: Callable[[str], None] = lambda _resource: None
        self.on_allocated: Callable[[str, float], None] = lambda _resource, _seconds: None
        self.on_asked: CallHeard = unheard

    # What others may see and ask.

    @property
    def state(self) -> AgentState:
        assert self._state is not None, "the agent is asked before it has started"
        return self._state

    @property
    def recent(self) -> Sequence[Decision]:
        """The last decisions, newest last."""
        return self.journal.recent

    def subscribe(self) -> AsyncIterator[Note]:
        """Everything that happens from now on; a slow reader loses the oldest, and is told."""
        return self.journal.subscribe()

    def health(self) -> list[str]:
        """What is wrong just now; empty if all is well."""
        halted = [self.state.halted] if self.state.halted else []
        return sorted([*self._problems.values(), *halted])

    def log_path(self, uid: str, container: str) -> Path:
        return self.runtime.log_path(uid, container)

    async def submit(
        self,
        record: PodRecord,
        *,
        source: str = "api",
        uid: str | None = None,
        asker: Asker | None = None,
    ) -> events.Answer:
        """Has a pod admitted; the answer comes when the decision is on the disk."""
        chosen = uid or record.metadata.uid
        assert chosen, "a pod has a uid before it is submitted"
        request = next(self._requests)
        event = events.PodSubmitted(chosen, record, source, self._now(), request, asker=asker)
        return await self._ask(request, event)

    async def start_run(self, record: PodRecord, run: Run) -> events.Answer:
        """Has a command run where it fits; the answer comes when its process is in its place."""
        request = next(self._requests)
        asked = replace(run, request=request)
        uid, now = record.metadata.uid, self._now()
        event = events.PodSubmitted(uid, record, RUN_SOURCE, now, request, run=asked)
        return await self._ask(request, event)

    async def apply(
        self,
        pods: Sequence[tuple[str, PodRecord]],
        *,
        namespace: str = "",
        owner: tuple[str, str] | None = None,
        asker: Asker | None = None,
    ) -> tuple[list[events.Answer], events.Answer]:
        """Has pods be as written, and no others of the owner; an answer for each, and for all."""
        requests = [next(self._requests) for _ in range(len(pods) + 1)]
        wanted = tuple(
            events.Wanted(uid, record, request)
            for (uid, record), request in zip(pods, requests, strict=False)
        )
        event = events.PodsApplied(
            wanted, "api", self._now(), requests[-1], namespace, owner, asker
        )
        *each, whole = await self._ask_all(requests, event)
        return each, whole

    async def delete(self, uid: str) -> events.Answer:
        """Has a pod ended; the answer comes when that is on the disk, not when it is gone."""
        request = next(self._requests)
        return await self._ask(request, events.PodDeleted(uid, self._now(), request))

    async def _ask(self, request: int, event: events.Event) -> events.Answer:
        [answer] = await self._ask_all([request], event)
        return answer

    async def _ask_all(self, requests: Sequence[int], event: events.Event) -> list[events.Answer]:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in requests]
        self._answers.update(zip(requests, futures, strict=True))
        try:
            await self._events.put(event)
            return list(await asyncio.gather(*futures))
        finally:
            for request in requests:
                self._answers.pop(request, None)

    # The loop.

    def begin(self, state: AgentState) -> None:
        """Takes up a state; its effects come through ``run``."""
        self._state = state

    async def run(self, first: Iterable[events.Effect] = ()) -> None:
        """Carries out the first effects, then handles events for ever."""
        await self._carry_out(first)
        while True:
            batch = [await self._events.get()]
            while not self._events.empty() and len(batch) < EVENTS_AT_ONCE_MAX:
                batch.append(self._events.get_nowait())
            await self.handle(*batch)
            await asyncio.sleep(0)  # a full queue must not keep others from being answered

    def tell(self, event: events.Event) -> None:
        """Hands an event to the loop from anywhere in this thread."""
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            self._problems["events"] = f"{EVENTS_WAITING_MAX} events are waiting; some were dropped"

    async def handle(self, *happened: events.Event) -> None:
        """Decides about events, then does what follows; nothing does if that cannot be saved."""
        before = self.state
        start = time.perf_counter()
        self._state, effects = step(self.setup, before, *happened)
        decisions = sum(_is_decision(effect) for effect in effects)
        seconds = (time.perf_counter() - start) / max(decisions, 1)
        try:
            await self._carry_out(effects, seconds)
        except _NotSavedError as error:
            self._state = before
            await self._carry_out(not_saved(self.setup, happened, str(error)))

    async def _carry_out(  # noqa: PLR0912 - one table of effects
        self, effects: Iterable[events.Effect], seconds: float = 0.0
    ) -> None:
        for effect in effects:
            match effect:
                case events.Save(state):
                    self._save(state)
                case events.SaveRefusals(kept):
                    with self._noting_refusals("keep the reasons of refusals"):
                        self._files.write(refusals.FILE_NAME, refusals.dump(kept))
                case events.PinHelpers(cpus):
                    with self._noting_refusals("pin helpers"):
                        self.runtime.pin_helpers(cpus)
                case events.SetQosWeights(weights):
                    with self._noting_refusals("set QoS weights"):
                        self.runtime.set_qos_weights(weights)
                case events.PinContainers(pins):
                    with self._noting_refusals("pin"):
                        await self.runtime.pin(pins)
                case events.Answer():
                    self._answer(effect)
                case events.StartContainer():
                    if self.runtime.starts_in_background:
                        self._in_background(self._start(effect))
                    else:
                        await self._start(effect)
                case events.WatchCaller(uid, caller):
                    self._in_background(self._watch(uid, caller))
                case events.StopContainer():
                    self._in_background(self._stop(effect))
                case events.RunProbe():
                    self._in_background(self._probe(effect))
                case events.RunPostStart():
                    self._in_background(self._post_start(effect))
                case events.AskPreference():
                    self._in_background(self._ask_preference(effect))
                case events.AllocateDevices():
                    self._in_background(self._allocate(effect))
                case events.PrestartDevices():
                    self._in_background(self._prestart(effect))
                case events.RepairDrift():
                    self._in_background(self._repair(effect))
                case events.ReleasePod(uid):
                    with self._noting_refusals(f"release {uid}"):
                        self.runtime.release_pod(uid)
                case events.ForgetPod(uid):
                    with self._noting_refusals(f"forget {uid}"):
                        self.runtime.forget_pod(uid)
                case events.Explain(case):
                    self._in_background(self._explain(case))
                case events.Redeliver(event, after):
                    asyncio.get_running_loop().call_later(after, self.tell, event)
                case events.Publish(note):
                    self.journal.publish(note, seconds)

    # Carrying out.

    def _save(self, state: AgentState) -> None:
        files = state_files.encoded(state.host, self.setup.host.settings, self._written)
        pods = saved.dump(state.pods)
        self._written = None  # if this fails half-way, the next one writes all files
        try:
            for name, data in files.items():
                self._files.write(state_files.PLACES[name], data)
            # The pods come last: one that is not said to await its plugin has the answer on disk.
            self._files.write(saved.FILE_NAME, pods)
        except PeerError as error:
            self._problems["save"] = str(error)
            log.warning("state_not_saved", error=str(error))
            raise _NotSavedError(str(error)) from error
        self._written = state.host
        self._problems.pop("save", None)

    def _answer(self, answer: events.Answer) -> None:
        future = self._answers.get(answer.request)
        if future is not None and not future.done():
            future.set_result(answer)

    @contextlib.contextmanager
    def _noting_refusals(self, what: str) -> Iterator[None]:
        """Something that the runtime may refuse: that is a problem to tell, until it works."""
        try:
            yield
        except (PeerError, OSError) as error:  # OSError: out of descriptors or memory, mostly
            self._problems[what] = str(error)
            log.warning("runtime_refused", what=what, error=str(error))
        else:
            self._problems.pop(what, None)

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_failure)

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._problems["task"] = repr(error)
            log.error("task_failed", error=repr(error))

    async def _start(self, effect: events.StartContainer) -> None:
        where = effect.uid, effect.container, effect.attempt
        try:
            started = await self.runtime.start(effect)
        except PostponedError as error:
            self.tell(events.ContainerPostponed(*where, error.reason, str(error), self._now()))
            return
        except (PeerError, OSError) as error:
            self.tell(events.ContainerExited(*where, CANNOT_START_CODE, self._now(), str(error)))
            return
        self.tell(events.ContainerStarted(*where, started.pid, self._now(), started.id))

    async def _watch(self, uid: str, caller: Caller) -> None:
        await callers.wait_until_gone(caller.pid, caller.start, caller.boot)
        await self._events.put(events.CallerGone(uid, self._now()))

    async def _stop(self, effect: events.StopContainer) -> None:
        """The preStop hook and then the signal, both within the grace period."""
        uid, container, grace = effect.uid, effect.container, effect.grace_seconds
        if effect.pre_stop is not None and effect.record is not None:
            begun = time.monotonic()
            error = await self.runtime.run_hook(
                uid, container, effect.pre_stop, effect.record, grace
            )
            if error:
                log.warning("pre_stop_failed", uid=uid, container=container, error=error)
            # As the kubelet: after a long hook there is still a moment to end by itself.
            grace = max(grace - (time.monotonic() - begun), STOP_SECONDS_MIN)
        await self.runtime.stop(uid, container, grace)

    async def _probe(self, effect: events.RunProbe) -> None:
        where = effect.uid, effect.container, effect.attempt, effect.kind
        error = await self.runtime.run_probe(
            effect.uid, effect.container, effect.probe, effect.record
        )
        self.tell(events.ProbeAnswered(*where, not error, error, self._now()))

    async def _post_start(self, effect: events.RunPostStart) -> None:
        where = effect.uid, effect.container
        error = await self.runtime.run_hook(*where, effect.hook, effect.record, effect.seconds_max)
        self.tell(events.PostStartEnded(*where, effect.attempt, error, self._now()))

    async def _prestart(self, effect: events.PrestartDevices) -> None:
        where = effect.uid, effect.container, effect.attempt
        event: events.Event
        try:
            for resource, ids in effect.devices:
                await self.plugins.prestart(resource, ids)
            event = events.DevicesPrestarted(*where, self._now())
        except PeerError as error:
            event = events.ContainerExited(*where, CANNOT_START_CODE, self._now(), str(error))
        await self._events.put(event)

    async def _ask_preference(self, effect: events.AskPreference) -> None:
        asked, event = effect.preference, effect.event
        try:
            ids = await self.plugins.preferred(
                asked.resource, asked.offered, asked.must, asked.count
            )
        except PeerError as error:
            log.warning("no_preference", resource=asked.resource, error=str(error))
            ids = ()
        preferences = {**event.preferences, asked: tuple(ids)}
        await self._events.put(replace(event, preferences=preferences))

    async def _allocate(self, effect: events.AllocateDevices) -> None:
        where = effect.uid, effect.container, effect.resource
        event: events.Event
        start = time.perf_counter()
        try:
            answer = await self.plugins.allocate(effect.resource, effect.ids)
            event = events.DevicesAllocated(*where, answer, self._now())
        except PeerError as error:
            event = events.DevicesRefused(*where, str(error), self._now())
        self.on_allocated(effect.resource, time.perf_counter() - start)
        await self._events.put(event)

    async def _explain(self, case: Case) -> None:
        """In a thread: it decides anew, more slowly, and must not hold up other decisions."""
        try:
            found = await asyncio.to_thread(explain, case)
        except Exception:
            log.exception("not_explained", pod=case.pod.name)
            return
        await self._events.put(events.RefusalExplained(case.pod.uid, found))

    async def _repair(self, effect: events.RepairDrift) -> None:
        with self._noting_refusals("repair"):
            found = await self.runtime.repair_drift(effect.pins)
            if found:
                await self._events.put(events.DriftRepaired(tuple(found)))

    # Time.

    async def tick(self, seconds: float = 1.0) -> None:
        """Lets time pass for what waits."""
        while True:
            await asyncio.sleep(seconds)
            self.tell(events.Tick(self._now()))

    async def reconcile(self, seconds: float) -> None:
        """Has drift repaired, again and again."""
        while True:
            await asyncio.sleep(seconds)
            self.tell(events.RepairDue())

    async def close(self) -> None:
        """Ends what runs beside the loop. Containers go on."""
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


class _NotSavedError(Exception):
    """The state could not be written: nothing of what follows from it may be done."""


def _is_decision(effect: events.Effect) -> bool:
    return isinstance(effect, events.Publish) and isinstance(effect.note, PodAdmitted | PodRejected)
