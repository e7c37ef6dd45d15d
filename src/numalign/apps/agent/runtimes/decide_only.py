"""The runtime behind ``--runtime none``: every decision is made, and nothing is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from numalign.apps.agent.events import PinContainer, StartContainer
from numalign.apps.agent.model import AgentPod
from numalign.apps.agent.runtimes.protocols import Started
from numalign.core.kubelet.devices.plugin_answer import Allocation
from numalign.core.pod import Pod

STOPPED_CODE: Final = 143  # as after SIGTERM


class DecideOnly:
    """A runtime that runs nothing: for trying out decisions.

    Its containers run, as far as anybody can tell, until they are stopped, and init containers end
    at once; then ``on_ended`` is told the pod's uid, the container and the exit code.
    """

    starts_beside = False

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.on_ended: Callable[[str, str, int], None] = lambda _uid, _container, _code: None

    @staticmethod
    def adopted(pods: Mapping[str, AgentPod]) -> dict[tuple[str, str], int]:
        """Everything that ran before a restart still does."""
        return {(uid, name): 0 for uid, pod in pods.items() for name in pod.alive()}

    async def start(self, pod: AgentPod, effect: StartContainer, extra: Allocation) -> Started:
        """Pretends that the container runs, under no process number."""
        del extra
        if any(c.name == effect.container and c.is_regular_init for c in pod.pod.in_order):
            loop = asyncio.get_running_loop()
            loop.call_soon(self.on_ended, effect.uid, effect.container, 0)
        return Started(0)

    async def stop(self, uid: str, container: str, grace_seconds: float) -> None:
        """Ends a container at once: nothing has to be waited for."""
        del grace_seconds
        self.on_ended(uid, container, STOPPED_CODE)

    async def pin(self, effects: Sequence[PinContainer]) -> None:
        """Nothing is moved."""
        del effects

    def share(self, cpus: int) -> None:
        """Nobody helps."""
        del cpus

    def weigh(self, pods: Iterable[Pod]) -> None:
        """Nothing is weighed."""
        del pods

    async def mend(self, effects: Sequence[PinContainer]) -> list[str]:
        """Nothing drifts."""
        del effects
        return []

    def quiet(self, uid: str) -> None:
        """Nothing made a noise."""
        del uid

    def forget(self, uid: str) -> None:
        """Nothing was kept."""
        del uid

    def log_path(self, uid: str, container: str) -> Path:
        """Where output would go."""
        return self._logs / uid / f"{container}.log"
