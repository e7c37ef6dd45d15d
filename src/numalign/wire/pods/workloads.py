"""Workloads as the pods that they stand for: the one rule of every command and of the agent.

A workload NAME becomes the pods NAME-0, NAME-1 and so on, each with the workload as its owner. So
many as it asks to run at once: a DaemonSet has one on this host, a CronJob those of one run, a
suspended Job none. A pod is itself. Objects of other kinds (Service, ConfigMap) are passed over.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from numalign.core.errors import WireError
from numalign.wire.pods.manifests import documents, record_of
from numalign.wire.pods.records import OwnerReference, PodRecord

PODS_MAX: Final = 1_000  # of one text; more do not fit on any host
BARE_NAME: Final = "pod"
POD: Final = "Pod"
BARE: Final = "PodTemplate"
# Where the pod template of each kind lies.
TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    BARE: ("template",),
}
KINDS: Final = (POD, *TEMPLATES)
_JOBS: Final = {"Job": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}
_ONE_ON_A_HOST: Final = frozenset({"DaemonSet", BARE})


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod, or something that makes pods; ``document`` is what was written."""

    kind: str
    namespace: str
    name: str
    source: str
    document: Mapping[str, Any]
    template: Mapping[str, Any]  # as a v1.Pod under the workload's name
    pods: tuple[PodRecord, ...]
    note: str = ""  # what its pods do not show

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod of its own, and not what makes pods."""
        return self.kind in {POD, BARE}

    @property
    def labels(self) -> dict[str, str]:
        """Its own labels, not those of its pods."""
        found = _at(self.document, ("metadata", "labels"))
        return {k: str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Expansion:
    """What one text holds."""

    source: str
    workloads: tuple[Workload, ...]
    passed_over: tuple[str, ...] = ()  # kinds of other objects, one for each object

    @property
    def pods(self) -> list[PodRecord]:
        return [pod for workload in self.workloads for pod in workload.pods]

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the text, one line each."""
        found = [f"{self.source}: {w.note}" for w in self.workloads if w.note]
        if self.passed_over:
            text = f"passed over {_kinds_text(self.passed_over)}; only pods and workloads count"
            found.append(f"{self.source}: {text}")
        return found

    def required(self) -> Expansion:
        """The same; WireError if there is no pod or workload in it."""
        if self.workloads:
            return self
        found = f"only {_kinds_text(self.passed_over)}" if self.passed_over else "nothing"
        raise WireError(f"{self.source}: found {found}, expected one of {', '.join(KINDS)} or List")


def _kinds_text(kinds: Sequence[str]) -> str:
    return ", ".join(
        kind if number == 1 else f"{kind} ({number})" for kind, number in Counter(kinds).items()
    )


def expanded(data: bytes, *, source: str, namespace: str | None = None) -> Expansion:
    """The pods and workloads of a YAML or JSON text of one or several documents.

    What says no namespace is put into the given one; what says another is refused.
    """
    found: list[Workload] = []
    others: list[str] = []
    count = 0
    for document in documents(data, source=source):
        kind, known = _kind(document, source)
        if kind not in KINDS:
            others.append(kind)
            continue
        found.append(_workload(kind, _placed(known, namespace, source), source, PODS_MAX - count))
        count += len(found[-1].pods)
    return Expansion(source, tuple(found), tuple(others))


def _kind(document: Mapping[str, Any], source: str) -> tuple[str, Mapping[str, Any]]:
    """The kind of a document; one without it may still be a template."""
    kind = document.get("kind")
    if kind is None and "apiVersion" not in document:
        spec = document.get("spec")
        if isinstance(document.get("template"), Mapping):
            return BARE, document
        if isinstance(spec, Mapping) and isinstance(spec.get("template"), Mapping):
            return BARE, {**document, "template": spec["template"]}
        if isinstance(spec, Mapping) and "containers" in spec:
            return BARE, {"template": document}
    if not isinstance(kind, str) or not kind:
        raise WireError(f"{source}: found kind {kind!r}, expected a text such as Pod")
    return kind, document


def _placed(document: Mapping[str, Any], namespace: str | None, source: str) -> Mapping[str, Any]:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise WireError(f"{source}: found a metadata that is no map, expected one with a name")
    for member in ("name", "generateName", "namespace"):
        # Only a Pod is checked as a whole; of a workload these go into its pods.
        if not isinstance(metadata.get(member), str | None):
            found = metadata[member]
            raise WireError(f"{source}: metadata.{member}: found {found!r}, expected a text")
    if namespace is None:
        return document
    given = metadata.get("namespace")
    if given not in {None, "", namespace}:
        raise WireError(
            f"{source}: {metadata.get('name')}: found the namespace {given!r}, but -n says "
            f"{namespace!r}; leave one of them out"
        )
    return {**document, "metadata": {**metadata, "namespace": namespace}}


def _workload(kind: str, document: Mapping[str, Any], source: str, pods_max: int) -> Workload:
    if kind == POD:
        record = record_of(document, source)
        metadata = record.metadata
        name = metadata.name or metadata.generateName
        return _of(kind, metadata.namespace, name, source, document, document, (record,))
    count, note = _count(kind, document, source)
    if count > pods_max:
        raise WireError(
            f"{source}: found {PODS_MAX - pods_max + count} pods, expected at most {PODS_MAX}"
        )
    template = _template_pod(kind, document, source)
    metadata = template["metadata"]
    base = metadata["name"]
    # The last one has the longest name.
    last = base if kind == BARE or not base else f"{base}-{max(count - 1, 0)}"
    record = record_of({**template, "metadata": {**metadata, "name": last}}, source)
    pods = (record,) if kind == BARE else tuple(_pods(kind, document, base, record, count))
    return _of(kind, record.metadata.namespace, base, source, document, template, pods, note)


