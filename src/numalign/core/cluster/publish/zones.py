"""What a host publishes about its NUMA nodes: the content of a NodeResourceTopology object.

These values say what the object says, no more: zones that nobody understands, odd attributes and
amounts without sense stay in it. ``config_of`` and ``numa_zones`` say what a scheduler reads in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.publish.placement import PublishedPlacement
from numalign.core.values.quantity import Quantity

NODE_TYPE: Final = "Node"  # the one type of zone that means a NUMA node
ZONE_PREFIX: Final = "node-"
NUMA_ID_MAX: Final = 63  # zones with higher ids are passed over

POLICY_ATTRIBUTE: Final = "topologyManagerPolicy"
SCOPE_ATTRIBUTE: Final = "topologyManagerScope"
MAX_NODES_ATTRIBUTE: Final = "topologyManagerMaxNUMANodes"
FINGERPRINT_ATTRIBUTE: Final = "nodeTopologyPodsFingerprint"
FINGERPRINT_METHOD_ATTRIBUTE: Final = "nodeTopologyPodsFingerprintMethod"
EXCLUSIVE_METHOD: Final = "with-exclusive-resources"

NONE: Final = "none"
BEST_EFFORT: Final = "best-effort"
RESTRICTED: Final = "restricted"
SINGLE_NUMA_NODE: Final = "single-numa-node"
POLICIES: Final = frozenset({NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE})
CONTAINER: Final = "container"
POD: Final = "pod"
SCOPES: Final = frozenset({CONTAINER, POD})
MAX_NODES_DEFAULT: Final = 8
MAX_NODES_LIMIT: Final = 1024

# The deprecated field topologyPolicies: (policy, scope). Other words in it change nothing.
POLICY_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, CONTAINER),
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, POD),
    "RestrictedContainerLevel": (RESTRICTED, CONTAINER),
    "RestrictedPodLevel": (RESTRICTED, POD),
    "BestEffortContainerLevel": (BEST_EFFORT, CONTAINER),
    "BestEffortPodLevel": (BEST_EFFORT, POD),
}

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DIGITS_MAX: Final = 19  # more do not fit 64 bits, in which the text is read


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ZoneResource:
    name: str
    capacity: Quantity
    allocatable: Quantity
    available: Quantity


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone; a NUMA node where its type and name say so."""

    name: str
    type: str = NODE_TYPE
    resources: tuple[ZoneResource, ...] = ()
    costs: Mapping[str, int] = field(default_factory=dict)  # by the name of the other zone
    attributes: tuple[Attribute, ...] = ()
    parent: str = ""


@dataclass(frozen=True, slots=True)
class HostTopology:
    name: str
    zones: tuple[Zone, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    topology_policies: tuple[str, ...] = ()  # the deprecated field
    fingerprint_annotation: str | None = None  # the fingerprint's place before the attribute
    placement: PublishedPlacement | None = None  # ours, beyond the common fields

    def attribute(self, name: str) -> str | None:
        """The value of the first attribute of this name."""
        return next((a.value for a in self.attributes if a.name == name), None)

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the pods that were on the host; None if it published none."""
        found = self.attribute(FINGERPRINT_ATTRIBUTE)
        return self.fingerprint_annotation if found is None else found

    @property
    def is_fingerprint_exclusive(self) -> bool:
        """Whether the fingerprint counts only pods with exclusive resources."""
        return (
            self.attribute(FINGERPRINT_ATTRIBUTE) is not None
            and self.attribute(FINGERPRINT_METHOD_ATTRIBUTE) == EXCLUSIVE_METHOD
        )


@dataclass(frozen=True, slots=True)
class TopologyConfig:
    """The topology manager of a host, as far as a scheduler of the common kind asks."""

    policy: str = NONE
    scope: str = CONTAINER
    max_nodes: int = MAX_NODES_DEFAULT


def config_of(topology: HostTopology) -> TopologyConfig:
    """The policy and scope that a host publishes: attributes win, and later ones over earlier."""
    policy, scope, max_nodes = NONE, CONTAINER, MAX_NODES_DEFAULT
    if topology.topology_policies:
        word = topology.topology_policies[0]
        policy, scope = POLICY_WORDS.get(word, (policy, scope))
    for attribute in topology.attributes:
        value = attribute.value
        if attribute.name == SCOPE_ATTRIBUTE and value in SCOPES:
            scope = value
        elif attribute.name == POLICY_ATTRIBUTE and value in POLICIES:
            policy = value
        elif attribute.name == MAX_NODES_ATTRIBUTE:
            number = integer_of(value)
            if number is not None and number > 1:
                max_nodes = min(number, MAX_NODES_LIMIT)
    return TopologyConfig(policy, scope, max_nodes)


def integer_of(text: str) -> int | None:
    """The 64-bit number that a text of decimal digits names, with or without a sign."""
    if not _INTEGER.fullmatch(text):
        return None
    if len(text.lstrip("+-").lstrip("0")) > _DIGITS_MAX:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def numa_id(zone: Zone) -> int | None:
    """The NUMA node that a zone stands for; None for a zone that is passed over."""
    if zone.type != NODE_TYPE or not zone.name.startswith(ZONE_PREFIX):
        return None
    number = integer_of(zone.name.removeprefix(ZONE_PREFIX))
    return number if number is not None and 0 <= number <= NUMA_ID_MAX else None


def zone_name(node: int) -> str:
    return f"{ZONE_PREFIX}{node}"


def numa_zones(topology: HostTopology) -> Iterator[tuple[int, Zone]]:
    """The zones that stand for NUMA nodes, by ascending node, each node once.

    Two zones with the same node make no sense; the first one counts.
    """
    seen: dict[int, Zone] = {}
    for zone in topology.zones:
        node = numa_id(zone)
        if node is not None:
            seen.setdefault(node, zone)
    yield from sorted(seen.items())
