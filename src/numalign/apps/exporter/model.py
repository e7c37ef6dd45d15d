"""What an operator can choose, and what the exporter remembers between two events.

Times are those of one clock that never goes back; chance comes with the events as a number from 0
to 1. One look at the host is under way at most; its stage says what it waits for.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.publish.export import HostReport, Key, KnownPod
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.settings import Version

TOGETHER_SECONDS: Final = 0.2  # changes within this time are published together
STALE_INTERVALS: Final = 3.0  # after so many without success we are not ready
NOTHING_YET: Final = "nothing was published yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    host_name: str
    interval_seconds: float = 60.0
    together_seconds: float = TOGETHER_SECONDS
    follows_pods: bool = True  # an API server says which pods the host has
    writes: bool = True  # into the cluster; otherwise every look is shown
    version: Version | None = None  # None: what the Node object says, 1.36 without it


class Stage(enum.Enum):
    """What a look waits for."""

    IDLE = "nothing: none is under way"
    LOOKING_UP = "the Node object"
    SCANNING = "the host"
    ASKING = "pods that the watch has not told of"
    CHECKING = "the object that was written last"
    WRITING = "the object to be written"


SCAN_STAGES: Final = frozenset({Stage.LOOKING_UP, Stage.SCANNING, Stage.ASKING})


@dataclass(frozen=True, slots=True)
class Look:
    stage: Stage = Stage.IDLE
    checks: bool = False  # the Node object, and whether what was written still stands
    scan_began: float = 0.0
    report: HostReport | None = None
    topology: HostTopology | None = None


@dataclass(frozen=True, slots=True)
class Written:
    content: bytes
    version: str  # that the API server gave it


@dataclass(frozen=True, slots=True)
class ExporterState:
    """Everything between two events."""

    pods: Mapping[Key, KnownPod] = field(default_factory=dict)
    are_pods_listed: bool = False
    host_uid: str = ""  # of the Node object, which owns what we write
    kubelet_version: Version | None = None  # as the Node object says

    is_due: bool = False  # something changed since the last look began
    checks_due: bool = False
    checks_at: float = 0.0  # when it is time to look though nothing changed
    begins_at: float | None = None  # the next look; None while none is due or one is under way
    not_before: float = 0.0  # after a failure
    wakes_at: float | None = None  # what was asked of the clock
    failures: int = 0  # in a row
    look: Look = Look()

    written: Written | None = None
    error: str = NOTHING_YET
    succeeded_at: float | None = None


def problems(setup: Setup, state: ExporterState, now: float) -> list[str]:
    """Why what is published may not be true; empty if all is well."""
    if state.succeeded_at is None:
        return [state.error]
    age = now - state.succeeded_at
    if age > STALE_INTERVALS * max(setup.interval_seconds, 10.0):
        return [f"nothing was published for {age:.0f} s: {state.error}"]
    return []
