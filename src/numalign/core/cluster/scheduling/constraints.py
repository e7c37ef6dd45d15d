"""What a pod and a host demand of each other besides NUMA: labels, taints, ports and readiness.

A scheduler of its own must honour all of it. What is not implemented (volumes that are not bound,
claims) is told by ``HostRequirements.unsupported``: such a pod is refused in clear words, never
placed by half of its rules. Amounts are in ``totals``, rules about other pods in ``between_pods``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
_HOST_NAME_FIELD: Final = "metadata.name"
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 the address that a host port has by default
_INT64: Final = range(-(2**63), 2**63)
_INTEGER_LENGTH_MAX: Final = 20


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One comparison with a label; ``operator`` is a text, since newer servers may have more."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """Requirements that must all hold; an empty term holds for no host."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Taint:
    """Something about a host that pods must tolerate."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod tolerates; an empty key with Exists is everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the host itself that a container wants."""

    port: int
    protocol: str = "TCP"
    address: str = _ANY_ADDRESS


@dataclass(frozen=True, slots=True)
class HostRequirements:
    """What a pod demands of a host. Hashable: pods of one template share one."""

    host_name: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None  # one must hold; None without a required affinity
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    unsupported: tuple[str, ...] = ()  # rules of the pod that we do not know how to honour


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a host says about itself. ``allocatable`` counts CPUs in thousandths."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    is_unschedulable: bool = False
    is_ready: bool = True


def objection(requirements: HostRequirements, host: HostFacts) -> str | None:
    """Why this host and this pod do not go together, in plain words; None if they do.

    Nothing here changes when pods come and go, so the answer may be kept per requirements.
    """
    if requirements.host_name and requirements.host_name != host.name:
        return "not the host that the pod names"
    if host.is_unschedulable and not _tolerated(_CORDONED, requirements.tolerations):
        return "closed for new pods (cordoned)"
    taint = untolerated(requirements.tolerations, host.taints)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f"taint {taint.key}{value}:{taint.effect} that the pod does not tolerate"
    if not host.is_ready and not _tolerated(_NOT_READY, requirements.tolerations):
        return "not ready"
    if not _selector_holds(requirements, host):
        return "labels do not match the pod's nodeSelector"
    if not _affinity_holds(requirements, host):
        return "labels do not match the pod's required node affinity"
    return None


# Node affinity.


def is_selected(requirements: HostRequirements, host: HostFacts) -> bool:
    """Whether a host has what the pod's nodeSelector and required node affinity ask for."""
    return _selector_holds(requirements, host) and _affinity_holds(requirements, host)


def _selector_holds(requirements: HostRequirements, host: HostFacts) -> bool:
    return all(host.labels.get(key) == value for key, value in requirements.selector)


def _affinity_holds(requirements: HostRequirements, host: HostFacts) -> bool:
    terms = requirements.terms
    return terms is None or any(_term_holds(term, host) for term in terms)


def _term_holds(term: Term, host: HostFacts) -> bool:
    if not term.labels and not term.fields:
        return False
    own = {_HOST_NAME_FIELD: host.name}
    return all(holds(r, host.labels) for r in term.labels) and all(
        r.key in own and holds(r, own) for r in term.fields
    )


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement; an operator that we do not know never holds."""
    found = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return found is not None and found in requirement.values
        case Operator.NOT_IN:
            return found is None or found not in requirement.values
        case Operator.EXISTS:
            return found is not None
        case Operator.DOES_NOT_EXIST:
            return found is None
        case Operator.GT | Operator.LT:
            return _compared(requirement, found)
        case _:
            return False


def _compared(requirement: Requirement, found: str | None) -> bool:
    if found is None or len(requirement.values) != 1:
        return False
    left, right = _int64(found), _int64(requirement.values[0])
    if left is None or right is None:
        return False
    return left > right if requirement.operator == Operator.GT else left < right


def _int64(text: str) -> int | None:
    """A decimal number as Go reads it: no blanks, no underscores, 64 bits."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if len(text) > _INTEGER_LENGTH_MAX or not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if number in _INT64 else None


# Taints.

_REPELLING: Final = ("NoSchedule", "NoExecute")
_CORDONED: Final = Taint(UNSCHEDULABLE_TAINT, "", "NoSchedule")
# The control plane taints such a host, but later than it is known.
_NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps the pod away."""
    for taint in taints:
        if taint.effect in _REPELLING and not _tolerated(taint, tolerations):
            return taint
    return None


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            # An empty key goes with Exists only; the API server refuses it here.
            return bool(toleration.key) and toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt":
            wanted, found = _int64(toleration.value), _int64(taint.value)
            if wanted is None or found is None:
                return False
            # The taint's value is compared with the toleration's.
            return found > wanted if toleration.operator == "Gt" else found < wanted
        case _:
            return False


# Ports.


def port_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    """The first wanted port of the host that a pod there has already."""
    held = tuple(taken)
    for port in wanted:
        if any(_clash(port, other) for other in held):
            return port
    return None


def _clash(one: HostPort, other: HostPort) -> bool:
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.address == other.address or _ANY_ADDRESS in {one.address, other.address}
