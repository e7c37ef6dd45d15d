"""5,000 hosts, some pods, and what the real plugin said of them; recorded beside the checkout."""

import gzip
import json
from dataclasses import dataclass, replace
from typing import Any

from tests.paths import SHARED

from numalign.core.cluster.publish.zones import Attribute, HostTopology, Zone, ZoneResource
from numalign.core.pod import Container, Pod, Qos
from numalign.core.values.quantity import Quantity

FOLDER = SHARED / "bench" / "scheduler"
ALLOCATABLE = ("cpu", "memory", "hugepages-2Mi", "vendor.com/gpu", "pods")
MISSING = f"needs the recorded hosts in {FOLDER}"


@dataclass(frozen=True)
class Expected:
    pod: str
    scope: str
    passing: list[str]
    scores: dict[str, list[int]]


def topologies(scope: str = "container") -> list[HostTopology]:
    return [_topology(host, scope) for host in _read("hosts.json.gz")]


def with_scope(topology: HostTopology, scope: str) -> HostTopology:
    return replace(topology, attributes=_attributes(scope))


def pods() -> dict[str, Pod]:
    with (FOLDER / "pods.json").open() as stream:
        return {pod["key"]: _pod(pod) for pod in json.load(stream)}


def expected() -> list[Expected]:
    return [
        Expected(e["pod"], e["scope"], e["passing"], e["scores"]) for e in _read("expected.json.gz")
    ]


def _read(name: str) -> Any:
    with gzip.open(FOLDER / name) as stream:
        return json.load(stream)


def _attributes(scope: str) -> tuple[Attribute, ...]:
    return (
        Attribute("topologyManagerPolicy", "single-numa-node"),
        Attribute("topologyManagerScope", scope),
    )


def _topology(host: Any, scope: str) -> HostTopology:
    zones = tuple(
        Zone(zone["name"], resources=tuple(_resource(*item) for item in zone["resources"].items()))
        for zone in host["zones"]
    )
    return HostTopology(host["name"], zones, _attributes(scope))


def _resource(name: str, texts: dict[str, str]) -> ZoneResource:
    kinds = ("capacity", "allocatable", "available")
    return ZoneResource(name, *(Quantity.parse(texts[kind]) for kind in kinds))


def _pod(data: Any) -> Pod:
    containers = tuple(
        Container(f"c{i}", _amounts(c.get("requests")), _amounts(c.get("limits")))
        for i, c in enumerate(data["containers"])
    )
    return Pod(data["key"], data["key"], "bench", containers=containers, qos=Qos(data["qos"]))


def _amounts(texts: dict[str, str] | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in (texts or {}).items()}
