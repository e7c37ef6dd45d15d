"""PodDisruptionBudgets: who must not be moved now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from numalign.core.cluster.scheduling.constraints import Requirement
from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes.api import Kind
from numalign.wire.kubernetes.objects import Expression

BUDGETS: Final = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct):
    selector: _Selector | None = None


class _Status(msgspec.Struct, rename="camel"):
    disruptions_allowed: int = 0


class _Budget(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class Budget:
    name: str
    namespace: str
    labels: Mapping[str, str]
    requirements: tuple[Requirement, ...]
    allowed: int  # how many of its pods may be away now
    selects_nothing: bool = False

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if namespace != self.namespace or self.selects_nothing:
            return False
        return all(labels.get(k) == v for k, v in self.labels.items()) and all(
            _holds(requirement, labels) for requirement in self.requirements
        )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return True  # rather one pod too few moves than one too many


def budget_from_json(data: bytes) -> Budget:
    try:
        found = msgspec.json.decode(data, type=_Budget)
    except DECODE_FAULTS as error:
        raise WireError(f"found no PodDisruptionBudget: {error}") from error
    selector = found.spec.selector
    chosen = selector or _Selector()
    return Budget(
        found.metadata.name,
        found.metadata.namespace,
        chosen.match_labels or {},
        tuple(
            Requirement(e.key, e.operator, tuple(e.values or ()))
            for e in chosen.match_expressions or ()
        ),
        found.status.disruptions_allowed,
        selector is None,
    )
