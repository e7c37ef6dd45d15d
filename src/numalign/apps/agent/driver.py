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
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.daemon.beside import Beside
from numalign.adapters.local.state_files import StateDirectory
from numalign.adapters.processes import callers
from numalign.apps.agent import events, saved
from numalign.apps.agent.model import RUN_SOURCE, AgentSetup, AgentState, Caller, Refusal, Run
from numalign.apps.agent.notes import Note, PodAdmitted, PodRejected
from numalign.apps.agent.runtimes.protocols import CallHeard, Plugins, Runtime, unheard
from numalign.apps.agent.starting import refusals
from numalign.apps.agent.step import not_saved, step
from numalign.apps.agent.steps.failures import refuse_event
from numalign.apps.agent.steps.host_changes import offline_problems
from numalign.apps.agent.views.journal import Decision, Journal
from numalign.apps.agent.views.manifests import Look, manifest_problems
from numalign.apps.agent.watching.pace import Pace
from numalign.apps.agent.watching.problems import Problems
from numalign.core.asker import Asker
from numalign.core.errors import PeerError, PostponedError, unexpected
from numalign.core.explain.causes import Case
from numalign.core.explain.explain import explain
from numalign.core.kubelet.host import HostState
from numalign.core.machine.machine import Machine
from numalign.wire.checkpoints import state_files
from numalign.wire.pods.records import PodRecord

