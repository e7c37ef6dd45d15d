"""What the driver asks of those around it: a runtime, device plugins, and who counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from numalign.apps.agent.events import Pin, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.pod import Qos
from numalign.wire.pods.records import ContainerRecord, Hook, Probe


class CallHeard(Protocol):
    """Who counts the calls of the PodResources API."""

    def __call__(self, version: str, method: str, *, failed: bool) -> None:
        """Hears of one call."""


def unheard(version: str, method: str, *, failed: bool) -> None:
    """Counts nothing."""
    del version, method, failed


@dataclass(frozen=True, slots=True)
class Started:
    """A container that runs: its process, and what the runtime calls it (if it has a name)."""

    pid: int
    id: str = ""


class Runtime(Protocol):
    """What runs containers: plain processes, or a container runtime."""

    async def start(self, request: StartContainer) -> Started:
        """Starts a container; PeerError if it cannot, PostponedError if not yet.

        That may take long (an image is pulled), so nobody waits for it. The runtime minds by itself
        the pins that come while it starts a container.
        """

    async def stop(self, uid: str, container: str, grace_seconds: float) -> None:
        """Asks a container to end, and ends it after the grace period."""

    async def run_probe(
        self, uid: str, container: str, probe: Probe, record: ContainerRecord
    ) -> str:
        """Asks a running container; empty if it is well, else how it is not."""

    async def run_hook(
        self, uid: str, container: str, hook: Hook, record: ContainerRecord, seconds_max: float
    ) -> str:
        """Does what a hook says; empty if it went well, else how it failed."""

    async def pin(self, pins: Sequence[Pin]) -> None:
        """Moves running containers, all at once; PeerError if the kernel refuses."""

    async def pin_helpers(self, cpus: int) -> None:
        """Keeps the runtime's own helpers on these CPUs (a mask)."""

    async def set_qos_weights(self, weights: Iterable[tuple[Qos, Limits]]) -> None:
        """Gives the QoS classes their shares of CPU time."""

    async def repair_drift(self, pins: Sequence[Pin], pods: Mapping[str, AgentPod]) -> list[str]:
        """Puts right what is not as it should be; what it found, PeerError if it cannot."""

    async def release_pod(self, uid: str) -> None:
        """Lets go of what a pod needs only while it runs; its output is kept."""

    async def forget_pod(self, uid: str) -> None:
        """Removes what is kept of a pod."""

    def log_path(self, uid: str, container: str) -> Path:
        """Where a container's output goes."""


class Plugins(Protocol):
    async def preferred(
        self, resource: str, available: Sequence[str], must: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """Which devices the plugin would rather give."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> Allocation:
        """Lets the plugin prepare devices."""

    async def prestart(self, resource: str, ids: Sequence[str]) -> None:
        """Tells the plugin that a container is about to start."""
