"""A simulated fleet at one moment as a capture, which capacity and defrag open like a real one."""

from __future__ import annotations

from typing import Any

import msgspec

from numalign.core.cluster.publish.fingerprint import fingerprint
from numalign.core.cluster.publish.of_state import placement_of
from numalign.core.cluster.publish.zones import (
    FINGERPRINT_ATTRIBUTE,
    POLICY_ATTRIBUTE,
    SCOPE_ATTRIBUTE,
    Attribute,
    HostTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numalign.core.fleet.simulation.model import SimHost
from numalign.core.fleet.simulation.run import Simulation
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.values.quantity import Quantity
from numalign.wire.fleet.capture import FleetCapture
from numalign.wire.kubernetes import nrt
from numalign.wire.pods.running import record_of_pod

POOL_LABEL = "node-pool"


def fleet_capture(run: Simulation) -> FleetCapture:
    """The whole fleet as it is now."""
    owners = {work.uid: work.job.owner for work in run.works}
    hosts = sorted(run.hosts, key=lambda host: host.name)
    pods = [
        _pod(host, uid, owners.get(uid, uid)) for host in hosts for uid in sorted(host.state.pods)
    ]
    return FleetCapture(
        tuple(_raw(_node(host)) for host in hosts),
        tuple(_raw(nrt.body(topology_of(host))) for host in hosts),
        tuple(_raw(pod) for pod in pods),
    )


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value, order="sorted"))


def _node(host: SimHost) -> dict[str, Any]:
    offer = {
        name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in sorted(host.allocatable.items())
    }
    return {
        "metadata": {"name": host.name, "labels": {POOL_LABEL: host.group}},
        "status": {"allocatable": offer, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(host: SimHost, uid: str, owner: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(record_of_pod(host.state.pods[uid]))
    found["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    ]
    found["spec"]["nodeName"] = host.name
    found["status"] = {"phase": "Running"}
    return found


def topology_of(host: SimHost) -> HostTopology:
    """What the host publishes."""
    settings, pods_max = host.frame.host.settings, host.frame.totals[PODS]
    names = [(pod.namespace, pod.name) for pod in host.state.pods.values()]
    nodes = sorted(host.frame.host.info.nodes, key=lambda node: node.id)
    zones = tuple(
        Zone(
            zone_name(node.id),
            resources=tuple(
                ZoneResource(name, *[Quantity.of(amount)] * 3)
                for name, amount in sorted(own.items())
            ),
            costs={
                zone_name(other.id): distance
                for other, distance in zip(nodes, node.distances or (), strict=False)
            },
        )
        for node, own in zip(nodes, host.room.nodes, strict=True)
    )
    attributes = (
        Attribute(POLICY_ATTRIBUTE, settings.topology_policy),
        Attribute(SCOPE_ATTRIBUTE, settings.topology_scope),
        Attribute(FINGERPRINT_ATTRIBUTE, fingerprint(names)),
    )
    return HostTopology(
        host.name, zones, attributes, placement=placement_of(host.frame.host, host.state, pods_max)
    )
