"""The members of v1.Pod and v1.Node that our parts of a cluster look at.

The API server has checked these objects, so a member that it cannot have is a ``WireError``;
unknown members are passed over, since a newer server may have more.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.records import Metadata, PodRecord, PodSpec

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
T = TypeVar("T")


class Expression(msgspec.Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(msgspec.Struct):
    matchExpressions: list[Expression] | None = None  # noqa: N815
    matchFields: list[Expression] | None = None  # noqa: N815


class _Terms(msgspec.Struct):
    nodeSelectorTerms: list[Term] | None = None  # noqa: N815


class _NodeAffinity(msgspec.Struct):
    requiredDuringSchedulingIgnoredDuringExecution: _Terms | None = None  # noqa: N815


class LabelSelector(msgspec.Struct):
    matchLabels: dict[str, str] | None = None  # noqa: N815
    matchExpressions: list[Expression] | None = None  # noqa: N815

    @property
    def all_expressions(self) -> list[Expression]:
        return self.matchExpressions or []


class PodTerm(msgspec.Struct):
    topologyKey: str = ""  # noqa: N815
    labelSelector: LabelSelector | None = None  # noqa: N815
    namespaces: list[str] | None = None
    namespaceSelector: LabelSelector | None = None  # noqa: N815
    matchLabelKeys: list[str] | None = None  # noqa: N815
    mismatchLabelKeys: list[str] | None = None  # noqa: N815


class _PodAffinity(msgspec.Struct):
    requiredDuringSchedulingIgnoredDuringExecution: list[PodTerm] | None = None  # noqa: N815


class Affinity(msgspec.Struct):
    nodeAffinity: _NodeAffinity | None = None  # noqa: N815
    podAffinity: _PodAffinity | None = None  # noqa: N815
    podAntiAffinity: _PodAffinity | None = None  # noqa: N815


class _Toleration(msgspec.Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadRule(msgspec.Struct):
    whenUnsatisfiable: str = "DoNotSchedule"  # noqa: N815
    topologyKey: str = ""  # noqa: N815
    maxSkew: int = 1  # noqa: N815
    minDomains: int | None = None  # noqa: N815
    labelSelector: LabelSelector | None = None  # noqa: N815
    matchLabelKeys: list[str] | None = None  # noqa: N815
    nodeAffinityPolicy: str | None = None  # noqa: N815
    nodeTaintsPolicy: str | None = None  # noqa: N815


class _Group(msgspec.Struct):
    podGroupName: str | None = None  # noqa: N815


class _Gate(msgspec.Struct):
    name: str = ""


class Spec(PodSpec):
    schedulerName: str = "default-scheduler"  # noqa: N815
    schedulingGates: list[_Gate] | None = None  # noqa: N815
    nodeSelector: dict[str, str] | None = None  # noqa: N815
    affinity: Affinity | None = None
    tolerations: list[_Toleration] | None = None
    topologySpreadConstraints: list[SpreadRule] | None = None  # noqa: N815
    volumes: list[dict[str, Any]] | None = None  # type: ignore[assignment] # here of every kind
    resourceClaims: list[Any] | None = None  # noqa: N815
    hostNetwork: bool = False  # noqa: N815
    preemptionPolicy: str | None = None  # noqa: N815
    schedulingGroup: _Group | None = None  # noqa: N815


class _Metadata(Metadata):
    resourceVersion: str = ""  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815


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
    startTime: str | None = None  # noqa: N815
    nominatedNodeName: str = ""  # noqa: N815
    conditions: list[_Condition] | None = None


class ApiPod(PodRecord):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: Spec = msgspec.field(default_factory=Spec)
    status: _Status = msgspec.field(default_factory=_Status)  # type: ignore[assignment] # only read, with more members


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


class ApiNode(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def read(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """An object in JSON, by ``POD`` or ``NODE``."""
    try:
        return decoder.decode(data)
    except DECODE_FAULTS as error:
        kind = decoder.type.__name__.removeprefix("Api")
        raise WireError(f"found no v1.{kind}: {error}") from error


POD: Final = msgspec.json.Decoder(ApiPod)
NODE: Final = msgspec.json.Decoder(ApiNode)