def _of(kind: str, namespace: str, *rest: Any) -> Workload:  # noqa: ANN401 as in Workload
    return Workload(kind, namespace or "default", *rest)


def _pods(
    kind: str, document: Mapping[str, Any], base: str, record: PodRecord, count: int
) -> Iterator[PodRecord]:
    api = document.get("apiVersion", "")
    owner = OwnerReference(api if isinstance(api, str) else "", kind, base, controller=True)
    for number in range(count):
        metadata = msgspec.structs.replace(
            record.metadata, name=f"{base}-{number}", ownerReferences=[owner]
        )
        yield msgspec.structs.replace(record, metadata=metadata)


def _template_pod(kind: str, document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The pod template of a workload as a pod with the workload's name and namespace."""
    found = _at(document, TEMPLATES[kind])
    if not isinstance(found, Mapping):
        path = ".".join(TEMPLATES[kind])
        raise WireError(f"{source}: the {kind} has no {path}, expected a pod template")
    outer, inner = document.get("metadata") or {}, found.get("metadata") or {}
    if not isinstance(inner, Mapping):
        raise WireError(f"{source}: the {kind} has a template whose metadata is no map")
    # What a controller makes is named after the workload, whatever the template says.
    name = outer.get("name") or str(outer.get("generateName") or "").rstrip("-.")
    if not name and kind == BARE:
        name = inner.get("name") or BARE_NAME
    metadata = {
        **inner,
        "name": name,
        "namespace": outer.get("namespace") or inner.get("namespace") or "",
        "uid": "",
    }
    return {**found, "kind": POD, "apiVersion": "v1", "metadata": metadata}


def _count(kind: str, document: Mapping[str, Any], source: str) -> tuple[int, str]:
    """How many pods of a workload run at once, and what that leaves out, in words."""
    name = f"{kind} {(document.get('metadata') or {}).get('name') or 'without a name'}"
    if kind in _ONE_ON_A_HOST:
        return 1, ""
    if kind not in _JOBS:
        count = _number(document, ("spec", "replicas"), source)
        count = 1 if count is None else count
        return count, f"{name} has replicas: 0, so no pods" if count == 0 else ""
    path = _JOBS[kind]
    if any(_at(document, (*where, "suspend")) is True for where in {path, ("spec",)}):
        return 0, f"{name} is suspended, so no pods"
    at_once = _number(document, (*path, "parallelism"), source)
    at_once = 1 if at_once is None else at_once
    wanted = _number(document, (*path, "completions"), source)
    count = at_once if wanted is None else min(at_once, wanted)
    notes = []
    if count == 0:
        notes.append("has nothing to run, so no pods")
    elif wanted is not None and wanted > count:
        notes.append(f"wants {wanted} completions: the {count} that run at once count")
    if kind == "CronJob" and count:
        notes.append("counts as one run of its job, without its schedule")
    return count, f"{name} {', and '.join(notes)}" if notes else ""


def _number(document: Mapping[str, Any], path: tuple[str, ...], source: str) -> int | None:
    found = _at(document, path)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        where = ".".join(path)
        raise WireError(f"{source}: {where}: found {found!r}, expected a number of pods")
    return found


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:  # noqa: ANN401 any YAML
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


# Pods of several workloads and texts together.


@dataclass(frozen=True, slots=True)
class NamedTwice:
    """A pod whose namespace and name another one before it has."""

    namespace: str
    name: str
    text: str


def split_by_name(workloads: Iterable[Workload]) -> tuple[list[Workload], list[NamedTwice]]:
    """The workloads without pods whose namespace and name were there before, and who these are."""
    seen: dict[tuple[str, str], Workload] = {}
    kept: list[Workload] = []
    twice: list[NamedTwice] = []
    for workload in workloads:
        pods = []
        for pod in workload.pods:
            key = workload.namespace, pod.metadata.name
            first = seen.get(key) if key[1] else None
            if first is None:
                seen[key] = workload
                pods.append(pod)
            else:
                twice.append(NamedTwice(*key, _twice_text(workload, key, first)))
        if pods or not workload.pods:
            kept.append(replace(workload, pods=tuple(pods)))
    return kept, twice


def _twice_text(workload: Workload, key: tuple[str, str], first: Workload) -> str:
    def of(one: Workload) -> str:
        return "" if one.kind == POD else f" of {one.kind} {one.name}"

    where = "" if first.source == workload.source else f" in {first.source}"
    return (
        f"{workload.source}: pod {key[0]}/{key[1]}{of(workload)}: the name is taken by the pod"
        f"{of(first)} before it{where}; give one of them another name or namespace"
    )


def identified(pods: Iterable[PodRecord], source: str) -> list[PodRecord]:
    """The pods with uids: one that has none gets it from its content and place."""
    return [_identified(pod, source, number) for number, pod in enumerate(pods)]


def _identified(record: PodRecord, source: str, number: int) -> PodRecord:
    if record.metadata.uid:
        return record
    text = msgspec.json.encode(record) + f"{source}:{number}".encode()
    hexed = hashlib.sha256(text).hexdigest()
    uid = f"{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:32]}"
    metadata = msgspec.structs.replace(record.metadata, uid=uid)
    return msgspec.structs.replace(record, metadata=metadata)
