"""What a scheduler writes: bindings, conditions and events."""

from __future__ import annotations

from typing import Any, Final

from numalign.core.pod import Pod
from numalign.wire.kubernetes.api import Kind

EVENTS: Final = Kind("events.k8s.io", "v1", "events", "Event")
NOTE_LENGTH_MAX: Final = 1024
_CUT: Final = " ..."


def binding(pod: Pod, host: str) -> dict[str, Any]:
    """The Binding that gives a pod its host; refused by the server if the uid is another by now."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": host},
    }


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
