"""What others hear of the agent: log lines, the stream of events and the last decisions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from numalign.apps.agent import notes
from numalign.core.errors import PeerError

RECENT_MAX: Final = 200
SUBSCRIBERS_MAX: Final = 64
NOTES_PER_SUBSCRIBER_MAX: Final = 1_000

log = structlog.get_logger("numalign.agent")


@dataclass(frozen=True, slots=True)
class Decision:
    """A remembered decision; ``explained`` follows a refusal as soon as it is known."""

    time: float
    note: notes.PodAdmitted | notes.PodRejected
    seconds: float
    explained: notes.RefusalExplained | None = None


class Journal:
    """Passes every note on to the log, to whoever follows, and to ``on_note``."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        notes_max: int = NOTES_PER_SUBSCRIBER_MAX,
        write_log: Callable[..., None] | None = None,
    ) -> None:
        self._now = now
        # Looked up now: before, logs may not have been configured.
        self._write_log = write_log or log.info
        self._notes_max = notes_max  # that one subscriber may be behind
        self._recent: deque[Decision] = deque(maxlen=RECENT_MAX)
        self._subscribers: dict[asyncio.Queue[notes.Note], int] = {}  # with how many notes it lost
        self.on_note: Callable[[notes.Note, float], None] = lambda _note, _seconds: None

    @property
    def recent(self) -> Sequence[Decision]:
        """The last decisions, newest last."""
        return list(self._recent)

    @property
    def subscriber_count(self) -> int:
        """How many follow the stream of events."""
        return len(self._subscribers)

    def publish(self, note: notes.Note, seconds: float = 0.0) -> None:
        """Tells everybody; ``seconds`` is how long a decision took."""
        match note:
            case notes.PodAdmitted() | notes.PodRejected():
                self._write_log(note.NAME, **notes.values_of(note), seconds=seconds)
                self._recent.append(Decision(self._now(), note, seconds))
            case notes.RefusalExplained():
                self._write_log(note.NAME, **notes.values_of(note))
                self._keep_explanation(note)
            case _:
                self._write_log(note.NAME, **notes.values_of(note))
        self.on_note(note, seconds)
        for queue in list(self._subscribers):
            if queue.full():
                queue.get_nowait()
                self._subscribers[queue] += 1
            queue.put_nowait(note)

    def _keep_explanation(self, note: notes.RefusalExplained) -> None:
        for number in reversed(range(len(self._recent))):
            decision = self._recent[number]
            if decision.note.pod.uid == note.pod.uid and decision.explained is None:
                self._recent[number] = replace(decision, explained=note)
                return

    async def subscribe(self) -> AsyncIterator[notes.Note]:
        """Everything that happens from now on; a slow reader loses the oldest, and is told."""
        if len(self._subscribers) >= SUBSCRIBERS_MAX:
            raise PeerError(f"{SUBSCRIBERS_MAX} readers of events are already there", retry=True)
        queue: asyncio.Queue[notes.Note] = asyncio.Queue(self._notes_max)
        self._subscribers[queue] = 0
        try:
            while True:
                note = await queue.get()
                lost = self._subscribers[queue]
                if lost:
                    self._subscribers[queue] = 0
                    yield notes.EventsLost(lost)
                yield note
        finally:
            self._subscribers.pop(queue, None)
