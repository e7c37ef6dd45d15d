"""What the front ends may see of a running agent, and ask of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from numalign.apps.agent.events import Answer
from numalign.apps.agent.model import AgentSetup, AgentState, Run
from numalign.apps.agent.notes import Note
from numalign.apps.agent.views.journal import Decision
from numalign.apps.agent.views.manifests import Look
from numalign.core.asker import Asker
from numalign.core.machine.machine import Machine
from numalign.wire.pods.records import PodRecord


class HostPort(Protocol):
    """A host that can be looked at: a running agent, or one that stands still."""

    @property
    def setup(self) -> AgentSetup:
        """What stays the same while it runs."""

    @property
    def state(self) -> AgentState:
        """The state after the last event; immutable, so it may be kept and read at leisure."""

    @property
    def machine(self) -> Machine:
        """The machine that it works on."""

    @property
    def recent(self) -> Sequence[Decision]:
        """The last decisions, newest last."""

    def subscribe(self) -> AsyncIterator[Note]:
        """Everything that happens from now on; a slow reader loses the oldest."""

    def health(self) -> list[str]:
        """What is wrong just now; empty if all is well."""


class AgentPort(HostPort, Protocol):
    """A running agent. All of it is used from the thread of its event loop."""

    @property
    def manifests(self) -> Look:
        """What was found at the last look at the directory of manifests."""

    async def submit(
        self, record: PodRecord, *, source: str = "api", asker: Asker | None = None
    ) -> Answer:
        """Has a pod admitted; it needs a uid."""

    async def start_run(self, record: PodRecord, run: Run) -> Answer:
        """Has a command run where it fits; answered when its process is in its place."""

    async def apply(
        self,
        pods: Sequence[tuple[str, PodRecord]],
        *,
        namespace: str = "",
        owner: tuple[str, str] | None = None,
        asker: Asker | None = None,
    ) -> tuple[list[Answer], Answer]:
        """Has pods be as written, and no others of the owner; each has a uid."""

    async def delete(self, uid: str) -> Answer:
        """Has a pod ended; the answer does not wait until it is gone."""

    def log_path(self, uid: str, container: str) -> Path:
        """Where the output of a container goes."""
