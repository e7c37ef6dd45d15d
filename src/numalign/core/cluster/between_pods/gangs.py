"""Pods that run together or not at all.

A gang gets its room in one decision or not at all, so a gang that waits holds nothing and cannot
stand in the way of another one. One way to a deadlock is left: members that were sent to their
hosts cannot be called back, and where that went wrong for some of them (a pod was deleted on the
way, a scheduler died in between), two gangs may each hold what the other one lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

RELEASE_SECONDS: Final = 300.0  # so long two gangs may stand in each other's way
GANG_SIZE_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class GangRef:
    """What a pod says of its gang."""

    name: str  # namespace/name
    minimum: int = 0  # 0: a PodGroup object says it
    is_object: bool = False  # named by a PodGroup of the API server
    problem: str = ""  # why nobody can tell how many must run together


@dataclass(frozen=True, slots=True)
class GroupMinimum:
    """A PodGroup of the API server: how many of its pods must run together."""

    name: str  # namespace/name
    minimum: int


Key = TypeVar("Key", bound=tuple[object, ...])


@dataclass(frozen=True, slots=True)
class Stuck(Generic[Key]):
    """A gang of which some run, fewer than it needs, and the others find no host."""

    gang: Key
    priority: int
    since: float


def to_release(stuck: Iterable[Stuck[Key]], now: float) -> Key | None:
    """The gang that must give its room back for another one to go on; None if none must.

    Never the only one that is stuck: it stands in nobody's way. Of several the last one in the
    order of priority and age goes, so that the first one is never touched.
    """
    late = [one for one in stuck if one.since + RELEASE_SECONDS <= now]
    if len(late) < 2:
        return None
    return max(late, key=lambda one: (-one.priority, one.since, one.gang)).gang
