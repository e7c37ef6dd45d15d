"""The runtime behind ``--runtime none``: every decision is made, and nothing is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from numalign.apps.agent.events import Pin, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.protocols import Started
from numalign.core.kubelet.cgroup_limits import Limits
from numalign.core.pod import Qos
from numalign.wire.pods.records import ContainerRecord, Hook, Probe

STOPPED_CODE: Final = 143  # as after SIGTERM


class DecideOnly:
    """A runtime that runs nothing: for trying out decisions.

    Its containers run, as far as anybody can tell, until they are stopped, and init containers end
    at once; then ``on_ended`` is told the pod's uid, the container and the exit code.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.on_ended: Callable[[str, str, int], None] = lambda _uid, _container, _code: None

    @staticmethod
    def adopted(pods: Mapping[str, AgentPod]) -> dict[tuple[str, str], int]:
        """Everything that ran before a restart still does."""
        return {(uid, name): 0 for uid, pod in pods.items() for name in pod.alive()}

    async def start(self, request: StartContainer) -> Started:
        """Pretends that the container runs, under no process number."""
        containers = request.pod.pod.in_order
        if any(c.name == request.container and c.is_regular_init for c in containers):
            loop = asyncio.get_running_loop()
            loop.call_soon(self.on_ended, request.uid, request.container, 0)
        return Started(0)

    async def stop(self, uid: str, container: str, grace_seconds: float) -> None:
        """Ends a container at once: nothing has to be waited for."""
        del grace_seconds
        self.on_ended(uid, container, STOPPED_CODE)

    async def run_probe(
        self, uid: str, container: str, probe: Probe, record: ContainerRecord
    ) -> str:
        """All is well with what does not run."""
        del uid, container, probe, record
        return ""

    async def run_hook(
        self, uid: str, container: str, hook: Hook, record: ContainerRecord, seconds_max: float
    ) -> str:
        """Nothing is done."""
        del uid, container, hook, record, seconds_max
        return ""

    async def pin(self, pins: Sequence[Pin]) -> None:
        """Nothing is moved."""
        del pins

    async def pin_helpers(self, cpus: int) -> None:
        """There are no helper processes."""
        del cpus

    async def set_qos_weights(self, weights: Iterable[tuple[Qos, Limits]]) -> None:
        """There are no processes to weigh against each other."""
        del weights

    async def repair_drift(self, pins: Sequence[Pin], pods: Mapping[str, AgentPod]) -> list[str]:
        """Nothing drifts."""
        del pins, pods
        return []

    async def release_pod(self, uid: str) -> None:
        """There is nothing to release."""
        del uid

    async def forget_pod(self, uid: str) -> None:
        """Nothing was kept."""
        del uid

    def log_path(self, uid: str, container: str) -> Path:
        """Where output would go."""
        return self._logs / uid / f"{container}.log"
