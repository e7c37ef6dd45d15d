"""Workloads as the pods that their controllers would make: so many, with such names.

Where a controller takes letters at random, ours follow from the content: the same file always gives
the same pods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from numalign.core.errors import WireError
from numalign.wire import yaml as plain_yaml
from numalign.wire.pods.manifests import TEMPLATES, record_of, template_pod
from numalign.wire.pods.records import PodRecord

PODS_MAX: Final = 1_000  # of one text; more do not fit on any host
BARE_NAME: Final = "pod"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # those of Kubernetes' generated names
_BASE_CHARS_MAX: Final = 58  # so that a suffix still fits into a label

# Where the number of pods stands.
_COUNTS: Final = {
    "Deployment": ("spec", "replicas"),
    "StatefulSet": ("spec", "replicas"),
    "ReplicaSet": ("spec", "replicas"),
    "ReplicationController": ("spec", "replicas"),
    "Job": ("spec", "parallelism"),
    "CronJob": ("spec", "jobTemplate", "spec", "parallelism"),
}


def expanded(data: bytes, *, source: str) -> list[PodRecord]:
    """All pods of a YAML or JSON text, replicas counted, each with a uid.

    A DaemonSet has one pod on a host. A pod template without a kind is one pod.
    """
    try:
        documents = plain_yaml.load_all(data)
    except WireError as error:
        raise WireError(f"{source}: {error}") from error
    found: list[PodRecord] = []
    for document in documents:
        for item in _items(document, source):
            found += _pods(item, source, len(found))
    if not found:
        raise WireError(f"{source}: found nothing, expected a pod or a workload with a template")
    return found


def _items(document: Any, source: str) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 any YAML
    if document is None:
        return
    if not isinstance(document, Mapping):
        raise WireError(f"{source}: found {type(document).__name__}, expected a pod")
    if document.get("kind") not in {"List", "PodList"}:
        yield document
        return
    items = document.get("items") or ()
    if not isinstance(items, list):
        raise WireError(f"{source}: items: found {type(items).__name__}, expected a list")
    for item in items:
        if document["kind"] == "PodList" and isinstance(item, Mapping):
            item = {"kind": "Pod", **item}  # noqa: PLW2901 its items need not say what they are
        yield from _items(item, source)


def _pods(document: Mapping[str, Any], source: str, before: int) -> list[PodRecord]:
    kind, document = _kind(document, source)
    if kind == "Pod":
        record = record_of(document, source)
        return [_identified(record, source, before)]
    count = _count(document, kind, source)
    if before + count > PODS_MAX:
        raise WireError(f"{source}: found {before + count} pods, expected at most {PODS_MAX}")
    template = template_pod(document, kind, source)
    # What a controller makes is named after the workload, whatever the template says.
    name = (document.get("metadata") or {}).get("name") or template["metadata"].get("name")
    metadata = {**template["metadata"], "name": name or BARE_NAME, "uid": ""}
    record = record_of({**template, "metadata": metadata}, source)
    names = _names(kind, record, document, count)
    return [
        _identified(_renamed(record, name), source, before + number)
        for number, name in enumerate(names)
    ]


def _kind(document: Mapping[str, Any], source: str) -> tuple[str, Mapping[str, Any]]:
    """The kind of a document; one without it may still be a template."""
    kind = document.get("kind")
    if kind is None and "apiVersion" not in document:
        spec = document.get("spec")
        if isinstance(document.get("template"), Mapping):
            return "PodTemplate", document
        if isinstance(spec, Mapping) and isinstance(spec.get("template"), Mapping):
            return "PodTemplate", {**document, "template": spec["template"]}
        if isinstance(spec, Mapping) and "containers" in spec:
            return "PodTemplate", {"template": document}
    if not isinstance(kind, str):
        raise WireError(f"{source}: found kind {kind!r}, expected a text such as Pod")
    if kind != "Pod" and kind not in TEMPLATES:
        known = ", ".join(["Pod", "List", *TEMPLATES])
        raise WireError(f"{source}: found kind {kind!r}, expected one of {known}")
    return kind, document


def _count(document: Mapping[str, Any], kind: str, source: str) -> int:
    path = _COUNTS.get(kind)
    if path is None:
        return 1
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if found is None:
        return 1
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        where = ".".join(path)
        raise WireError(f"{source}: {where}: found {found!r}, expected a number of pods")
    return found


def _names(kind: str, record: PodRecord, document: Mapping[str, Any], count: int) -> list[str]:
    base = record.metadata.name
    if kind == "PodTemplate":
        return [base]
    if kind == "StatefulSet":
        return [f"{base}-{number}" for number in range(count)]
    content = msgspec.json.encode(record)
    if kind == "Deployment":
        base = f"{base}-{_letters(content, 10)}"
    elif kind == "CronJob":
        base = f"{base}-{_letters(content, 8)}"
    base = base[:_BASE_CHARS_MAX].rstrip("-.")
    spec = document.get("spec")
    indexed = isinstance(spec, Mapping) and spec.get("completionMode") == "Indexed"
    return [
        f"{base}-{f'{number}-' if indexed else ''}{_letters(content + b'%d' % number, 5)}"
        for number in range(count)
    ]


def _letters(content: bytes, count: int) -> str:
    digest = hashlib.sha256(content).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:count])


def _renamed(record: PodRecord, name: str) -> PodRecord:
    metadata = msgspec.structs.replace(record.metadata, name=name)
    return msgspec.structs.replace(record, metadata=metadata)


def _identified(record: PodRecord, source: str, number: int) -> PodRecord:
    """The pod with a uid, made from its content and place if it has none."""
    if record.metadata.uid:
        return record
    text = msgspec.json.encode(record) + f"{source}:{number}".encode()
    hexed = hashlib.sha256(text).hexdigest()
    uid = f"{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:32]}"
    metadata = msgspec.structs.replace(record.metadata, uid=uid)
    return msgspec.structs.replace(record, metadata=metadata)
