"""One host of a fleet, from what it publishes, as its own page shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from numalign.apps.agent.model import AgentPod
from numalign.apps.still.still import StillHost, refused_pod, still_host
from numalign.core.cluster.refused_pods import REASONS
from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.kubelet.admission.verdict import HostSnapshot
from numalign.core.kubelet.host import HostState
from numalign.core.machine.published import machine_of
from numalign.wire.kubernetes.scheduling import ClusterPod
from numalign.wire.pods.records import OwnerReference, PodRecord
from numalign.wire.pods.running import record_of_pod

REFUSED_SHOWN_MAX: Final = 200
NOT_KEPT: Final = "the kubelet's message is not known here"


def host_of_fleet(
    name: str, frame: Frame, state: HostState, pods: Iterable[ClusterPod], at: float
) -> StillHost:
    """The host in a state; ``pods`` are those that the cluster has there."""
    known = {pod.pod.uid: pod for pod in pods}
    active = {uid: known[uid] for uid in state.pods if uid in known}
    snapshot = HostSnapshot(
        machine_of(frame.host.info, name),
        frame.host,
        state,
        frame.totals,
        {uid: f"{pod.namespace}/{pod.name}" for uid, pod in state.pods.items()},
        {uid: pod.owner for uid, pod in active.items() if pod.owner},
    )
    refused = [pod for pod in known.values() if was_refused(pod)][:REFUSED_SHOWN_MAX]
    return still_host(
        snapshot,
        [_record(pod) for pod in active.values()],
        at=at,
        refused={pod.pod.uid: _refused(pod, at) for pod in refused},
    )


def was_refused(pod: ClusterPod) -> bool:
    """Whether the kubelet of its host has refused a pod."""
    return pod.phase == "Failed" and pod.reason in REASONS and bool(pod.host)


def _refused(pod: ClusterPod, at: float) -> AgentPod:
    return refused_pod(_record(pod), pod.pod.uid, pod.reason, NOT_KEPT, at)


def _record(pod: ClusterPod) -> PodRecord:
    found = record_of_pod(pod.pod)
    kind, slash, name = pod.owner.partition("/")
    if slash:
        found.metadata.ownerReferences = [OwnerReference(kind=kind, name=name, controller=True)]
    found.metadata.labels = dict(pod.labels) or None
    return found
