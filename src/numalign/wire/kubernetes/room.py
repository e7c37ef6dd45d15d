"""What a scheduler reads and writes to make room: budgets, groups, nominations, evictions."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from numalign.core.cluster.between_pods.gangs import GroupMinimum
from numalign.core.cluster.between_pods.victims import Budget
from numalign.core.pod import Pod
from numalign.wire.kubernetes import objects
from numalign.wire.kubernetes.api import Kind
from numalign.wire.kubernetes.pod_rules import requirements_of

BUDGETS: Final = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
# The newest first: a server of 1.37 has the first two, one of 1.36 the last.
GROUPS: Final = tuple(
    Kind("scheduling.k8s.io", version, "podgroups", "PodGroup")
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)


class _Head(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    generation: int = 0


class _BudgetSpec(msgspec.Struct):
    selector: objects.LabelSelector | None = None


class _BudgetStatus(msgspec.Struct):
    disruptionsAllowed: int = 0  # noqa: N815
    observedGeneration: int = 0  # noqa: N815


class ApiPodDisruptionBudget(msgspec.Struct):
    metadata: _Head = msgspec.field(default_factory=_Head)
    spec: _BudgetSpec = msgspec.field(default_factory=_BudgetSpec)
    status: _BudgetStatus = msgspec.field(default_factory=_BudgetStatus)


class _Gang(msgspec.Struct):
    minCount: int = 1  # noqa: N815


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _GroupSpec(msgspec.Struct):
    schedulingPolicy: _Policy = msgspec.field(default_factory=_Policy)  # noqa: N815


class ApiPodGroup(msgspec.Struct):
    metadata: _Head = msgspec.field(default_factory=_Head)
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)


_BUDGET: Final = msgspec.json.Decoder(ApiPodDisruptionBudget)
_GROUP: Final = msgspec.json.Decoder(ApiPodGroup)


def budget_from_json(data: bytes) -> Budget:
    """A policy/v1 PodDisruptionBudget; one that its controller has yet to look at allows none."""
    found = objects.read(_BUDGET, data)
    head, status = found.metadata, found.status
    is_current = status.observedGeneration >= head.generation
    return Budget(
        f"{head.namespace}/{head.name}",
        head.namespace,
        requirements_of(found.spec.selector),
        max(0, status.disruptionsAllowed) if is_current else 0,
    )


def group_from_json(data: bytes) -> GroupMinimum:
    """A PodGroup of scheduling.k8s.io; the basic policy asks for no company."""
    found = objects.read(_GROUP, data)
    gang = found.spec.schedulingPolicy.gang
    name = f"{found.metadata.namespace}/{found.metadata.name}"
    return GroupMinimum(name, 1 if gang is None else max(1, gang.minCount))


def nominated(pod: Pod, host: str) -> dict[str, Any]:
    """A merge patch of the status: where room is made for the pod; with no host, nowhere."""
    return {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": host or None}}


def eviction(pod: Pod) -> dict[str, Any]:
    """The Eviction of a pod; refused by the server if the uid is another by now."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
