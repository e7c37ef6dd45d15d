"""What NRI says of pods and containers, and what it can be told, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

CREATED: Final = 1
PAUSED: Final = 2
RUNNING: Final = 3
STOPPED: Final = 4


class Event(IntEnum):
    """Events by the numbers of StateChange; the bit of one in the mask is ``1 << (n - 1)``."""

    RUN_POD_SANDBOX = 1
    STOP_POD_SANDBOX = 2
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    UPDATE_CONTAINER = 8
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11


# What we follow; every runtime with NRI knows all of it.
EVENT_MASK: Final = sum(1 << (event - 1) for event in Event)


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of a container or a pod; None and an empty text: not set."""

    shares: int | None = None
    quota: int | None = None
    period: int | None = None
    cpus: str = ""
    mems: str = ""
    memory_limit: int | None = None
    hugepages: Mapping[str, int] = field(default_factory=dict)  # "2MB" -> bytes


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One pod sandbox. A pod may have several over time, with the same uid."""

    id: str
    uid: str
    name: str
    namespace: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    resources: Resources = Resources()  # of all its containers together, where the kubelet says
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Container:
    id: str
    sandbox: str
    name: str
    state: int = 0
    resources: Resources = Resources()
    cgroups_path: str = ""
    pid: int = 0

    @property
    def is_alive(self) -> bool:
        """Whether it has processes, or soon will; 0 is a container about to be created."""
        return self.state != STOPPED


class MemoryMode(StrEnum):
    """The kernel's memory policies that a pod can ask for."""

    BIND = "bind"
    PREFERRED = "preferred"
    INTERLEAVE = "interleave"


@dataclass(frozen=True, slots=True)
class Placing:
    """Where a container is put; an empty text leaves what is there."""

    cpus: str = ""
    mems: str = ""
    memory_mode: MemoryMode | None = None  # of the memory policy, on ``memory_nodes``
    memory_nodes: str = ""


@dataclass(frozen=True, slots=True)
class Update:
    """A running container and where it is to be from now on."""

    container: str
    cpus: str = ""
    mems: str = ""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the runtime says of itself."""

    config: str
    runtime: str
    runtime_version: str
    nri_version: tuple[int, ...]  # empty where it is not told: before 0.12
    request_seconds: float
