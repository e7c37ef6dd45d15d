"""What a run is decided with: the host, perhaps with a policy of its own, and who is before it."""

from __future__ import annotations

from dataclasses import replace

from numalign.apps.agent.model import AgentPod, AgentSetup, AgentState, Run
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.verdict import refusal, verdict_on
from numalign.core.kubelet.host import Host
from numalign.core.kubelet.topology.policy import topology_policy
from numalign.core.pod import Pod
from numalign.wire.pods.annotations import TOPOLOGY_POLICY
from numalign.wire.pods.records import PodRecord


def host_of(setup: AgentSetup, record: PodRecord, run: Run | None) -> Host:
    """The host with the topology policy that a run asks for; all other pods take it as it is."""
    name = (record.metadata.annotations or {}).get(TOPOLOGY_POLICY)
    return setup.host if run is None or name is None else with_policy(setup.host, name)


def with_policy(host: Host, name: str) -> Host:
    """The same host with another policy of the topology manager; StartError if there is none."""
    settings = replace(host.settings, topology_policy=name)
    return replace(host, settings=settings, topology=topology_policy(settings, host.info))


def first_waiting(state: AgentState) -> AgentPod | None:
    """The run that has waited longest for room."""
    waiting = [p for p in state.pods.values() if p.waits_for_room and p.run is not None]
    return min(waiting, key=lambda pod: pod.run.ticket if pod.run else 0, default=None)


def is_behind(state: AgentState, run: Run) -> int:
    """How many runs wait before this one."""
    others = (pod.run for pod in state.pods.values() if pod.waits_for_room and pod.run)
    return sum(other.ticket < run.ticket for other in others)


def may_fit(setup: AgentSetup, state: AgentState, host: Host, pod: Pod) -> bool:
    """Whether a pod would fit if nothing else were there, so that it may wait for that."""
    empty = state.host
    if empty.running is not None:  # not known yet what will go
        return True
    for uid in state.host.pods:
        empty = hosts.ended(empty, uid)
    _, verdict = verdict_on(host, hosts.cleaned(host, empty), setup.totals, pod)
    return refusal(verdict) is None
