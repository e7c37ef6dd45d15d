"""Pods for the redeploy loop: what it looks at, and the changes that it makes to them."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from numalign.core.cluster.refused_pods import GATE, Owner, SeenPod, shape_of
from numalign.core.errors import WireError
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes.objects import MIRROR_ANNOTATION, POD, ApiPod, read
from numalign.wire.pods.manifests import core_pod

AVOIDED_ANNOTATION: Final = "numalign.io/avoided-hosts"
RECREATE_ANNOTATION: Final = "numalign.io/recreate"
ROOT_ANNOTATION: Final = "numalign.io/recreated-from"
NAME_LENGTH_MAX: Final = 253
_AGAIN: Final = re.compile(r"(.*)-r([0-9]{1,6})")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# What the API server or the old pod's life has put into a pod, and no new pod may have.
_OWN_METADATA: Final = ("labels", "annotations", "finalizers")


@dataclass(frozen=True, slots=True)
class WatchedPod:
    """A pod, and whether its host gains room for others when it leaves."""

    pod: SeenPod
    holds: bool


def watched_pod(data: bytes) -> WatchedPod:
    try:
        return _watched(read(POD, data))
    except ValueError as error:
        raise WireError(f"found no v1.Pod: {error}") from error


def _watched(record: ApiPod) -> WatchedPod:
    metadata, spec, status = record.metadata, record.spec, record.status
    annotations = metadata.annotations or {}
    gates = [gate.name for gate in spec.schedulingGates or ()]
    avoids = tuple(filter(None, annotations.get(AVOIDED_ANNOTATION, "").split(",")))
    has_failed = status.phase == "Failed"
    concerns = has_failed or bool(gates) or bool(avoids)
    owner = metadata.controller
    seen = SeenPod(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        Owner(owner.apiVersion, owner.kind, owner.name, owner.uid) if owner else None,
        shape_of(core_pod(record)) if concerns else "",
        spec.nodeName,
        (status.reason or "unknown") if has_failed else "",
        status.message if has_failed else "",
        _seconds(status.startTime or metadata.creationTimestamp) if has_failed else 0.0,
        gates == [GATE],
        avoids,
        MIRROR_ANNOTATION in annotations,
        metadata.deletionTimestamp is not None,
        annotations.get(RECREATE_ANNOTATION) == "true",
        annotations.get(ROOT_ANNOTATION, ""),
    )
    is_placed = bool(spec.nodeName and status.startTime) and status.phase in ("Pending", "Running")
    return WatchedPod(seen, is_placed and _is_exclusive(record))


def _is_exclusive(record: ApiPod) -> bool:
    """Whether it may hold something for itself alone."""
    if record.status.qosClass == "Guaranteed":
        return True
    containers = [*(record.spec.initContainers or ()), *(record.spec.containers or ())]
    limits = [(c.resources.limits or {}) if c.resources is not None else {} for c in containers]
    return any("/" in name for found in limits for name in found)


def _seconds(text: str | None) -> float:
    return datetime.datetime.fromisoformat(text).timestamp() if text else 0.0


def gate_patch(data: bytes, uid: str, avoids: tuple[str, ...]) -> dict[str, Any] | None:
    """A merge patch that takes our gate off this very pod; None if there is nothing to do."""
    found = _object(data)
    metadata, spec = found["metadata"], found.get("spec", {})
    gates = spec.get("schedulingGates") or []
    left = [gate for gate in gates if gate.get("name") != GATE]
    if metadata.get("uid") != uid or len(left) == len(gates):
        return None
    change: dict[str, Any] = {"schedulingGates": left}
    head: dict[str, Any] = {"uid": uid, "resourceVersion": metadata["resourceVersion"]}
    if avoids:
        change["affinity"] = _affinity(spec, avoids)
        head["annotations"] = {AVOIDED_ANNOTATION: ",".join(avoids)}
    return {"metadata": head, "spec": change}


def _affinity(spec: dict[str, Any], avoids: tuple[str, ...]) -> dict[str, Any]:
    """The pod's own node affinity with these hosts ruled out in each of its terms."""
    # The API allows one value for each requirement on a field.
    rules = [{"key": "metadata.name", "operator": "NotIn", "values": [host]} for host in avoids]
    own = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (own.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    ruled = [{**term, "matchFields": [*(term.get("matchFields") or ()), *rules]} for term in terms]
    return {"nodeAffinity": {**own, _REQUIRED: {"nodeSelectorTerms": ruled}}}


def recreated(data: bytes, uid: str, avoids: tuple[str, ...]) -> dict[str, Any] | None:
    """The body of a pod that is made again from this very one; None if that is not there.

    It has another name, so that it can be made before the old one is deleted and nothing is lost.
    """
    found = _object(data)
    old = found["metadata"]
    if old.get("uid") != uid:
        return None
    metadata = {key: old[key] for key in _OWN_METADATA if old.get(key)}
    annotations = {**metadata.get("annotations", {})}
    annotations.setdefault(ROOT_ANNOTATION, uid)
    metadata |= {
        "name": next_name(old["name"]),
        "namespace": old.get("namespace", "default"),
        "annotations": annotations,
    }
    spec = {key: value for key, value in found.get("spec", {}).items() if key != "nodeName"}
    if avoids:
        spec["affinity"] = {**(spec.get("affinity") or {}), **_affinity(spec, avoids)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def next_name(name: str) -> str:
    """The name of a pod that is made again: ``db``, ``db-r1``, ``db-r2``."""
    again = _AGAIN.fullmatch(name)
    base, number = (again[1], int(again[2]) + 1) if again else (name, 1)
    ending = f"-r{number}"
    return base[: NAME_LENGTH_MAX - len(ending)].rstrip("-.") + ending


def _object(data: bytes) -> dict[str, Any]:
    """All members of a pod; WireError unless those that are looked at are of their types."""
    record = read(POD, data)
    try:
        found: dict[str, Any] = msgspec.json.decode(data)
    except DECODE_FAULTS as error:  # in a member that is not looked at
        raise WireError(f"found no v1.Pod: {error}") from error
    if not record.metadata.name or not record.metadata.resourceVersion:
        raise WireError("found a v1.Pod without name or resourceVersion, expected one of a cluster")
    return found
