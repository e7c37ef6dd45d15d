"""NodeResourceTopology objects: v1alpha2 read and written, v1alpha1 read.

``read`` takes what any exporter may have written. An object that is not one is refused whole, in
one line; parts that nobody needs to understand (a strange zone, a placement that cannot be read)
are told as problems and passed over, so that the rest still counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.cluster.publish.zones import Attribute, HostTopology, Zone, ZoneResource, numa_id
from numalign.core.errors import WireError
from numalign.core.values.quantity import Quantity
from numalign.wire.faults import DECODE_FAULTS
from numalign.wire.kubernetes import placement
from numalign.wire.kubernetes.api import HOSTS, NRTS

V1ALPHA1: Final = "topology.node.k8s.io/v1alpha1"
V1ALPHA2: Final = "topology.node.k8s.io/v1alpha2"
PLACEMENT_ANNOTATION: Final = "numalign.io/placement"
FINGERPRINT_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"
PLACEMENT_ATTRIBUTE: Final = "numalignPlacement"
TOO_LARGE: Final = "too-large"  # the attribute's value where the placement was left out

OBJECT_BYTES_MAX: Final = 4 << 20
ZONES_MAX: Final = 1_024
RESOURCES_MAX: Final = 1_024  # of one zone
ATTRIBUTES_MAX: Final = 4_096
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class _Named(msgspec.Struct):
    name: str
    value: str


class _Cost(msgspec.Struct):
    name: str
    value: int


class _Resource(msgspec.Struct):
    name: str
    capacity: str | int
    allocatable: str | int
    available: str | int


class _Zone(msgspec.Struct):
    name: str
    type: str
    parent: str = ""
    costs: list[_Cost] | None = None
    attributes: list[_Named] | None = None
    resources: list[_Resource] | None = None


class _Metadata(msgspec.Struct, rename={"resource_version": "resourceVersion"}):
    name: str
    annotations: dict[str, str] | None = None
    resource_version: str = ""


class _Object(msgspec.Struct, rename={"api_version": "apiVersion", "policies": "topologyPolicies"}):
    api_version: str
    kind: str
    metadata: _Metadata
    zones: list[_Zone]
    policies: list[str] | None = None
    attributes: list[_Named] | None = None


_DECODER: Final = msgspec.json.Decoder(_Object)


@dataclass(frozen=True, slots=True)
class NrtObject:
    """One object as it was read, and what in it was passed over."""

    topology: HostTopology
    resource_version: str = ""
    problems: tuple[str, ...] = ()


def read(data: bytes) -> NrtObject:
    """The object in a JSON text; WireError in one line where it is none."""
    if len(data) > OBJECT_BYTES_MAX:
        raise WireError(
            f"found a NodeResourceTopology of {len(data)} bytes, "
            f"expected at most {OBJECT_BYTES_MAX}"
        )
    try:
        found = _DECODER.decode(data)
    except DECODE_FAULTS as exc:
        raise WireError(f"found no NodeResourceTopology: {exc}") from exc
    return _checked(found)


def _checked(found: _Object) -> NrtObject:
    name = found.metadata.name
    if found.kind != NRTS.name or found.api_version not in (V1ALPHA1, V1ALPHA2):
        raise WireError(
            f"found {found.kind[:60]} of {found.api_version[:60]}, expected {NRTS.name} of "
            f"{V1ALPHA2} or {V1ALPHA1}"
        )
    if not _NAME.fullmatch(name):
        raise WireError(f"found a {NRTS.name} named {name[:100]!r}, expected the name of a host")
    is_old = found.api_version == V1ALPHA1
    if is_old and found.policies is None:
        raise WireError(f"{NRTS.name} {name}: found no topologyPolicies, which v1alpha1 requires")
    _bounded(name, "zones", len(found.zones), ZONES_MAX)
    annotations = found.metadata.annotations or {}
    placed, problems = _placement(annotations.get(PLACEMENT_ANNOTATION))
    zones = tuple(_zone(name, zone) for zone in found.zones)
    problems += [
        f"zone {zone.name[:100]!r} of type {zone.type[:100]!r} is passed over: expected type Node "
        "and a name such as node-0"
        for zone in zones
        if numa_id(zone) is None
    ]
    topology = HostTopology(
        name,
        zones,
        () if is_old else _attributes(name, found.attributes),
        tuple(found.policies or ()),
        annotations.get(FINGERPRINT_ANNOTATION),
        placed,
    )
    return NrtObject(topology, found.metadata.resource_version, tuple(problems))


def _placement(text: str | None) -> tuple[PublishedPlacement | None, list[str]]:
    if text is None:
        return None, []
    try:
        return placement.decode(text), []
    except WireError as error:
        return None, [f"annotation {PLACEMENT_ANNOTATION}: {error}"]


def _zone(host: str, found: _Zone) -> Zone:
    where = f"{host}: zone {found.name[:100]}"
    resources = found.resources or []
    _bounded(where, "resources", len(resources), RESOURCES_MAX)
    _bounded(where, "costs", len(found.costs or ()), ZONES_MAX)
    return Zone(
        found.name,
        found.type,
        tuple(
            ZoneResource(
                one.name,
                _amount(where, one.name, one.capacity),
                _amount(where, one.name, one.allocatable),
                _amount(where, one.name, one.available),
            )
            for one in resources
        ),
        {cost.name: cost.value for cost in reversed(found.costs or ())},  # the first one counts
        _attributes(where, found.attributes),
        found.parent,
    )


def _amount(where: str, name: str, text: str | int) -> Quantity:
    try:
        amount = Quantity.parse(str(text))
    except ValueError as exc:
        raise WireError(f"{where}: {name[:100]}: found {str(text)[:100]!r}: {exc}") from exc
    if amount.nanos < 0:
        raise WireError(f"{where}: {name[:100]}: found {str(text)[:100]}, expected 0 or more")
    return amount


def _attributes(where: str, found: list[_Named] | None) -> tuple[Attribute, ...]:
    _bounded(where, "attributes", len(found or ()), ATTRIBUTES_MAX)
    return tuple(Attribute(one.name, one.value) for one in found or ())


def _bounded(where: str, what: str, count: int, highest: int) -> None:
    if count > highest:
        raise WireError(f"{where}: found {count} {what}, expected at most {highest}")


def host_reference(topology: HostTopology, uid: str) -> dict[str, Any] | None:
    """How an object names the Node that owns it; None without one."""
    if not uid:
        return None
    return {
        "apiVersion": HOSTS.api_version,
        "kind": HOSTS.name,
        "name": topology.name,
        "uid": uid,
    }


def body(topology: HostTopology, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    """The v1alpha2 object to apply. A placement that is too large is left out, and told so."""
    annotations: dict[str, str] = {}
    attributes = list(topology.attributes)
    if topology.placement is not None:
        text = placement.encode(topology.placement)
        if text is None:
            attributes.append(Attribute(PLACEMENT_ATTRIBUTE, TOO_LARGE))
        else:
            annotations[PLACEMENT_ANNOTATION] = text
    if topology.fingerprint_annotation is not None:
        annotations[FINGERPRINT_ANNOTATION] = topology.fingerprint_annotation
    metadata: dict[str, Any] = {"name": topology.name}
    if annotations:
        metadata["annotations"] = annotations
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": V1ALPHA2,
        "kind": NRTS.name,
        "metadata": metadata,
        "topologyPolicies": list(topology.topology_policies),
        "attributes": [{"name": a.name, "value": a.value} for a in attributes],
        "zones": [_zone_body(zone) for zone in topology.zones],
    }


def _zone_body(zone: Zone) -> dict[str, Any]:
    found: dict[str, Any] = {"name": zone.name, "type": zone.type}
    if zone.parent:
        found["parent"] = zone.parent
    if zone.attributes:
        found["attributes"] = [{"name": a.name, "value": a.value} for a in zone.attributes]
    if zone.costs:
        found["costs"] = [{"name": name, "value": value} for name, value in zone.costs.items()]
    found["resources"] = [
        {
            "name": one.name,
            "capacity": str(one.capacity),
            "allocatable": str(one.allocatable),
            "available": str(one.available),
        }
        for one in zone.resources
    ]
    return found
