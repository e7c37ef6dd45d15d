"""What a scheduler knows of pods and hosts, from v1.Pod and v1.Node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from numalign.core.cluster.between_pods.gangs import GangRef
from numalign.core.cluster.between_pods.rules import PodRules
from numalign.core.cluster.scheduling.constraints import (
    HostFacts,
    HostPort,
    HostRequirements,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from numalign.core.errors import WireError
from numalign.core.pod import Pod, counted
from numalign.core.values.quantity import Quantity
from numalign.wire.kubernetes import objects, pod_rules
from numalign.wire.pods.manifests import core_pod
from numalign.wire.pods.workloads import expanded

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
PRE_PLACE_GATE: Final = "numalign.io/pre-place"
PRE_PLACED_ANNOTATION: Final = "numalign.io/pre-placed"  # the host that its opened gate names
VOLUME_CLAIMS: Final = "persistent volume claims"
RESOURCE_CLAIMS: Final = "resourceClaims"
_BOUND_VOLUMES: Final = ("persistentVolumeClaim", "ephemeral")


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """A pod of a cluster: what the deciding core knows of it, and its place in the cluster."""

    pod: Pod
    requirements: HostRequirements = field(default_factory=HostRequirements)
    host: str = ""  # "" until it is bound
    scheduler: str = "default-scheduler"
    priority: int = 0
    is_gated: bool = False
    is_deleted: bool = False  # somebody asked for its end
    phase: str = "Pending"
    reason: str = ""
    version: str = ""
    unschedulable: str | None = None  # the message of PodScheduled=False, where there is one
    owner: str = ""  # kind/name of the controller
    awaits_us: bool = False  # gated, and by nobody but us
    pinned: str = ""  # the one host that we left to it when we opened its gate
    nominated: str = ""  # where a scheduler makes room for it
    labels: Mapping[str, str] = field(default_factory=dict)
    rules: PodRules | None = None  # about other pods
    gang: GangRef | None = None
    preempts: bool = True  # others may be evicted for it
    is_mirror: bool = False  # of a manifest on its host: nobody but the host can end it

    @property
    def is_over(self) -> bool:
        """Whether it has ended and holds nothing any more."""
        return self.phase in TERMINAL_PHASES


def pod_of(document: Mapping[str, Any]) -> ClusterPod:
    """A v1.Pod as it comes from the API server."""
    try:
        record = msgspec.convert(document, objects.ApiPod)
    except msgspec.ValidationError as error:
        raise WireError(f"pod {_name(document)}: not a v1.Pod: {error}") from error
    return _cluster_pod(record)


def pod_from_json(data: bytes) -> ClusterPod:
    return _cluster_pod(objects.read(objects.POD, data))


def pods_of_manifest(data: bytes, *, source: str, replicas: bool = False) -> list[ClusterPod]:
    """The pods of a manifest, which nobody has checked yet; one of each workload, or all."""
    found = []
    for number, workload in enumerate(expanded(data, source=source).required().workloads):
        pod = pod_of(workload.template)
        uid = pod.pod.uid or f"manifest-{number}"
        names = [one.metadata.name for one in workload.pods] if replicas else []
        for i, name in enumerate(names or [pod.pod.name]):
            core = replace(pod.pod, uid=f"{uid}-{i}" if i else uid, name=name)
            found.append(replace(pod, pod=core, host=""))
    return found


def _cluster_pod(record: objects.ApiPod) -> ClusterPod:
    metadata, spec, status = record.metadata, record.spec, record.status
    owner = metadata.controller
    return ClusterPod(
        core_pod(record),
        _requirements(record),
        spec.nodeName,
        spec.schedulerName,
        spec.priority or 0,
        bool(spec.schedulingGates),
        metadata.deletionTimestamp is not None,
        status.phase or "Pending",
        status.reason,
        metadata.resourceVersion,
        next(
            (
                c.message
                for c in status.conditions or ()
                if c.type == "PodScheduled" and c.status == "False" and c.reason == "Unschedulable"
            ),
            None,
        ),
        f"{owner.kind}/{owner.name}" if owner else "",
        [gate.name for gate in spec.schedulingGates or ()] == [PRE_PLACE_GATE],
        _pinned(record),
        status.nominatedNodeName,
        metadata.labels or {},
        pod_rules.rules_of(record),
        pod_rules.gang_of(record),
        spec.preemptionPolicy != "Never",
        objects.MIRROR_ANNOTATION in (metadata.annotations or ()),
    )


def _pinned(record: objects.ApiPod) -> str:
    """The host that we chose for it: what we noted, if its affinity allows that one alone."""
    host = (record.metadata.annotations or {}).get(PRE_PLACED_ANNOTATION, "")
    if not host or record.spec.schedulingGates:
        return ""
    affinity = record.spec.affinity
    required = (
        affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if affinity is not None and affinity.nodeAffinity is not None
        else None
    )
    terms = (required.nodeSelectorTerms or ()) if required is not None else ()
    only = objects.Expression("metadata.name", "In", [host])
    return host if terms and all(only in (term.matchFields or ()) for term in terms) else ""


def _requirements(record: objects.ApiPod) -> HostRequirements:
    spec = record.spec
    affinity = spec.affinity or objects.Affinity()
    required = (
        affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if affinity.nodeAffinity
        else None
    )
    return HostRequirements(
        selector=tuple(sorted((spec.nodeSelector or {}).items())),
        terms=None if required is None else tuple(map(_term, required.nodeSelectorTerms or ())),
        tolerations=tuple(
            Toleration(t.key, t.operator or "Equal", t.value, t.effect)
            for t in spec.tolerations or ()
        ),
        ports=tuple(_ports(spec)),
        unsupported=tuple(_unsupported(spec)),
    )


def _term(record: objects.Term) -> Term:
    return Term(
        tuple(map(_requirement, record.matchExpressions or ())),
        tuple(map(_requirement, record.matchFields or ())),
    )


def _requirement(record: objects.Expression) -> Requirement:
    return Requirement(record.key, record.operator, tuple(record.values or ()))


def _ports(spec: objects.Spec) -> Iterator[HostPort]:
    # Only app containers and sidecars keep their ports; the others are gone when it matters.
    sidecars = [c for c in spec.initContainers or () if c.restartPolicy == "Always"]
    for container in [*sidecars, *(spec.containers or ())]:
        for port in container.ports or ():
            number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
            if number:
                yield HostPort(number, port.protocol, port.hostIP or HostPort(0).address)


def _unsupported(spec: objects.Spec) -> Iterator[str]:
    if spec.affinity is not None:
        yield from pod_rules.unknown_rules(spec)
    if any(volume.get(kind) for volume in spec.volumes or () for kind in _BOUND_VOLUMES):
        yield VOLUME_CLAIMS
    if spec.resourceClaims:
        yield RESOURCE_CLAIMS


def host_from_json(data: bytes) -> HostFacts:
    record = objects.read(objects.NODE, data)
    ready = next((c for c in record.status.conditions or () if c.type == "Ready"), None)
    return HostFacts(
        record.metadata.name,
        record.metadata.labels or {},
        tuple(Taint(t.key, t.value, t.effect) for t in record.spec.taints or ()),
        {
            name: _count(record.metadata.name, name, str(text))
            for name, text in (record.status.allocatable or {}).items()
        },
        record.spec.unschedulable,
        # A host that says nothing yet is judged by its taints and by what it offers.
        ready is None or ready.status == "True",
    )


def _count(host: str, name: str, text: str) -> int:
    try:
        return _counted_text(name, text)
    except ValueError as error:
        raise WireError(f"node {host}: allocatable.{name}: found {text!r}: {error}") from error


@lru_cache(4_096)
def _counted_text(name: str, text: str) -> int:
    return counted(name, Quantity.parse(text))


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    found = metadata.get("name") if isinstance(metadata, Mapping) else None
    return found if isinstance(found, str) and found else "without a name"
