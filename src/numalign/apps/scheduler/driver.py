"""Carries out what the step wants, and feeds it what the cluster says.

Everything runs in one event loop, and the step is never interrupted: watches, the extender's calls
and the turns of the queue all go through ``handle``. Binds run side by side, up to a limit. Events
and conditions are told behind them; if the API server cannot keep up, the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, assert_never

import structlog

from numalign.adapters.kubernetes.api_server import (
    STRATEGIC,
    ApiServer,
    Backoff,
    Changed,
    Gone,
    Listed,
    Seen,
    Unreadable,
    decoded,
)
from numalign.apps.scheduler import events, find_host
from numalign.apps.scheduler.metrics import SchedulerMetrics
from numalign.apps.scheduler.model import State
from numalign.apps.scheduler.room import calls
from numalign.apps.scheduler.room import events as room_events
from numalign.apps.scheduler.step import next_turn_at, step
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.errors import ApiError, WireError
from numalign.core.pod import Pod
from numalign.wire.kubernetes import nrt, scheduling_bodies
from numalign.wire.kubernetes.api import HOSTS, NRTS, PODS, Kind
from numalign.wire.kubernetes.extender import (
    BindAsked,
    Filtered,
    HostsAsked,
    PreemptAsked,
    Victims,
)
from numalign.wire.kubernetes.room import BUDGETS, budget_from_json, group_from_json
from numalign.wire.kubernetes.scheduling import ClusterPod, host_from_json, pod_from_json

TOLD_WAITING_MAX: Final = 10_000
TELLERS: Final = 4
LIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
TURNS_IN_A_ROW: Final = 8  # then others get the loop

log = structlog.get_logger("numalign.scheduler")


class Scheduler:
    """One running scheduler, as extender of another or on its own."""

    def __init__(self, api: ApiServer, state: State) -> None:
        self.state = state
        self.metrics = SchedulerMetrics()
        self._api = api
        self._work = asyncio.Event()
        self._to_tell: deque[events.SetCondition | events.TellEvent] = deque(
            maxlen=TOLD_WAITING_MAX
        )
        self._told = asyncio.Event()
        self._troubles: dict[str, str] = {}
        self._catch_ups: asyncio.Queue[events.CatchUp] = asyncio.Queue()
        self._calls: set[asyncio.Task[None]] = set()
        self._errors: asyncio.Queue[BaseException] = asyncio.Queue()  # that no call may have
        self._answers: dict[int, asyncio.Future[str]] = {}  # by ticket
        self._tickets = 0
        self._in_a_row = 0
        self._filtered: Filtered | None = None  # the last answer
        self._filter_seconds = self.metrics.extender_seconds.labels("filter")
        self.instance = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"

    # The loop.

    async def run(self) -> None:
        """Follows the cluster until cancelled."""
        works: list[Coroutine[None, None, None]] = [
            self._follow(PODS, pod_from_json, _pod_event, fields=LIVE_PODS),
            self._follow(HOSTS, host_from_json, _host_event),
            self._follow(NRTS, self._topology, _topology_event),
        ]
        works += [self._turns(), self._until_broken()]
        if not self.state.is_extender:
            works.append(self._catch_up())
            works.append(self._follow_groups())
            if self.state.makes_room:
                works.append(self._follow(BUDGETS, budget_from_json, calls.budget_event))
            works += [self._tell() for _ in range(TELLERS)]
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)

    def handle(self, event: events.Event) -> None:
        for effect in step(self.state, event):
            self._carry_out(effect)
        self._work.set()

    def _carry_out(self, effect: events.Effect) -> None:
        match effect:
            case events.Bind() | events.Release():
                self._start(self._place(effect))
            case events.OpenGate(pod):
                self._start(self._open_gate(pod))
            case events.Recreate(pod):
                self._start(self._recreate(pod.pod))
            case events.ReadUnclearBind():
                self._start(self._read_unclear(effect))
            case events.FetchPod():
                self._start(self._fetch(effect))
            case events.AnswerHosts(_, found):
                self._filtered = found
            case events.TouchPod(pod):
                self._start(self._touch(pod.pod))
            case events.AnswerBind(ticket, text):
                answer = self._answers.get(ticket)
                if answer is not None and not answer.done():  # otherwise nobody waits any more
                    answer.set_result(text)
            case events.CountAttempt(result):
                self.metrics.attempts.labels(result).inc()
            case room_events.Nominate():
                self._start(self._told_of(calls.nominate(self._api, effect)))
            case room_events.Evict():
                self._start(self._told_of(calls.evict(self._api, effect)))
            case room_events.CountPreemption(result):
                self.metrics.preemptions.labels(result).inc()
            case events.CatchUp():
                self._catch_ups.put_nowait(effect)
            case events.SetCondition() | events.TellEvent():
                self._tell_later(effect)
            case _:
                assert_never(effect)

    def _start(self, call: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A call whose end is never told would hold up its host for ever: better to start anew."""
        self._calls.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.put_nowait(error)

    async def _until_broken(self) -> None:
        raise await self._errors.get()

    async def _told_of(self, call: Coroutine[None, None, events.Event]) -> None:
        self.handle(await call)

    def _tell_later(self, effect: events.SetCondition | events.TellEvent) -> None:
        if isinstance(effect, events.SetCondition):
            self.metrics.attempts.labels(effect.reason.lower()).inc()
        if len(self._to_tell) == TOLD_WAITING_MAX:
            self.metrics.dropped.inc()
        self._to_tell.append(effect)
        self._told.set()

    # Following the cluster.

    async def _follow(
        self,
        kind: Kind,
        decode: Callable[[bytes], Any],
        event_of: Callable[[Seen[Any], float], events.Event | None],
        *,
        fields: str = "",
    ) -> None:
        def trouble(error: ApiError) -> None:
            self._troubles[kind.plural] = str(error)
            log.warning("watch_interrupted", kind=kind.plural, code=error.code, error=str(error))

        async for seen in self._api.watched(kind, decode, fields=fields, on_trouble=trouble):
            self._troubles.pop(kind.plural, None)
            if isinstance(seen, Unreadable):
                log.warning("object_unreadable", kind=kind.plural, name=seen.name, error=seen.error)
                self.metrics.unreadable.labels(kind.plural).inc()
                continue
            event = event_of(seen, time.monotonic())
            if event is not None:
                self._handle_object(kind, event)

    def _handle_object(self, kind: Kind, event: events.Event) -> None:
        """One object of the cluster that nobody foresaw must not end the work for all others."""
        try:
            self.handle(event)
        except Exception:
            log.exception("object_not_handled", kind=kind.plural)
            self.metrics.unreadable.labels(kind.plural).inc()

    async def _follow_groups(self) -> None:
        kind = await calls.served_groups(self._api, self.handle)
        await self._follow(kind, group_from_json, calls.group_event)

    def _topology(self, data: bytes) -> HostTopology:
        found = nrt.read(data)
        for problem in found.problems:
            log.warning("topology_problem", host=found.topology.name, problem=problem)
        return found.topology

    def lead(self, is_leading: bool) -> None:  # noqa: FBT001 - what an election tells
        """Whether this replica may bind from now on."""
        log.info("leadership_changed", is_leading=is_leading, instance=self.instance)
        self.metrics.leading.set(int(is_leading))
        self.handle(events.LeadershipChanged(is_leading, time.monotonic()))

    async def _catch_up(self) -> None:
        while True:
            effect = await self._catch_ups.get()
            backoff = Backoff()
            while (pods := await self._list_pods()) is None:
                await asyncio.sleep(backoff.next_seconds())
            self.handle(events.CaughtUp(effect.term, pods, time.monotonic()))

    async def _list_pods(self) -> events.PodsListed | None:
        try:
            raw, _ = await self._api.listed(PODS, fields=LIVE_PODS)
        except (ApiError, WireError) as error:
            log.warning("catching_up_failed", error=str(error))
            return None
        # A pod that cannot be read is told by the watch; it must not keep us from leading.
        pods, bad = decoded(raw, pod_from_json)
        return events.PodsListed(pods, time.monotonic(), frozenset(one.uid for one in bad))

    # Turns.

    async def _turns(self) -> None:
        while True:
            self._work.clear()
            now = time.monotonic()
            at = next_turn_at(self.state, now)
            if at is not None and at <= now:
                self.handle(events.Turn(now))
                self.metrics.decision_seconds.observe(time.monotonic() - now)
                self._in_a_row += 1
                if self._in_a_row % TURNS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if at is None else at - now):
                    await self._work.wait()

    # Binding.

    async def _place(self, effect: events.Placing) -> None:
        """Sends a pod to its host, by a binding or by opening its gate, and says how it ended."""
        pod, host = effect.pod.pod, effect.host
        began = time.perf_counter()
        outcome, text = events.BindOutcome.REFUSED, ""
        try:
            await self._request_place(effect)
            self.metrics.bind_seconds.observe(time.perf_counter() - began)
            outcome = events.BindOutcome.BOUND
        except ApiError as error:
            text = str(error)
            log.warning("bind_failed", pod=_name(pod), host=host, code=error.code, error=text)
            if error.code == 404:
                outcome = events.BindOutcome.GONE
            elif error.retry or error.code in (409, 422):
                self.handle(events.BindUnclear(pod.uid, host, text, time.monotonic()))
                return
        except WireError as error:
            text = str(error)
        self.handle(events.BindEnded(pod.uid, host, outcome, text, time.monotonic()))

    async def _request_place(self, effect: events.Placing) -> None:
        pod, host = effect.pod.pod, effect.host
        if isinstance(effect, events.Bind):
            body = scheduling_bodies.binding(pod, host)
            await self._api.create_part(PODS, pod.name, "binding", body, pod.namespace)
        else:
            body = scheduling_bodies.opened(effect.pod, host)
            await self._api.patch(PODS, pod.name, body, namespace=pod.namespace)

    async def _open_gate(self, pod: ClusterPod) -> None:
        body = scheduling_bodies.opened(pod)
        try:
            await self._api.patch(PODS, pod.pod.name, body, namespace=pod.pod.namespace)
            log.info("gate_opened", pod=_name(pod.pod))
        except (ApiError, WireError) as error:
            log.warning("gate_not_opened", pod=_name(pod.pod), error=str(error))

    async def _touch(self, pod: Pod) -> None:
        body = scheduling_bodies.touched(pod, _timestamp()[:19] + "Z")
        try:
            await self._api.patch(
                PODS, pod.name, body, namespace=pod.namespace, form=STRATEGIC, part="status"
            )
            log.info("pod_touched", pod=_name(pod))
        except (ApiError, WireError) as error:
            log.warning("pod_not_touched", pod=_name(pod), error=str(error))

    async def _recreate(self, pod: Pod) -> None:
        try:
            await self._api.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
            log.info("pod_deleted", pod=_name(pod), why="the kube-scheduler cannot place it")
        except (ApiError, WireError) as error:
            log.warning("pod_not_deleted", pod=_name(pod), error=str(error))
            self.handle(events.RecreateFailed(pod.uid, str(error), time.monotonic()))

    async def _read_unclear(self, effect: events.ReadUnclearBind) -> None:
        pod, found, unreadable = effect.pod.pod, None, ""
        backoff = Backoff()
        while True:
            try:
                data = await self._api.get(PODS, pod.name, pod.namespace)
                found = None if data is None else pod_from_json(data)
            except ApiError:
                await asyncio.sleep(backoff.next_seconds())
                continue
            except WireError as error:
                unreadable = str(error)
            break
        self.handle(events.UnclearBindRead(effect.unclear, found, unreadable, time.monotonic()))

    # Telling.

    async def _tell(self) -> None:
        while True:
            if not self._to_tell:
                self._told.clear()
                await self._told.wait()
                continue
            effect = self._to_tell.popleft()
            pod = effect.pod.pod
            now = _timestamp()
            try:
                if isinstance(effect, events.SetCondition):
                    body = scheduling_bodies.not_scheduled(
                        pod, effect.reason, effect.message, now[:19] + "Z"
                    )
                    await self._api.patch(
                        PODS,
                        pod.name,
                        body,
                        namespace=pod.namespace,
                        form=STRATEGIC,
                        part="status",
                    )
                else:
                    body = scheduling_bodies.event(
                        pod,
                        name=f"{pod.name[:200]}.{uuid.uuid4().hex[:16]}",
                        reason=effect.reason,
                        action=effect.action,
                        note=effect.note,
                        is_warning=effect.is_warning,
                        controller=self.state.name,
                        instance=self.instance,
                        now=now,
                    )
                    await self._api.create(scheduling_bodies.EVENTS, body, pod.namespace)
            except (ApiError, WireError) as error:
                # The pod may be gone, or its namespace: then nobody is left to be told.
                is_forbidden = isinstance(error, ApiError) and error.code == 403
                say = log.warning if is_forbidden else log.debug
                say("not_told", pod=_name(pod), error=str(error))

    # The extender's calls.

    def problems(self) -> list[str]:
        """Why it is not ready; empty if it is."""
        found = [f"the {kind} of the cluster are not known yet" for kind in self.state.missing]
        if found:
            found += [f"{kind}: {error}" for kind, error in self._troubles.items()]
        return found

    def filter(self, asked: HostsAsked) -> Filtered:
        """The hosts that are left for a pod; with one call, the one that is kept for it."""
        began = time.perf_counter()
        self._tickets += 1
        self.handle(events.HostsWanted(self._tickets, asked, time.monotonic()))
        self._filter_seconds.observe(time.perf_counter() - began)
        assert self._filtered is not None, "a question for hosts is answered at once"
        return self._filtered

    def prioritize(self, asked: HostsAsked) -> Sequence[tuple[str, int]]:
        """How good each host is, from 0 to the highest score."""
        with self.metrics.extender_seconds.labels("prioritize").time():
            return find_host.scores(self.state, asked)

    def preempt(self, asked: PreemptAsked) -> Mapping[str, Victims]:
        """The hosts on which the pod would fit once the victims are gone."""
        return find_host.preemptable(self.state, asked)

    async def bind(self, asked: BindAsked) -> str:
        """Binds a pod, if it still fits; an empty text, or what went wrong."""
        self._tickets += 1
        ticket = self._tickets
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answers[ticket] = answer
        now = time.monotonic()
        try:
            self.handle(
                events.BindWanted(ticket, asked.uid, asked.namespace, asked.name, asked.host, now)
            )
            return await answer
        finally:
            del self._answers[ticket]

    async def _fetch(self, effect: events.FetchPod) -> None:
        pod, error = None, ""
        try:
            data = await self._api.get(PODS, effect.name, effect.namespace)
            pod = pod_from_json(data) if data is not None else None
        except (ApiError, WireError) as found:
            error = str(found)
        self.handle(events.PodFetched(effect.ticket, pod, error, time.monotonic()))

    def metrics_text(self) -> bytes:
        return self.metrics.text(self.state)


def _pod_event(seen: Seen[ClusterPod], now: float) -> events.Event | None:
    match seen:
        case Listed(items, unreadable):
            return events.PodsListed(items, now, frozenset(one.uid for one in unreadable))
        case Changed(item):
            return events.PodSeen(item, now)
        case Gone(_, _, uid):
            return events.PodGone(uid, now)
        case _:
            return None


def _host_event(seen: Seen[HostFacts], now: float) -> events.Event | None:
    match seen:
        case Listed(items, unreadable):
            return events.HostsListed(items, now, frozenset(one.name for one in unreadable))
        case Changed(item):
            return events.HostSeen(item, now)
        case Gone(_, name, _):
            return events.HostGone(name, now)
        case _:
            return None


def _topology_event(seen: Seen[HostTopology], now: float) -> events.Event | None:
    match seen:
        case Listed(items, unreadable):
            return events.TopologiesListed(items, now, frozenset(one.name for one in unreadable))
        case Changed(item):
            return events.TopologySeen(item, now)
        case Gone(_, name, _):
            return events.TopologyGone(name, now)
        case _:
            return None


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
