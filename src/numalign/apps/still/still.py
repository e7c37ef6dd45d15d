"""A host at one moment, as those see it who look at a running agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    AgentState,
    ContainerStatus,
    Phase,
    RunState,
)
from numalign.apps.agent.notes import Note
from numalign.apps.agent.views.journal import Decision
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.machine.machine import Machine
from numalign.core.pod import Container, Pod
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.records import Metadata, PodRecord
from numalign.wire.pods.running import record_of_pod


@dataclass(slots=True)
class StillHost:
    """What nothing happens to. Obeys ``HostPort``."""

    setup: AgentSetup
    state: AgentState
    machine: Machine
    recent: Sequence[Decision] = field(default_factory=tuple)

    def health(self) -> list[str]:
        """Nothing is wrong with what does not run."""
        return []

    async def subscribe(self) -> AsyncIterator[Note]:
        """Nothing happens, for as long as somebody listens."""
        await asyncio.Event().wait()
        return
        yield  # makes it an iterator


def still_host(
    snapshot: HostSnapshot,
    records: Iterable[PodRecord] = (),
    *,
    at: float = 0.0,
    refused: Mapping[str, AgentPod] | None = None,
) -> StillHost:
    """The host of a snapshot. ``records`` are the manifests of its pods, as far as known."""
    known = {record.metadata.uid: record for record in records if record.metadata.uid}
    pods = {
        uid: _agent_pod(pod, known.get(uid), snapshot.names.get(uid, ""), at)
        for uid, pod in snapshot.state.pods.items()
    }
    state = AgentState(snapshot.state, {**pods, **(refused or {})}, started_at=at)
    return StillHost(AgentSetup(snapshot.host, snapshot.totals), state, snapshot.machine)


def _agent_pod(pod: Pod, record: PodRecord | None, name: str, at: float) -> AgentPod:
    found = record or _named(record_of_pod(pod), pod, name)
    return AgentPod(
        found,
        pod if pod.name else core_pod(found, uid=pod.uid),
        "",
        time_of(found, at),
        Phase.RUNNING,
        started_at=time_of(found, at),
        containers={container.name: _status(container) for container in pod.in_order},
    )


def refused_pod(record: PodRecord, uid: str, reason: str, message: str, at: float) -> AgentPod:
    """A pod that was refused at that moment."""
    pod = core_pod(record, uid=uid)
    waiting = {container.name: ContainerStatus() for container in pod.in_order}
    return AgentPod(record, pod, "", at, Phase.FAILED, reason, message, containers=waiting)


def _status(container: Container) -> ContainerStatus:
    """A pod that holds something has begun: its init containers are done."""
    if container.is_regular_init:
        return ContainerStatus(RunState.EXITED, "Completed", exit_code=0)
    return ContainerStatus(RunState.RUNNING)


def _named(record: PodRecord, pod: Pod, name: str) -> PodRecord:
    namespace, slash, own = name.partition("/")
    if not pod.name and slash:
        record.metadata = Metadata(name=own, namespace=namespace, uid=pod.uid)
    return record


def time_of(record: PodRecord, otherwise: float) -> float:
    """When the pod was made, as its manifest says."""
    text = record.metadata.creationTimestamp
    if not text:
        return otherwise
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return otherwise
