"""The pods that run on a host, from what kubectl prints of them or from static manifests.

Only what placement depends on is kept: names, uids, resources and the kind of each container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from numalign.core.cluster.publish.export import KnownPod
from numalign.core.errors import WireError
from numalign.core.pod import Pod
from numalign.wire import yaml as plain_yaml
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.pods.manifests import LISTS, core_pod, record_of
from numalign.wire.pods.records import (
    ContainerRecord,
    Metadata,
    PodRecord,
    PodSpec,
    PodStatusRecord,
    Resources,
)
from numalign.wire.pods.workloads import expanded

ENDED: Final = frozenset({"Succeeded", "Failed"})
# The uid of the static pod that a mirror pod of the API server stands for.
STATIC_UID: Final = "kubernetes.io/config.hash"
_DECODER: Final = msgspec.json.Decoder(PodRecord)


def running_pods(data: bytes, source: str) -> list[PodRecord]:
    """The pods of a v1.PodList that have not ended, or of manifests, reduced."""
    try:
        documents = plain_yaml.load_all(data)
    except WireError as error:
        raise WireError(f"{source}: {error}") from error
    if any(_is_list(d) for d in documents):
        return [reduced(r) for d in documents if d is not None for r in _running(d, source)]
    return [reduced(record) for record in expanded(data, source=source).required().pods]


def _is_list(document: object) -> bool:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return isinstance(kind, str) and kind in LISTS


def _running(document: Any, source: str) -> Iterator[PodRecord]:  # noqa: ANN401 any YAML
    items = document.get("items") or () if isinstance(document, Mapping) else None
    if not isinstance(items, list | tuple):
        raise WireError(f"{source}: found no list of items beside a list, expected pods.")
    for item in items:
        if not isinstance(item, Mapping) or item.get("kind", "Pod") != "Pod":
            raise WireError(f"{source}: found a list with other items than pods, expected pods.")
        status = item.get("status")
        if isinstance(status, Mapping) and str(status.get("phase")) in ENDED:
            continue
        record = record_of({"kind": "Pod", **item}, source)
        static_uid = (record.metadata.annotations or {}).get(STATIC_UID)
        if static_uid:
            record.metadata.uid = static_uid
        yield record


def reduced(record: PodRecord) -> PodRecord:
    """A pod without everything that placement does not depend on."""
    spec = record.spec
    return PodRecord(
        metadata=Metadata(
            name=record.metadata.name or record.metadata.generateName,
            namespace=record.metadata.namespace,
            uid=record.metadata.uid,
        ),
        spec=PodSpec(
            containers=[_container(c) for c in spec.containers or ()],
            initContainers=[_container(c) for c in spec.initContainers or ()] or None,
            resources=spec.resources,
            overhead=spec.overhead,
            restartPolicy=spec.restartPolicy,
        ),
        status=PodStatusRecord(qosClass=record.status.qosClass),
    )


def _container(record: ContainerRecord) -> ContainerRecord:
    return ContainerRecord(
        name=record.name, resources=record.resources, restartPolicy=record.restartPolicy
    )


def record_of_pod(pod: Pod, name: str | None = None) -> PodRecord:
    """The manifest of a pod that is known only as the core knows it."""
    records = [
        ContainerRecord(
            name=container.name,
            resources=Resources(
                requests={n: str(q) for n, q in container.requests.items()},
                limits={n: str(q) for n, q in container.limits.items()},
            ),
            restartPolicy="Always" if container.is_restartable else None,
        )
        for container in pod.in_order
    ]
    inits = len(pod.init_containers)
    whole = None
    if pod.requests is not None or pod.limits is not None:
        whole = Resources(
            requests={n: str(q) for n, q in (pod.requests or {}).items()},
            limits={n: str(q) for n, q in (pod.limits or {}).items()},
        )
    return PodRecord(
        metadata=Metadata(name=name or pod.name, namespace=pod.namespace, uid=pod.uid),
        spec=PodSpec(
            containers=records[inits:],
            initContainers=records[:inits] or None,
            resources=whole,
            overhead={n: str(q) for n, q in pod.overhead.items()} or None,
        ),
    )


def known_pod(data: bytes) -> KnownPod:
    """A v1.Pod of the API server, under the uid that the kubelet knows it by."""
    try:
        record = _DECODER.decode(data)
    except DECODE_FAULTS as error:
        raise WireError(f"found no v1.Pod: {error}") from error
    static = (record.metadata.annotations or {}).get(STATIC_UID)
    return KnownPod(core_pod(record), static or record.metadata.uid)
