"""What the plugin knows between two events.

What containers hold is in ``host``, keyed by pod uid and container name: it outlives the container
and is given back when the pod is gone. ``containers`` are those of the runtime now, by its ids,
with what each was told last: where that is not what should be, the next answer says it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numalign.apps.nri.policy import HostPolicy
from numalign.core.kubelet.host import HostState
from numalign.core.kubelet.state import Block
from numalign.core.pod import Container, Qos

Key = tuple[str, str]  # pod uid, container name


@dataclass(frozen=True, slots=True)
class PodEntry:
    """One pod of the runtime."""

    uid: str
    name: str
    namespace: str
    qos: Qos | None  # None: no kubelet made it
    annotations: Mapping[str, str] = field(default_factory=dict)
    sandboxes: frozenset[str] = frozenset()
    seen: tuple[Container, ...] = ()  # containers that were created, as their limits describe them


@dataclass(frozen=True, slots=True)
class Told:
    """A living container, and where it was told to be."""

    key: Key
    is_shared: bool
    cpus: str
    mems: str = ""
    cgroups_path: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a pod had when it stopped: it gets the same again if it comes back in time."""

    cpus: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, tuple[Block, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NriState:
    policy: HostPolicy
    host: HostState
    pods: Mapping[str, PodEntry] = field(default_factory=dict)
    containers: Mapping[str, Told] = field(default_factory=dict)
    stopped: Mapping[str, Holding] = field(default_factory=dict)  # by pod uid
    unplaced: frozenset[Key] = frozenset()  # they run shared, though they asked for their own
    pending: HostPolicy | None = None  # a host file that waits for containers to leave
    is_synchronized: bool = False
    can_send: bool = False  # updates outside of answers are safe with this runtime
    has_memory_policies: bool = False  # the runtime sets the kernel's memory policy


STOPPED_MAX = 1000  # pods remembered after they stopped
