"""What a v1.Pod demands of other pods, and the gang it belongs to.

Namespaces are told apart by name alone: a namespaceSelector is understood where it is empty (all)
or asks for ``kubernetes.io/metadata.name``, which every namespace has. The rules of a pod with
another one are for somebody who knows the labels of namespaces; as the anti-affinity of a pod that
runs it is taken to speak of all of them, which may keep a pod away but breaks no promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from numalign.core.cluster.between_pods.gangs import GangRef
from numalign.core.cluster.between_pods.rules import Labels, PodRules, Scope, Spread, Term
from numalign.core.cluster.scheduling.constraints import Operator, Requirement
from numalign.wire.kubernetes import objects

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
UNKNOWN_NAMESPACES: Final = "a namespaceSelector by other labels than kubernetes.io/metadata.name"
GANG_ANNOTATION: Final = "numalign.io/pod-group"
GANG_MINIMUM_ANNOTATION: Final = "numalign.io/pod-group-minimum"
_HONOR: Final = "Honor"
_DO_NOT: Final = "DoNotSchedule"


def rules_of(record: objects.ApiPod) -> PodRules | None:
    """The required rules of a pod about others; None for nearly all pods, which have none."""
    spec = record.spec
    affinity, spreads = spec.affinity, spec.topologySpreadConstraints
    if not spreads and (
        affinity is None or (affinity.podAffinity is None and affinity.podAntiAffinity is None)
    ):
        return None
    namespace, labels = record.metadata.namespace, record.metadata.labels or {}
    found = PodRules(
        tuple(_term(one, namespace, labels) for one in _terms(affinity, is_anti=False)),
        tuple(_term(one, namespace, labels) for one in _terms(affinity, is_anti=True)),
        tuple(
            _spread(one, namespace, labels)
            for one in spreads or ()
            if one.whenUnsatisfiable == _DO_NOT
        ),
    )
    return found if found != PodRules() else None


def unknown_rules(spec: objects.Spec) -> Iterator[str]:
    """The rules of a pod about others that cannot be told from what we know."""
    selectors = (
        term.namespaceSelector
        for is_anti in (False, True)
        for term in _terms(spec.affinity, is_anti=is_anti)
    )
    if any(one is not None and _named(one) is None for one in selectors):
        yield UNKNOWN_NAMESPACES


def _terms(affinity: objects.Affinity | None, *, is_anti: bool) -> Iterable[objects.PodTerm]:
    if affinity is None:
        return ()
    part = affinity.podAntiAffinity if is_anti else affinity.podAffinity
    return () if part is None else part.requiredDuringSchedulingIgnoredDuringExecution or ()


def _term(record: objects.PodTerm, namespace: str, labels: Labels) -> Term:
    selector = requirements_of(record.labelSelector)
    if selector is not None:
        selector += _same(record.matchLabelKeys, Operator.IN, labels)
        selector += _same(record.mismatchLabelKeys, Operator.NOT_IN, labels)
    return Term(Scope(_namespaces(record, namespace), selector), record.topologyKey)


def _namespaces(record: objects.PodTerm, own: str) -> frozenset[str] | None:
    names = frozenset(record.namespaces or ())
    if record.namespaceSelector is None:
        return names or frozenset({own})
    chosen = _named(record.namespaceSelector)
    return None if not chosen else names | chosen


def _named(selector: objects.LabelSelector) -> frozenset[str] | None:
    """The namespaces that a selector names, an empty set for all; None: it asks for more."""
    found: frozenset[str] | None = None
    for one in requirements_of(selector) or ():
        if one.key != NAMESPACE_NAME or one.operator != Operator.IN:
            return None
        found = frozenset(one.values) if found is None else found & frozenset(one.values)
    return found if found is not None else frozenset()


def _spread(record: objects.SpreadRule, namespace: str, labels: Labels) -> Spread:
    selector = requirements_of(record.labelSelector)
    if selector is not None:
        selector += _same(record.matchLabelKeys, Operator.IN, labels)
    return Spread(
        Scope(frozenset({namespace}), selector, counts_leaving=False),
        record.topologyKey,
        record.maxSkew,
        record.minDomains or 0,
        (record.nodeAffinityPolicy or _HONOR) == _HONOR,
        record.nodeTaintsPolicy == _HONOR,
    )


def _same(keys: list[str] | None, operator: str, labels: Labels) -> tuple[Requirement, ...]:
    """Requirements on the pod's own values; the server may have written them down already."""
    return tuple(Requirement(k, operator, (labels[k],)) for k in keys or () if k in labels)


def requirements_of(record: objects.LabelSelector | None) -> tuple[Requirement, ...] | None:
    """A label selector; None where there is none, which selects nothing."""
    if record is None:
        return None
    wanted = sorted((record.matchLabels or {}).items())
    return (
        *(Requirement(key, Operator.IN, (value,)) for key, value in wanted),
        *(Requirement(e.key, e.operator, tuple(e.values or ())) for e in record.all_expressions),
    )


def gang_of(record: objects.ApiPod) -> GangRef | None:
    """The gang of a pod, by the cluster's own PodGroup or by our annotations."""
    metadata, group = record.metadata, record.spec.schedulingGroup
    if group is not None and group.podGroupName:
        return GangRef(f"{metadata.namespace}/{group.podGroupName}", is_object=True)
    annotations = metadata.annotations
    if not annotations or GANG_ANNOTATION not in annotations:
        return None
    name = f"{metadata.namespace}/{annotations[GANG_ANNOTATION]}"
    text = annotations.get(GANG_MINIMUM_ANNOTATION, "")
    if text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text) > 0:
        return GangRef(name, int(text))
    found = f"{text!r}" if text else "none"
    return GangRef(
        name,
        problem=f"found {found} as {GANG_MINIMUM_ANNOTATION}, expected the number of pods of the "
        f"gang {annotations[GANG_ANNOTATION]} that must run together, such as 4",
    )
