"""The members of v1.Pod and v1.Node that a scheduler looks at, as core values.

The API server has checked these objects, so a member that it cannot have is a ``WireError`` that
names the object; unknown members are passed over, since a newer server may have more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from numalign.core.cluster.scheduling.constraints import (
    Demand,
    HostFacts,
    HostPort,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from numalign.core.errors import WireError
from numalign.core.pod import Pod, counted
from numalign.core.values.quantity import Quantity
from numalign.wire.pods.manifests import core_pod, pod_documents, record_of
from numalign.wire.pods.records import ContainerRecord, Metadata, PodRecord, PodSpec

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_BOUND_VOLUMES: Final = ("persistentVolumeClaim", "ephemeral")


class _Port(msgspec.Struct):
    hostPort: int = 0  # noqa: N815
    containerPort: int = 0  # noqa: N815
    hostIP: str = ""  # noqa: N815
    protocol: str = "TCP"


class _Container(ContainerRecord):
    ports: list[_Port] | None = None


class _Expression(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct):
    matchExpressions: list[_Expression] | None = None  # noqa: N815
    matchFields: list[_Expression] | None = None  # noqa: N815


class _Terms(msgspec.Struct):
    nodeSelectorTerms: list[_Term] | None = None  # noqa: N815


class _NodeAffinity(msgspec.Struct):
    requiredDuringSchedulingIgnoredDuringExecution: _Terms | None = None  # noqa: N815


class _PodAffinity(msgspec.Struct):
    requiredDuringSchedulingIgnoredDuringExecution: list[Any] | None = None  # noqa: N815


class _Affinity(msgspec.Struct):
    nodeAffinity: _NodeAffinity | None = None  # noqa: N815
    podAffinity: _PodAffinity | None = None  # noqa: N815
    podAntiAffinity: _PodAffinity | None = None  # noqa: N815


class _Toleration(msgspec.Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _Spread(msgspec.Struct):
    whenUnsatisfiable: str = "DoNotSchedule"  # noqa: N815


class _Spec(PodSpec):
    containers: list[_Container] | None = None  # type: ignore[assignment] # only read, with more members
    initContainers: list[_Container] | None = None  # type: ignore[assignment] # noqa: N815 as above
    schedulerName: str = "default-scheduler"  # noqa: N815
    schedulingGates: list[Any] | None = None  # noqa: N815
    nodeSelector: dict[str, str] | None = None  # noqa: N815
    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None
    topologySpreadConstraints: list[_Spread] | None = None  # noqa: N815
    volumes: list[dict[str, Any]] | None = None  # type: ignore[assignment] # here of every kind
    resourceClaims: list[Any] | None = None  # noqa: N815
    hostNetwork: bool = False  # noqa: N815


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class _Metadata(Metadata):
    resourceVersion: str = ""  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    ownerReferences: list[_Owner] | None = None  # noqa: N815


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    qosClass: str = ""  # noqa: N815
    nominatedNodeName: str = ""  # noqa: N815
    conditions: list[_Condition] | None = None


class _Pod(PodRecord):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)  # type: ignore[assignment] # only read, with more members


@dataclass(frozen=True, slots=True)
class ClusterPod:
    """A pod of a cluster: what the deciding core knows of it, and its place in the cluster."""

    pod: Pod
    demand: Demand = field(default_factory=Demand)
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

    @property
    def is_over(self) -> bool:
        """Whether it has ended and holds nothing any more."""
        return self.phase in TERMINAL_PHASES


def pod_of(document: Mapping[str, Any]) -> ClusterPod:
    """A v1.Pod as it comes from the API server."""
    try:
        record = msgspec.convert(document, _Pod)
    except msgspec.ValidationError as error:
        raise WireError(f"pod {_name(document)}: not a v1.Pod: {error}") from error
    return _cluster_pod(record)


def pod_from_json(data: bytes) -> ClusterPod:
    try:
        record = _POD_DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise WireError(f"found no v1.Pod: {error}") from error
    return _cluster_pod(record)


_POD_DECODER: Final = msgspec.json.Decoder(_Pod)


def pods_of_manifest(data: bytes, *, source: str) -> list[ClusterPod]:
    """The pods of a manifest, which nobody has checked yet."""
    found = []
    for number, document in enumerate(pod_documents(data, source=source)):
        record_of(document, source)  # refuses what the API server would refuse
        pod = pod_of(document)
        uid = pod.pod.uid or f"manifest-{number}"
        found.append(replace(pod, pod=replace(pod.pod, uid=uid), host=""))
    return found


def _cluster_pod(record: _Pod) -> ClusterPod:
    metadata, spec, status = record.metadata, record.spec, record.status
    owner = next((o for o in metadata.ownerReferences or () if o.controller), None)
    return ClusterPod(
        core_pod(record),
        _demand(record),
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
    )


def _demand(record: _Pod) -> Demand:
    spec = record.spec
    affinity = spec.affinity or _Affinity()
    required = (
        affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        if affinity.nodeAffinity
        else None
    )
    return Demand(
        selector=tuple(sorted((spec.nodeSelector or {}).items())),
        terms=None if required is None else tuple(map(_term, required.nodeSelectorTerms or ())),
        tolerations=tuple(
            Toleration(t.key, t.operator or "Equal", t.value, t.effect)
            for t in spec.tolerations or ()
        ),
        ports=tuple(_ports(spec)),
        unsupported=tuple(_unsupported(spec, affinity)),
    )


def _term(record: _Term) -> Term:
    return Term(
        tuple(map(_requirement, record.matchExpressions or ())),
        tuple(map(_requirement, record.matchFields or ())),
    )


def _requirement(record: _Expression) -> Requirement:
    return Requirement(record.key, record.operator, tuple(record.values or ()))


def _ports(spec: _Spec) -> Iterator[HostPort]:
    # Only app containers and sidecars keep their ports; the others are gone when it matters.
    sidecars = [c for c in spec.initContainers or () if c.restartPolicy == "Always"]
    for container in [*sidecars, *(spec.containers or ())]:
        for port in container.ports or ():
            number = port.hostPort or (port.containerPort if spec.hostNetwork else 0)
            if number:
                yield HostPort(number, port.protocol, port.hostIP or HostPort(0).address)


def _unsupported(spec: _Spec, affinity: _Affinity) -> Iterator[str]:
    for name, part in (
        ("required pod affinity", affinity.podAffinity),
        ("required pod anti-affinity", affinity.podAntiAffinity),
    ):
        if part is not None and part.requiredDuringSchedulingIgnoredDuringExecution:
            yield name
    if any(s.whenUnsatisfiable == "DoNotSchedule" for s in spec.topologySpreadConstraints or ()):
        yield "topologySpreadConstraints with DoNotSchedule"
    if any(volume.get(kind) for volume in spec.volumes or () for kind in _BOUND_VOLUMES):
        yield "persistent volume claims"
    if spec.resourceClaims:
        yield "resourceClaims"


# Hosts.


class _Taint(msgspec.Struct):
    key: str = ""
    value: str = ""
    effect: str = ""


class _NodeSpec(msgspec.Struct):
    taints: list[_Taint] | None = None
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str | int] | None = None
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_NODE_DECODER: Final = msgspec.json.Decoder(_Node)


def host_of(document: Mapping[str, Any]) -> HostFacts:
    """A v1.Node as it comes from the API server."""
    try:
        record = msgspec.convert(document, _Node)
    except msgspec.ValidationError as error:
        raise WireError(f"node {_name(document)}: not a v1.Node: {error}") from error
    return _host_facts(record)


def host_from_json(data: bytes) -> HostFacts:
    try:
        record = _NODE_DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise WireError(f"found no v1.Node: {error}") from error
    return _host_facts(record)


def _host_facts(record: _Node) -> HostFacts:
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