EVENTS_WAITING_MAX: Final = 20_000
EVENTS_AT_ONCE_MAX: Final = 64  # decided one by one, saved together
CANNOT_START_CODE: Final = 128
RETRY_SECONDS: Final = 2.0  # until what the runtime refused is tried again
TASK_PROBLEM_SECONDS: Final = 600.0  # for which a failure of our own is told
WRITE_SECONDS_MAX: Final = 10.0  # for what is being written when the agent ends
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
        self._problems = Problems()
        self._disk = Beside("numalign-disk", 1)  # one: what is written last is the newest
        self._explaining = Beside("numalign-explain", 1)
        self._repairing = asyncio.Lock()
        self._handling = asyncio.Lock()  # held while events are decided and carried out
        self.pace = Pace()
        self.clock_jump: Callable[[], float] = lambda: 0.0  # by how much the clock was set
        self.manifests = Look()  # set by who follows the directory
        # Who counts Register calls, Allocate calls (with their seconds) and PodResources calls.
        self.on_registered: Callable[[str], None] = lambda _resource: None
        self.on_allocated: Callable[[str, float], None] = lambda _resource, _seconds: None
        self.on_asked: CallHeard = unheard

    # What others may see and ask.

    @property
    def now(self) -> Callable[[], float]:
        """The agent's clock."""
        return self._now

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
        of_work = [*self._problems.values(), *self.state.problems(), *self.pace.problems()]
        of_files = manifest_problems(self.manifests, self.state)
        found = [*sorted(of_work), *offline_problems(self.state), *of_files]
        return [text.encode("utf-8", "backslashreplace").decode() for text in found]

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
            async with self._handling:
                await self.handle(*batch)
            if self._events.qsize() < EVENTS_WAITING_MAX // 2:
                self._problems.pop("events")
            await asyncio.sleep(0)  # a full queue must not keep others from being answered

    def tell(self, event: events.Event) -> None:
        """Hands an event to the loop from anywhere in this thread."""
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            self._problems["events"] = f"{EVENTS_WAITING_MAX} events are waiting to be handled"
            if not isinstance(event, events.Tick | events.RepairDue):  # these come again
                self._in_background("queue", self._events.put(event))

    async def hand_in(self, event: events.Event) -> None:
        """Hands an event to the loop, and waits while too many are before it."""
        await self._events.put(event)

    async def handle(self, *happened: events.Event) -> None:
        """Decides about events, then does what follows; nothing does if that cannot be saved."""
        start = time.perf_counter()
        try:
            after, effects = step(self.setup, self.state, *happened)
            decisions = sum(_is_decision(effect) for effect in effects)
            seconds = (time.perf_counter() - start) / max(decisions, 1)
            if not any(isinstance(effect, events.Save) for effect in effects):
                self._state = after
            await self._carry_out(effects, seconds)
        except _NotSavedError as error:
            self._state, effects = not_saved(self.setup, self.state, happened, str(error))
            await self._carry_out(effects)
        except Exception as error:
            await self._handle_singly(happened, error)

    async def _handle_singly(self, happened: Sequence[events.Event], error: Exception) -> None:
        """Of events that cannot be handled or saved together, the one that cannot be is refused."""
        if len(happened) > 1:
            for event in happened:
                await self.handle(event)
            return
        log.error("event_not_handled", what=type(happened[0]).__name__, exc_info=error)
        self._state, effects = refuse_event(self.state, happened[0], unexpected(error))
        await self._carry_out(effects)

    async def _carry_out(self, effects: Iterable[events.Effect], seconds: float = 0.0) -> None:
        for effect in effects:
            what = type(effect).__name__
            self.pace.begin(what)
            if isinstance(effect, events.Save):
                await self._save(effect.state)
                self._state = effect.state
                continue
            try:
                await self._carry_out_one(effect, seconds)
            except Exception as error:
                self._problems[what] = f"{what}: {unexpected(error)}"
                log.exception("effect_failed", what=what)
            else:
                self._problems.pop(what, None)
        self.pace.end()

    async def _carry_out_one(  # noqa: PLR0912 - one table of effects
        self, effect: events.Effect, seconds: float
    ) -> None:
        match effect:
            case events.Save():
                raise AssertionError("saved before anything else is done")
            case events.SaveRefusals(kept):
                with self._noting_refusals("keep the reasons of refusals"):
                    await self._disk.run(self._write_refusals, kept)
            case events.PinHelpers(cpus):
                with self._noting_refusals("pin helpers"):
                    await self.runtime.pin_helpers(cpus)
            case events.SetQosWeights(weights):
                with self._noting_refusals("set QoS weights"):
                    await self.runtime.set_qos_weights(weights)
            case events.PinContainers(pins):
                with self._noting_refusals("pin"):
                    await self.runtime.pin(pins)
            case events.Answer():
                self._answer(effect)
            case events.StartContainer():
                self._in_background("start", self._start(effect))
                # It begins before what follows: the runtime minds pins that come meanwhile.
                await asyncio.sleep(0)
            case events.WatchCaller(uid, caller):
                self._in_background("watch", self._watch(uid, caller))
            case events.StopContainer():
                self._in_background("stop", self._stop(effect))
            case events.RunProbe():
                self._in_background("probe", self._probe(effect))
            case events.RunPostStart():
                self._in_background("post-start", self._post_start(effect))
            case events.AskPreference():
                self._in_background("prefer", self._ask_preference(effect))
            case events.AllocateDevices():
                self._in_background("allocate", self._allocate(effect))
            case events.PrestartDevices():
                self._in_background("prestart", self._prestart(effect))
            case events.RepairDrift():
                self._in_background("repair", self._repair(effect))
            case events.ReleasePod(uid):
                with self._trying_again(f"release {uid}", events.CleanUpDue(uid)):
                    await self.runtime.release_pod(uid)
            case events.ForgetPod(uid):
                with self._trying_again(f"forget {uid}", events.CleanUpDue(uid)):
                    await self.runtime.forget_pod(uid)
            case events.Explain(case):
                self._in_background("explain", self._explain(case))
            case events.Redeliver(event, after):
                asyncio.get_running_loop().call_later(after, self.tell, event)
            case events.Publish(note):
                self.journal.publish(note, seconds)

    # Carrying out.

    async def _save(self, state: AgentState) -> None:
        """Writes the state, in a thread: others are answered while the disk takes its time."""
        await self._disk.run(self._write, state)

    def _write_refusals(self, kept: Mapping[str, Refusal]) -> None:
        self._files.write(refusals.FILE_NAME, refusals.dump(kept))

    def _write(self, state: AgentState) -> None:
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

    @contextlib.contextmanager
    def _trying_again(self, what: str, event: events.Event) -> Iterator[None]:
        """The same, with an event that leads to another try, also after what nobody foresaw."""
        try:
            with self._noting_refusals(what):
                yield
        except Exception as error:
            self._problems[what] = f"{what}: {self._unforeseen(what, error)}"
        if what in self._problems:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry, what, event)

    def _retry(self, what: str, event: events.Event) -> None:
        self._problems.pop(what)  # it may be that nothing is left to be tried
        self.tell(event)

    def _in_background(self, what: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._note_outcome(what, task))

    def _note_outcome(self, what: str, task: asyncio.Task[None]) -> None:
        """A failure is a problem until the same kind of work is done well again."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._problems.pop(f"task {what}", None)
            return
        text = str(error) if isinstance(error, PeerError) else unexpected(error)
        self._problems.note(f"task {what}", f"{what}: {text}", TASK_PROBLEM_SECONDS)
        log.error("task_failed", what=what, error=text, exc_info=error)

    async def _start(self, effect: events.StartContainer) -> None:
        where = effect.uid, effect.container, effect.attempt
        try:
            started = await self.runtime.start(effect)
        except PostponedError as error:
            self.tell(events.ContainerPostponed(*where, error.reason, str(error), self._now()))
            return
        except (PeerError, OSError) as error:
            log.warning("container_not_started", uid=where[0], name=where[1], error=str(error))
            self.tell(events.ContainerExited(*where, CANNOT_START_CODE, self._now(), str(error)))
            return
        except Exception as error:
            text = self._unforeseen("start", error)
            self.tell(events.ContainerExited(*where, CANNOT_START_CODE, self._now(), text))
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
        again = events.StopDue(uid, container)
        with self._trying_again(f"stop {container} of {uid}", again):
            await self.runtime.stop(uid, container, grace)

    async def _probe(self, effect: events.RunProbe) -> None:
        where = effect.uid, effect.container, effect.attempt, effect.kind
        try:
            error = await self.runtime.run_probe(
                effect.uid, effect.container, effect.probe, effect.record
            )
        except Exception as unforeseen:
            error = self._unforeseen("probe", unforeseen)
        self.tell(events.ProbeAnswered(*where, not error, error, self._now()))

    async def _post_start(self, effect: events.RunPostStart) -> None:
        where = effect.uid, effect.container
        hook, record, seconds_max = effect.hook, effect.record, effect.seconds_max
        try:
            error = await self.runtime.run_hook(*where, hook, record, seconds_max)
        except Exception as unforeseen:
            error = self._unforeseen("post-start", unforeseen)
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
        except Exception as error:
            text = self._unforeseen("prestart", error)
            event = events.ContainerExited(*where, CANNOT_START_CODE, self._now(), text)
        await self._events.put(event)

    @staticmethod
    def _unforeseen(what: str, error: Exception) -> str:
        """What to say of an error that is this one container's failure and nobody's expectation."""
        log.error("object_failed", what=what, exc_info=error)
        return unexpected(error)

    async def _ask_preference(self, effect: events.AskPreference) -> None:
        asked, event = effect.preference, effect.event
        try:
            ids = await self.plugins.preferred(
                asked.resource, asked.offered, asked.must, asked.count
            )
        except PeerError as error:
            log.warning("no_preference", resource=asked.resource, error=str(error))
            ids = ()
        except Exception as error:
            self._unforeseen("prefer", error)
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
        except Exception as error:
            text = self._unforeseen("allocate", error)
            event = events.DevicesRefused(*where, text, self._now())
        self.on_allocated(effect.resource, time.perf_counter() - start)
        await self._events.put(event)

    async def _explain(self, case: Case) -> None:
        """In a thread: it decides anew, more slowly, and must not hold up other decisions."""
        try:
            found = await self._explaining.run(explain, case)
        except Exception:
            log.exception("not_explained", pod=case.pod.name)
            return
        await self._events.put(events.RefusalExplained(case.pod.uid, found))

    async def _repair(self, effect: events.RepairDrift) -> None:
        if self._repairing.locked():
            return  # the last look is still under way; the next one sees the rest
        async with self._repairing:
            await self._repair_now(effect)

    async def _repair_now(self, effect: events.RepairDrift) -> None:
        with self._noting_refusals("repair"):
            found = await self.runtime.repair_drift(effect.pins, effect.pods)
            if found:
                await self._events.put(events.DriftRepaired(tuple(found)))

    # Time.

    async def tick(self, seconds: float = 1.0) -> None:
        """Lets time pass for what waits."""
        while True:
            await asyncio.sleep(seconds)
            if moved := self.clock_jump():
                self.tell(events.ClockMoved(moved))
            self.tell(events.Tick(self._now()))

    async def reconcile(self, seconds: float) -> None:
        """Has drift repaired, again and again."""
        while True:
            await asyncio.sleep(seconds)
            self.tell(events.RepairDue())

    async def finish(self) -> None:
        """Waits until what was decided is carried out, but not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WRITE_SECONDS_MAX), self._handling:
                pass

    async def close(self) -> None:
        """Ends what runs beside the loop. Containers go on."""
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._disk.finish(WRITE_SECONDS_MAX)
        self._explaining.close()


class _NotSavedError(Exception):
    """The state could not be written: nothing of what follows from it may be done."""


def _is_decision(effect: events.Effect) -> bool:
    return isinstance(effect, events.Publish) and isinstance(effect.note, PodAdmitted | PodRejected)
