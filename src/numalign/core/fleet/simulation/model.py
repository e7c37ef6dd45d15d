"""The values of a simulation: work, hosts, and what came of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numalign.core.cluster.nrt_match.record import HostRecord
from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.fleet.rooms import Room, Rooms
from numalign.core.kubelet.host import HostState
from numalign.core.pod import Pod


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work: a pod that its controller keeps making until it runs."""

    name: str
    pod: Pod  # shared by all jobs of its class
    at: float  # seconds after the start
    seconds: float | None = None  # how long it runs; None: until the end
    owner: str = ""
    per_host_max: int = 0  # of one owner on one host; 0: as many as fit


class Recreate(StrEnum):
    """What a controller does about a pod that a kubelet refused."""

    AT_ONCE = "at-once"  # as a ReplicaSet does
    BACK_OFF = "back-off"  # as a Job does: 10 s, doubled each time
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Controllers:
    recreate: Recreate = Recreate.AT_ONCE
    redeploy: bool = False  # refused pods wait at a gate, away from hosts that refused them
    attempts_max: int = 50


@dataclass(slots=True)
class SimHost:
    """One host of a run. Owned and changed by that run alone."""

    index: int
    name: str
    group: str
    rooms: Rooms
    state: HostState
    room: Room
    record: HostRecord  # as last published

    @property
    def frame(self) -> Frame:
        return self.rooms.frame

    @property
    def allocatable(self) -> Mapping[str, int]:
        return self.rooms.allocatable


@dataclass(frozen=True, slots=True)
class Sample:
    """The fleet at one moment."""

    at: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HostEnd:
    """One host at the end of a run, for the map of hosts."""

    name: str
    group: str
    pods: int
    cpu_used: float  # share of what it offers
    cpu_useless: float  # share of what is idle that the mix cannot use


@dataclass(slots=True)
class RunResult:
    """What came of one run; the same for the same seed."""

    variant: str
    scheduler: str
    seed: int
    jobs: int = 0
    placed: int = 0
    finished: int = 0
    running: int = 0
    waiting: int = 0  # no host took them, or their controller waits
    given_up: int = 0
    attempts: int = 0
    refusals: dict[str, int] = field(default_factory=dict)  # by the kubelet's reason
    refused_jobs: int = 0
    refused_again: int = 0  # jobs refused more than once
    aligned: int = 0
    distance_sum: float = 0.0
    waits: list[float] = field(default_factory=list)  # seconds from arrival to placement
    samples: list[Sample] = field(default_factory=list)
    hosts: list[HostEnd] = field(default_factory=list)
    binding: dict[str, dict[str, int]] = field(default_factory=dict)  # shape -> what -> hosts
    is_complete: bool = True
    ended_at: float = 0.0
