"""Carries the agent's effects out and feeds what comes of them back as events.

One writer: only the loop here changes the state, one event after the other. Everything slow (device
plugins, the end of a container) runs beside it and comes back as an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
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

from numalign.adapters.local.state_files import StateDirectory
from numalign.apps.agent import lifecycle, saved
from numalign.apps.agent.events import (
    AllocateDevices,
    Answer,
    AskPreference,
    ContainerExited,
    ContainerPostponed,
    ContainerStarted,
    DevicesAllocated,
    DevicesRefused,
    Effect,
    Event,
    ForgetPod,
    Note,
    PinContainer,
    PodDeleted,
    PodSubmitted,
    QuietPod,
    Save,
    StartContainer,
    StopContainer,
    Tick,
)
from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    RunState,
    placed_cpus,
    placed_nodes,
)
from numalign.apps.agent.runtimes.protocols import Asked, Plugins, Runtime, unheard
from numalign.apps.agent.step import step
from numalign.apps.agent.views import decision_view, explained
from numalign.core.errors import PeerError, PostponedError
from numalign.core.explain.explain import Explanation
from numalign.core.kubelet.decisions import Trace
from numalign.core.kubelet.devices.plugin_answer import Allocation, merged
from numalign.core.kubelet.host import HostState
from numalign.core.machine.machine import Machine
from numalign.wire.checkpoints import state_files
from numalign.wire.pods.records import PodRecord

EVENTS_WAITING_MAX: Final = 20_000
EVENTS_AT_ONCE_MAX: Final = 64  # decided one by one, saved together
RECENT_MAX: Final = 200
SUBSCRIBERS_MAX: Final = 64
NOTES_PER_SUBSCRIBER_MAX: Final = 1_000
SAVE_RETRY_SECONDS: Final = 1.0
CANNOT_START_CODE: Final = 128

log = structlog.get_logger("numalign.agent")


class Agent:
    """One running agent."""

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
        self._files = files
        self._now = now
        self._state: AgentState | None = None
        self._written: HostState | None = None  # what the files say, if that is known
        self._events: asyncio.Queue[Event] = asyncio.Queue(EVENTS_WAITING_MAX)
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._requests = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._recent: deque[Mapping[str, object]] = deque(maxlen=RECENT_MAX)
        self._subscribers: dict[asyncio.Queue[Note], int] = {}  # with how many notes it lost
        self._problems: dict[str, str] = {}
        # Who counts: notes, Register calls and Allocate calls (with their seconds).
        self.on_note: Callable[[Note], None] = lambda _note: None
        self.on_registered: Callable[[str], None] = lambda _resource: None
        self.on_allocated: Callable[[str, float], None] = lambda _resource, _seconds: None
        self.on_asked: Asked = unheard  # a call of the PodResources API

    # What others may see and ask.

    @property
    def state(self) -> AgentState:
        """The state after the last event."""
        assert self._state is not None, "the agent is asked before it has started"
        return self._state

    @property
    def recent(self) -> Sequence[Mapping[str, object]]:
        """The last decisions, newest last, as plain values."""
        return [decision_view(decision) for decision in self._recent]

    def health(self) -> list[str]:
        """What is wrong just now; empty if all is well."""
        return sorted(self._problems.values())

    def log_path(self, uid: str, container: str) -> Path:
        """Where a container's output goes."""
        return self.runtime.log_path(uid, container)

    async def submit(
        self, record: PodRecord, *, source: str = "api", uid: str | None = None
    ) -> Answer:
        """Has a pod admitted; the answer comes when the decision is on the disk."""
        chosen = uid or record.metadata.uid
        assert chosen, "a pod has a uid before it is submitted"
        request = next(self._requests)
        return await self._asked(
            request, PodSubmitted(chosen, record, source, self._now(), request)
        )

    async def delete(self, uid: str) -> Answer:
        """Has a pod ended; the answer comes when that is on the disk, not when it is gone."""
        request = next(self._requests)
        return await self._asked(request, PodDeleted(uid, self._now(), request))

    async def _asked(self, request: int, event: Event) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[request] = future
        try:
            await self._events.put(event)
            return await future
        finally:
            self._answers.pop(request, None)

    async def subscribe(self) -> AsyncIterator[Note]:
        """Everything that happens from now on; a slow reader loses the oldest, and is told."""
        if len(self._subscribers) >= SUBSCRIBERS_MAX:
            raise PeerError(f"{SUBSCRIBERS_MAX} readers of events are already there", retry=True)
        queue: asyncio.Queue[Note] = asyncio.Queue(NOTES_PER_SUBSCRIBER_MAX)
        self._subscribers[queue] = 0
        try:
            while True:
                note = await queue.get()
                lost = self._subscribers[queue]
                if lost:
                    self._subscribers[queue] = 0
                    yield Note("events_lost", {"count": lost})
                yield note
        finally:
            self._subscribers.pop(queue, None)

    # The loop.

    def begin(self, state: AgentState) -> None:
        """Takes up a state; its effects come through ``run``."""
        self._state = state

    async def run(self, first: Iterable[Effect] = ()) -> None:
        """Carries out the first effects, then handles events for ever."""
        self._share()
        self._weigh()
        await self._carry_out(list(first))
        while True:
            events = [await self._events.get()]
            while not self._events.empty() and len(events) < EVENTS_AT_ONCE_MAX:
                events.append(self._events.get_nowait())
            await self.handle(*events)
            await asyncio.sleep(0)  # a full queue must not keep others from being answered

    def tell(self, event: Event) -> None:
        """Hands an event to the loop from anywhere in this thread."""
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            self._problems["events"] = f"{EVENTS_WAITING_MAX} events are waiting; some were dropped"

    async def handle(self, *events: Event) -> None:
        """Decides about events one after the other, saves once, then does what follows."""
        before = self.state
        effects: list[Effect] = []
        for event in events:
            start = time.perf_counter()
            self._state, more = step(self.setup, self.state, event)
            effects += [_timed(effect, time.perf_counter() - start) for effect in more]
        try:
            if any(isinstance(effect, Save) for effect in effects):
                self._save(self.state)
        except PeerError as error:
            self._state = before
            for event in events:
                self._not_saved(event, error)
            return
        if self.state.host.cpu.shared != before.host.cpu.shared:
            self._share()
        if self.state.host.pods.keys() != before.host.pods.keys():
            self._weigh()
        await self._carry_out(effects)

    def _share(self) -> None:
        policy = self.setup.host.cpu
        shared = self.state.host.cpu.shared or (policy.reserved if policy is not None else 0)
        if shared:
            with self._told("share"):
                self.runtime.share(shared)

    def _weigh(self) -> None:
        with self._told("weigh"):
            self.runtime.weigh(self.state.host.pods.values())

    def _save(self, state: AgentState) -> None:
        files = state_files.encoded(state.host, self.setup.host.settings, self._written)
        pods = saved.dump(state.pods)
        self._written = None  # if this fails half-way, the next one writes all files
        for name, data in files.items():
            self._files.write(state_files.PLACES[name], data)
        # The pods come last: one that is not said to await its plugin has the answer on disk.
        self._files.write(saved.FILE_NAME, pods)
        self._written = state.host
        self._problems.pop("save", None)

    def _not_saved(self, event: Event, error: PeerError) -> None:
        """Nothing was decided: who waits is told, and what merely happened is told again later."""
        self._problems["save"] = str(error)
        log.error("state_not_saved", error=str(error))
        request = getattr(event, "request", None)
        if request is not None:
            uid = getattr(event, "uid", "")
            self._answer(
                Answer(request, uid, accepted=False, reason="StateNotSaved", message=str(error))
            )
            return
        loop = asyncio.get_running_loop()
        loop.call_later(SAVE_RETRY_SECONDS, self.tell, event)

    async def _carry_out(self, effects: list[Effect]) -> None:
        pins = [effect for effect in effects if isinstance(effect, PinContainer)]
        if pins:
            # All of the shared pool at once, and before anything starts on the CPUs they leave.
            with self._told("pin"):
                await self.runtime.pin(pins)
        for effect in effects:
            match effect:
                case Save() | PinContainer():
                    pass  # done above
                case Answer():
                    self._answer(effect)
                case StartContainer():
                    if self.runtime.starts_beside:
                        self._beside(self._start(effect))
                    else:
                        await self._start(effect)
                case StopContainer(uid, container, grace):
                    self._beside(self.runtime.stop(uid, container, grace))
                case AskPreference():
                    self._beside(self._ask(effect))
                case AllocateDevices():
                    self._beside(self._allocate(effect))
                case QuietPod(uid):
                    with self._told(f"quiet {uid}"):
                        self.runtime.quiet(uid)
                case ForgetPod(uid):
                    with self._told(f"forget {uid}"):
                        self.runtime.forget(uid)
                case Note():
                    self._note(effect)

    def _answer(self, answer: Answer) -> None:
        future = self._answers.get(answer.request)
        if future is not None and not future.done():
            future.set_result(answer)

    def _note(self, note: Note) -> None:
        note = explained(note)
        plain = {k: v for k, v in note.values.items() if not isinstance(v, Trace | Explanation)}
        log.info(note.event, **plain)
        if note.event in {"pod_admitted", "pod_rejected"}:
            self._recent.append({"time": self._now(), "outcome": note.event, **note.values})
        self.on_note(note)
        for queue in list(self._subscribers):
            if queue.full():
                queue.get_nowait()
                self._subscribers[queue] += 1
            queue.put_nowait(note)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Something that the runtime may refuse: that is a problem to tell, until it works."""
        try:
            yield
        except PeerError as error:
            self._problems[what] = str(error)
            log.warning("runtime_refused", what=what, error=str(error))
        else:
            self._problems.pop(what, None)

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._problems["task"] = repr(error)
            log.error("task_failed", error=repr(error))

    async def _start(self, effect: StartContainer) -> None:
        pod = self.state.pods.get(effect.uid)
        if pod is None:
            return
        effect = self._placed(pod, effect)
        where = effect.uid, effect.container, effect.attempt
        try:
            extra = await self._prepared(pod, effect)
            started = await self.runtime.start(pod, effect, extra)
        except PostponedError as error:
            self.tell(ContainerPostponed(*where, error.reason, str(error), self._now()))
            return
        except PeerError as error:
            self.tell(ContainerExited(*where, CANNOT_START_CODE, self._now(), str(error)))
            return
        self.tell(ContainerStarted(*where, started.pid, self._now(), started.id))

    def _placed(self, pod: AgentPod, effect: StartContainer) -> StartContainer:
        """The same start where the container belongs now: the shared pool may have moved since."""
        container = next(c for c in pod.pod.in_order if c.name == effect.container)
        return replace(
            effect,
            cpus=placed_cpus(self.setup, self.state, effect.uid, container),
            nodes=placed_nodes(self.state, effect.uid, effect.container),
        )

    async def _prepared(self, pod: AgentPod, effect: StartContainer) -> Allocation:
        """Everything that device plugins want this container to have."""
        answers = []
        for (container, resource), answer in sorted(pod.allocations.items()):
            if container != effect.container:
                continue
            answers.append(answer)
            source = self.state.sources.get(resource)
            if source is not None and source.needs_prestart:
                ids = self.state.host.devices.held(effect.uid, container, resource)
                await self.plugins.prestart(resource, ids)
        return merged(answers)

    async def _ask(self, effect: AskPreference) -> None:
        asked = effect.preference
        try:
            ids = await self.plugins.preferred(
                asked.resource, asked.offered, asked.must, asked.count
            )
        except PeerError as error:
            log.warning("no_preference", resource=asked.resource, error=str(error))
            ids = ()
        event = effect.event
        answered = PodSubmitted(
            event.uid,
            event.record,
            event.source,
            event.now,
            event.request,
            {**event.preferences, asked: tuple(ids)},
        )
        await self._events.put(answered)

    async def _allocate(self, effect: AllocateDevices) -> None:
        where = effect.uid, effect.container, effect.resource
        event: Event
        start = time.perf_counter()
        try:
            answer = await self.plugins.allocate(effect.resource, effect.ids)
            event = DevicesAllocated(*where, answer, self._now())
        except PeerError as error:
            event = DevicesRefused(*where, str(error), self._now())
        self.on_allocated(effect.resource, time.perf_counter() - start)
        await self._events.put(event)

    # Time.

    async def tick(self, seconds: float = 1.0) -> None:
        """Lets time pass for what waits."""
        while True:
            await asyncio.sleep(seconds)
            if any(_waits(pod) for pod in self.state.pods.values()):
                self.tell(Tick(self._now()))

    async def reconcile(self, seconds: float) -> None:
        """Repairs, again and again, what somebody changed behind our back, and says so."""
        while True:
            await asyncio.sleep(seconds)
            await self.repair()

    async def repair(self) -> list[str]:
        """Compares what is with what should be, and mends it; what was found."""
        wanted = lifecycle.pins(self.setup, self.state)
        running = [p for p in wanted if _is_running(self.state, p)]
        found: list[str] = []
        with self._told("mend"):
            found = await self.runtime.mend(running)
        for text in found:
            self._note(Note("drift_repaired", {"found": text}))
        return found

    async def close(self) -> None:
        """Ends what runs beside the loop. Containers go on."""
        for task in list(self._tasks):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _timed(effect: Effect, seconds: float) -> Effect:
    """A note of a decision says how long it took."""
    if isinstance(effect, Note) and effect.event in {"pod_admitted", "pod_rejected"}:
        return Note(effect.event, {**effect.values, "seconds": seconds})
    return effect


def _waits(pod: AgentPod) -> bool:
    return any(c.state is RunState.WAITING for c in pod.containers.values()) and not (
        pod.is_terminal or pod.deleting
    )


def _is_running(state: AgentState, pin: PinContainer) -> bool:
    return state.pods[pin.uid].containers[pin.container].state is RunState.RUNNING
