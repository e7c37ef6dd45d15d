"""What comes with the start and the stop of a container: probes, postStart and preStop."""

from __future__ import annotations

from dataclasses import replace

from numalign.apps.agent.events import Effect, RunPostStart, StopContainer
from numalign.apps.agent.model import (
    AgentPod,
    AgentSetup,
    ContainerStatus,
    ProbeKind,
    ProbeStatus,
)
from numalign.wire.pods.records import Probe


def probe_of(known: AgentPod, name: str, kind: ProbeKind) -> Probe | None:
    record = known.container_record(name)
    return {
        ProbeKind.STARTUP: record.startupProbe,
        ProbeKind.LIVENESS: record.livenessProbe,
        ProbeKind.READINESS: record.readinessProbe,
    }[kind]


def has_post_start(known: AgentPod, name: str) -> bool:
    found = known.container_record(name).lifecycle
    return found is not None and found.postStart is not None


def begun(
    setup: AgentSetup, known: AgentPod, name: str, status: ContainerStatus, now: float
) -> tuple[ContainerStatus, list[Effect]]:
    """The status of a container that has just started, and its postStart hook."""
    if not setup.runs_processes:
        return status, []
    asked = {
        kind: ProbeStatus(now + probe.initialDelaySeconds)
        for kind in ProbeKind
        if (probe := probe_of(known, name, kind)) is not None
    }
    status = replace(status, probes=asked, is_hooked=has_post_start(known, name))
    record = known.container_record(name)
    if not status.is_hooked or record.lifecycle is None or record.lifecycle.postStart is None:
        return status, []
    hook = record.lifecycle.postStart
    limit = setup.grace_seconds_max
    return status, [RunPostStart(known.pod.uid, name, status.restarts, hook, record, limit)]


def stop(setup: AgentSetup, known: AgentPod, name: str, grace_seconds: float) -> StopContainer:
    """The order to end a container, with its preStop hook where one is run."""
    record = known.container_record(name)
    hook = record.lifecycle.preStop if record.lifecycle is not None else None
    if hook is None or not setup.runs_processes or grace_seconds <= 0:
        return StopContainer(known.pod.uid, name, grace_seconds)
    return StopContainer(known.pod.uid, name, grace_seconds, hook, record)
