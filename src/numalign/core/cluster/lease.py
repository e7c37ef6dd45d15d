"""Who of several replicas acts: the rules of a lease, without clock or network.

A replica never compares its clock with another's. It takes a lease over once the record has not
changed for as long as it says, counted from when this replica first saw it so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

DURATION_SECONDS: Final = 15.0
RENEW_SECONDS_MAX: Final = 10.0  # a leader that could not renew for so long stops acting
RETRY_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Record:
    """What the lease says. ``version`` changes with every write."""

    holder: str = ""
    duration_seconds: float = DURATION_SECONDS
    transitions: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Watching:
    """A replica's knowledge: the record, and when it first looked like this."""

    identity: str
    record: Record | None = None  # None: there is no lease
    since: float = 0.0

    def seen(self, record: Record | None, now: float) -> Watching:
        """The knowledge after another look."""
        if record == self.record:
            return self
        return replace(self, record=record, since=now)


class Step(Enum):
    """What to do about the lease now."""

    CREATE = "create"
    TAKE = "take"  # write ourselves as the holder
    RENEW = "renew"
    WAIT = "wait"


def step(known: Watching, now: float) -> Step:
    record = known.record
    if record is None:
        return Step.CREATE
    if record.holder == known.identity:
        return Step.RENEW
    if not record.holder or now >= known.since + record.duration_seconds:
        return Step.TAKE
    return Step.WAIT


def next_record(known: Watching, duration_seconds: float) -> Record:
    """The record to write for CREATE, TAKE and RENEW."""
    old = known.record or Record()
    changed = known.record is not None and old.holder != known.identity
    return Record(
        known.identity, duration_seconds, old.transitions + (1 if changed else 0), old.version
    )
