"""Keeps the last moments of an agent on the disk, beside its loop, and shows the host at each.

Nothing is decided by it, and nobody waits for it. What the disk does not take is lost and told;
what is damaged is passed over. Moments of one second are written together, so the host that is kept
with the first of them may have what came in the same second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from numalign.adapters.daemon.beside import Beside
from numalign.adapters.local.segments import Segments
from numalign.apps.agent import notes
from numalign.apps.agent.model import AgentSetup, AgentState
from numalign.apps.past import chain
from numalign.apps.past.gauges import MINUTE, row_of
from numalign.core.errors import PeerError, WireError, unexpected
from numalign.core.views.trace import as_data as trace_data
from numalign.wire.moments import Change, Head, Moment, Row, Why, frame, unframed

DIRECTORY: Final = "history"
MOMENTS_MAX: Final = 2_000
ROWS_MAX: Final = 24 * 60
WAITING_MAX: Final = 10_000
TOGETHER_SECONDS: Final = 1.0
END_SECONDS_MAX: Final = 5.0
SEGMENT_BYTES: Final = 512 * 1024
SEGMENTS_MAX: Final = 16
ROWS_SEGMENT_BYTES: Final = 64 * 1024
STARTED: Final = "started"

Telling = (
    notes.PodAdmitted
    | notes.PodRejected
    | notes.PodFinished
    | notes.PodDeleted
    | notes.DevicesReported
    | notes.DevicesGone
)

log = structlog.get_logger("numalign.history")


@dataclass(frozen=True, slots=True)
class _Heard:
    time: float
    note: notes.Note | None  # None: the agent has started
    state: AgentState


@dataclass(frozen=True, slots=True)
class Kept:
    """A moment, and where its host can be read."""

    moment: Moment
    segment: int


class Recorder:
    """The history of one agent. ``heard`` is called in the loop; the disk is a thread's."""

    def __init__(
        self,
        setup: AgentSetup,
        directory: Path,
        host: str,
        *,
        together_seconds: float = TOGETHER_SECONDS,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.setup = setup
        self._together_seconds = together_seconds
        self.problem = ""
        self._host = host
        self._log = Segments(
            directory / DIRECTORY,
            "moments",
            bytes_max=segment_bytes,
            segments_max=SEGMENTS_MAX,
        )
        self._charts = Segments(
            directory / DIRECTORY, "charts", bytes_max=ROWS_SEGMENT_BYTES, segments_max=2
        )
        self._beside = Beside("numalign-history", 1)
        self._waiting: deque[_Heard] = deque(maxlen=WAITING_MAX)
        self._work = asyncio.Event()
        self._kept: deque[Kept] = deque(maxlen=MOMENTS_MAX)
        self._rows: deque[Row] = deque(maxlen=ROWS_MAX)
        self._row: Row | None = None  # of the minute that goes on
        # Only the thread uses what follows.
        self._next = 1
        self._written: AgentState | None = None  # what the last frame stands for
        self._refused: dict[str, int] = {}  # uid -> the moment that a reason belongs to

    # In the loop.

    def heard(self, note: notes.Note, state: AgentState, now: float) -> None:
        """Something happened. It costs nothing here."""
        if isinstance(note, Telling | notes.RefusalExplained):
            self._waiting.append(_Heard(now, note, state))
            self._work.set()

    async def run(self, state: Callable[[], AgentState], now: Callable[[], float]) -> None:
        """Takes up what was kept, then keeps what happens, for ever."""
        try:
            await self._beside.run(self._take_up)
        except Exception:
            log.exception("history_not_read")
        self._waiting.appendleft(_Heard(now(), None, state()))
        self._work.set()
        while True:
            await self._work.wait()
            await asyncio.sleep(self._together_seconds)
            await self._flush()

    async def finish(self) -> None:
        """Writes what is waiting, but does not wait for ever."""
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                await self._flush()
                await self._beside.run(self._end_minute)
        except TimeoutError:
            log.warning("history_not_finished")
        self._beside.close()

    async def _flush(self) -> None:
        self._work.clear()
        batch = list(self._waiting)
        self._waiting.clear()
        if batch:
            await self._beside.run(self._write, batch)

    def moments(self) -> Sequence[Moment]:
        """The last moments, newest last."""
        return [kept.moment for kept in self._kept]

    def rows(self) -> Sequence[Row]:
        """The minutes of the last day in which something happened, newest last."""
        return [*self._rows, *([] if self._row is None else [self._row])]

    # In the thread.

    def _take_up(self) -> None:
        for number in self._log.numbers():
            for value in self._values(self._log, number):
                if isinstance(value, Change):
                    self._keep(value.moment, number)
                elif isinstance(value, Why):
                    self._explain(value)
        for number in self._charts.numbers():
            self._rows.extend(v for v in self._values(self._charts, number) if isinstance(v, Row))
        if self._kept:
            self._next = self._kept[-1].moment.id + 1

    @staticmethod
    def _values(segments: Segments, number: int) -> Iterator[Head | Change | Why | Row]:
        frames, is_sound = segments.read(number)
        if not is_sound:
            log.warning("history_damaged", segment=number, frames=len(frames))
        for one in frames:
            try:
                yield unframed(one)
            except WireError as error:
                log.warning("history_damaged", segment=number, error=str(error))
                return

    def _write(self, batch: Sequence[_Heard]) -> None:
        try:
            self._write_now(batch)
        except (PeerError, WireError, OSError) as error:
            self._lost(str(error))
        except Exception as error:  # nobody is to suffer from what only looks back
            self._lost(unexpected(error))
            log.exception("history_failed")
        else:
            self.problem = ""

    def _lost(self, error: str) -> None:
        """What comes next begins a segment of its own, with everything that is there."""
        self._written = None
        is_new, self.problem = not self.problem, f"the last moments are not kept: {error}"
        if is_new:
            with suppress(OSError):  # of the same disk
                log.warning("history_not_written", error=error)

    def _write_now(self, batch: Sequence[_Heard]) -> None:
        frames: list[bytes] = []
        found: list[Moment | Why] = []
        begins = self._written is None or self._log.is_full
        if begins:
            self._log.begin()
            frames.append(frame(chain.head_of(self.setup, self._host)))
        before = None if begins else self._written
        missing = set[str]()
        later = {one.note.pod.uid for one in batch if isinstance(one.note, notes.PodAdmitted)}
        for one in batch:
            if isinstance(one.note, notes.RefusalExplained):
                refused = self._refused.get(one.note.pod.uid)
                if refused is not None:
                    why = Why(refused, one.note.why)
                    found.append(why)
                    frames.append(frame(why))
                continue
            if isinstance(one.note, notes.PodAdmitted):
                later.discard(one.note.pod.uid)
            change = self._change(one, before, later, missing)
            if change is None:
                continue
            before, missing = one.state, later & one.state.host.pods.keys()
            found.append(change.moment)
            frames.append(frame(change))
            self._count(one)
        if before is None:
            return  # nothing that a segment could begin with
        segment = self._log.append(frames)
        self._written = before
        for value in found:
            if isinstance(value, Moment):
                self._keep(value, segment)
            else:
                self._explain(value)

    def _change(
        self, heard: _Heard, before: AgentState | None, later: set[str], missing: set[str]
    ) -> Change | None:
        """What is written of something that happened; None if nothing became other by it."""
        note = heard.note
        moment = Moment(self._next, round(heard.time, 3), STARTED if note is None else note.NAME)
        pod = getattr(note, "pod", None)
        if pod is not None:
            moment.namespace, moment.pod, moment.uid = pod.namespace, pod.name, pod.uid
        if before is None:
            change = chain.whole(heard.state, moment, later)
        else:
            change = chain.change(before.host, heard.state, moment, later, missing)
        match note:
            case notes.PodAdmitted(_, trace):
                change.trace = trace_data(trace)
            case notes.PodRejected(pod, reason, message, _, trace):
                moment.reason, moment.message = reason, message
                change.trace = None if trace is None else trace_data(trace)
                known = heard.state.pods.get(pod.uid)
                change.refused = None if known is None else chain.record_kept(known)
                self._refused[pod.uid] = moment.id
            case notes.DevicesReported() | notes.DevicesGone():
                if before is not None and not bytes(change.devices):
                    return None
            case _:
                pass
        moment.has_trace = bool(change.trace)
        self._next += 1
        return change

    def _keep(self, moment: Moment, segment: int) -> None:
        self._kept.append(Kept(moment, segment))
        if moment.what == notes.PodRejected.NAME:
            self._refused[moment.uid] = moment.id
        if len(self._refused) > MOMENTS_MAX:
            self._refused.pop(next(iter(self._refused)))

    def _explain(self, why: Why) -> None:
        for kept in reversed(self._kept):
            if kept.moment.id == why.id:
                kept.moment.why = why.why
                return

    # Charts.

    def _count(self, heard: _Heard) -> None:
        minute = heard.time - heard.time % MINUTE
        if self._row is not None and self._row.time != minute:
            self._end_minute()
        admitted = isinstance(heard.note, notes.PodAdmitted)
        refused = isinstance(heard.note, notes.PodRejected)
        row = self._row
        counts = (0, 0) if row is None else (row.admitted, row.refused)
        counts = counts[0] + admitted, counts[1] + refused
        self._row = row_of(self.setup, heard.state.host, minute, counts)

    def _end_minute(self) -> None:
        row, self._row = self._row, None
        if row is None:
            return
        self._rows.append(row)
        try:
            if self._charts.is_full:
                self._charts.begin()
            self._charts.append([frame(row)])
        except (PeerError, OSError) as error:
            log.warning("history_not_written", error=str(error))

    # Looking back.

    async def then(self, number: int) -> chain.Then | None:
        """The host at a moment; None if it is not known any more."""
        kept = next((k for k in self._kept if k.moment.id == number), None)
        return None if kept is None else await self._beside.run(self._then, kept)

    def _then(self, kept: Kept) -> chain.Then | None:
        head: Head | None = None
        changes: list[Change] = []
        for value in self._values(self._log, kept.segment):
            if isinstance(value, Head):
                head = value
            elif isinstance(value, Change):
                changes.append(value)
                if value.moment.id == kept.moment.id:
                    break
        return None if head is None else chain.replayed(head, changes, kept.moment.id)
