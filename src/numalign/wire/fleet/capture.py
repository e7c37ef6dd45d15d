"""A captured cluster in one file: what hosts publish, and the pods as far as placement needs them.

    fleet.json         what this is
    nodes.json         a list of v1.Node: names, labels, taints, allocatable, readiness
    topologies.json    the NodeResourceTopology objects
    pods.json          a list of v1.Pod: names, labels, owners, resources, placement rules

Only members that are listed here get in, so nothing secret can: no environment, no command, no
annotation of a pod, of volumes only the names of claims. The placement that our exporter publishes
is in the topologies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from numalign.core.errors import WireError
from numalign.wire import bundle
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes import nrt

KIND: Final = "FleetCapture"
ABOUT: Final = "fleet.json"
HOSTS: Final = "nodes.json"
TOPOLOGIES: Final = "topologies.json"
PODS: Final = "pods.json"

# A tree of what is kept: a name alone is kept whole.
_Kept = Mapping[str, "Any"]
_WHOLE: Final[_Kept] = {}
_RESOURCES: Final[_Kept] = {
    "name": _WHOLE,
    "restartPolicy": _WHOLE,
    "resources": {"requests": _WHOLE, "limits": _WHOLE},
    "ports": {"hostPort": _WHOLE, "containerPort": _WHOLE, "protocol": _WHOLE, "hostIP": _WHOLE},
}
_POD: Final[_Kept] = {
    "metadata": {
        **dict.fromkeys(("name", "namespace", "uid", "labels", "deletionTimestamp"), _WHOLE),
        "ownerReferences": _WHOLE,
    },
    "spec": {
        **dict.fromkeys(("nodeName", "schedulerName", "priority", "nodeSelector"), _WHOLE),
        **dict.fromkeys(("affinity", "tolerations", "overhead", "resources"), _WHOLE),
        **dict.fromkeys(("topologySpreadConstraints", "hostNetwork"), _WHOLE),
        # Only that a claim may hold the pod to its host, and whose.
        "volumes": {
            "persistentVolumeClaim": {"claimName": _WHOLE},
            "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": _WHOLE}}},
        },
        "resourceClaims": {"name": _WHOLE},
        "schedulingGates": _WHOLE,
        "containers": _RESOURCES,
        "initContainers": _RESOURCES,
    },
    "status": dict.fromkeys(("phase", "reason", "qosClass"), _WHOLE),
}
_NODE: Final[_Kept] = {
    "metadata": {"name": _WHOLE, "labels": _WHOLE},
    "spec": {"taints": _WHOLE, "unschedulable": _WHOLE},
    "status": {"allocatable": _WHOLE, "conditions": {"type": _WHOLE, "status": _WHOLE}},
}
_ANNOTATIONS: Final[_Kept] = dict.fromkeys(
    (nrt.PLACEMENT_ANNOTATION, nrt.FINGERPRINT_ANNOTATION), _WHOLE
)
_TOPOLOGY: Final[_Kept] = {
    **dict.fromkeys(("apiVersion", "kind", "topologyPolicies", "zones", "attributes"), _WHOLE),
    "metadata": {"name": _WHOLE, "annotations": _ANNOTATIONS},
}


@dataclass(frozen=True, slots=True)
class FleetCapture:
    """Objects as JSON, each by itself."""

    hosts: tuple[msgspec.Raw, ...] = ()
    topologies: tuple[msgspec.Raw, ...] = ()
    pods: tuple[msgspec.Raw, ...] = ()


class _About(msgspec.Struct, rename="camel"):
    api_version: str = bundle.API_VERSION
    kind: str = KIND


def reduced(
    hosts: Iterable[msgspec.Raw], topologies: Iterable[msgspec.Raw], pods: Iterable[msgspec.Raw]
) -> FleetCapture:
    """What is kept of the objects of an API server; WireError where one is none."""
    try:
        return FleetCapture(_all(hosts, _NODE), _all(topologies, _TOPOLOGY), _all(pods, _POD))
    except DECODE_FAULTS as error:
        raise WireError(f"found an object that is no JSON: {error}") from error


def _all(raw: Iterable[msgspec.Raw], kept: _Kept) -> tuple[msgspec.Raw, ...]:
    found = (_reduced(msgspec.json.decode(bytes(one)), kept) for one in raw)
    return tuple(msgspec.Raw(msgspec.json.encode(one, order="sorted")) for one in found)


def _reduced(value: object, kept: _Kept) -> object:
    if not kept:
        return value
    if isinstance(value, list):
        return [_reduced(item, kept) for item in value]
    if not isinstance(value, dict):
        return None
    return {name: _reduced(value[name], kept[name]) for name in kept if name in value}


def packed(capture: FleetCapture) -> bytes:
    """The bytes of a capture: the same content gives the same bytes."""
    parts = ((HOSTS, capture.hosts), (TOPOLOGIES, capture.topologies), (PODS, capture.pods))
    members = [(ABOUT, msgspec.json.encode(_About()))]
    return bundle.tar_gz([*members, *((name, msgspec.json.encode(items)) for name, items in parts)])


def capture_of(files: Mapping[str, bytes], source: str) -> FleetCapture:
    """The capture with these members; WireError where it is none."""
    try:
        about = msgspec.json.decode(files.get(ABOUT, b"{}"), type=_About)
        missing = [n for n in (ABOUT, HOSTS, TOPOLOGIES, PODS) if n not in files]
        if missing or (about.api_version, about.kind) != (bundle.API_VERSION, KIND):
            raise WireError(
                f"{source}: found no {missing[0] if missing else KIND} in it, expected a file of "
                "'numalign capture --cluster'"
            )
        lists = [
            msgspec.json.decode(files[name], type=list[msgspec.Raw])
            for name in (HOSTS, TOPOLOGIES, PODS)
        ]
    except DECODE_FAULTS as error:
        raise WireError(f"{source}: {error}. Capture the cluster again.") from error
    return FleetCapture(*(tuple(one.copy() for one in found) for found in lists))
