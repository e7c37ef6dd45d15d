"""What a scheduler writes: bindings, opened gates, conditions and events."""

from __future__ import annotations

from typing import Any, Final

from numalign.core.cluster.scheduling.constraints import Requirement, Term
from numalign.core.pod import Pod
from numalign.wire.kubernetes.api import Kind
from numalign.wire.kubernetes.scheduling import PRE_PLACED_ANNOTATION, ClusterPod

EVENTS: Final = Kind("events.k8s.io", "v1", "events", "Event")
NOTE_LENGTH_MAX: Final = 1024
ROOM_CONDITION: Final = "numalign.io/RoomFound"
_CUT: Final = " ..."
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def binding(pod: Pod, host: str) -> dict[str, Any]:
    """The Binding that gives a pod its host; refused by the server if the uid is another by now."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": host},
    }


def opened(pod: ClusterPod, host: str = "") -> dict[str, Any]:
    """A merge patch that takes our gate off, and with a host leaves the pod that one alone.

    Both in one change: the server judges the affinity by the pod as it was, which had its gate.
    """
    # The uid makes the server refuse a patch of another pod of the same name.
    head: dict[str, Any] = {"uid": pod.pod.uid}
    # Ours was the last gate, and a gate cannot be put on a pod that is there.
    spec: dict[str, Any] = {"schedulingGates": []}
    if host:
        head["annotations"] = {PRE_PLACED_ANNOTATION: host}
        spec["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": _only(pod, host)}}}
    return {"metadata": head, "spec": spec}


def _only(pod: ClusterPod, host: str) -> list[dict[str, Any]]:
    """The pod's own terms, each with this host besides: the server lets none of them go."""
    here = Requirement("metadata.name", "In", (host,))
    return [
        {
            "matchExpressions": [_expression(one) for one in term.labels],
            "matchFields": [_expression(one) for one in (*term.fields, here)],
        }
        for term in pod.requirements.terms or (Term(),)
    ]


def _expression(one: Requirement) -> dict[str, Any]:
    found: dict[str, Any] = {"key": one.key, "operator": one.operator}
    return {**found, "values": list(one.values)} if one.values else found


def not_scheduled(pod: Pod, reason: str, message: str, now: str) -> dict[str, Any]:
    """A strategic merge patch of the status: the pod has no host, and why."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    # The uid makes the server refuse a patch of another pod of the same name.
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def touched(pod: Pod, now: str) -> dict[str, Any]:
    """A strategic merge patch of the status that says that a host would take the pod by now.

    A kube-scheduler takes any change of a pod that its extender refused for a reason to ask again.
    """
    condition = {
        "type": ROOM_CONDITION,
        "status": "True",
        "reason": "HostsChanged",
        "message": "a host would take the pod by now: the kube-scheduler shall ask again",
        "lastProbeTime": now,
        "lastTransitionTime": now,
    }
    return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}


def event(  # noqa: PLR0913 - an event has these members
    pod: Pod,
    *,
    name: str,
    reason: str,
    action: str,
    note: str,
    is_warning: bool,
    controller: str,
    instance: str,
    now: str,
) -> dict[str, Any]:
    """An events.k8s.io/v1 Event about a pod."""
    if len(note) > NOTE_LENGTH_MAX:
        note = note[: NOTE_LENGTH_MAX - len(_CUT)] + _CUT
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {"name": name, "namespace": pod.namespace},
        "eventTime": now,
        "reportingController": controller,
        "reportingInstance": instance,
        "action": action,
        "reason": reason,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "note": note,
        "type": "Warning" if is_warning else "Normal",
    }
