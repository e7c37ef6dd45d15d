"""From the JSON of vector files to the values of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numalign.core.kubelet.cpu.topology import CpuTopology, cpu_topology
from numalign.core.kubelet.devices.devices import Device
from numalign.core.machine.kubelet_view import CoreInfo, MachineInfo, NodeInfo
from numalign.core.machine.machine import HugePages
from numalign.core.pod import Container, Pod
from numalign.core.settings import Fidelity, ReservedMemory, Settings, Version
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import parse_list

Json = Mapping[str, Any]


def machine(data: Json) -> MachineInfo:
    sockets = {cpu["socket"] for node in data["numa_nodes"] for cpu in node.get("cpus") or ()}
    nodes = tuple(_node(node) for node in data["numa_nodes"])
    return MachineInfo(nodes, len(sockets), sum(node.memory_bytes for node in nodes))


def _node(data: Json) -> NodeInfo:
    cores: dict[tuple[int, int], list[Json]] = {}
    for cpu in data.get("cpus") or ():
        cores.setdefault((cpu["socket"], cpu["core"]), []).append(cpu)
    pages = data.get("hugepages") or {}
    distances = data.get("distances")
    return NodeInfo(
        data["id"],
        data["memory_bytes"],
        tuple(HugePages(Quantity.parse(size).value(), count) for size, count in pages.items()),
        None if distances is None else tuple(distances),
        tuple(
            CoreInfo(tuple(cpu["id"] for cpu in cpus), socket, cpus[0].get("uncore"))
            for (socket, _), cpus in cores.items()
        ),
    )


def topology(data: Json) -> CpuTopology:
    return cpu_topology(machine(data))


def settings(data: Json, version: Version) -> Settings:
    """The ``kubelet`` part of a scenario."""
    reserved = tuple(
        ReservedMemory(item["numa"], item["type"], Quantity.of(item["bytes"], binary=True))
        for item in data.get("reserved_memory") or ()
    )
    return Settings(
        version=version,
        fidelity=Fidelity.KUBELET,
        topology_policy=data.get("topology_manager_policy", ""),
        topology_scope=data.get("topology_manager_scope", ""),
        topology_options=data.get("topology_manager_policy_options") or {},
        cpu_policy=data.get("cpu_manager_policy", ""),
        cpu_options=data.get("cpu_manager_policy_options") or {},
        reserved_cpus=data.get("reserved_cpus") or "",
        memory_policy=data.get("memory_manager_policy", ""),
        reserved_memory=reserved,
        node_allocatable_reservation=_reservation(data, reserved),
        gates=data.get("feature_gates") or {},
    )


def _reservation(data: Json, reserved: tuple[ReservedMemory, ...]) -> dict[str, Quantity]:
    given = data.get("node_allocatable_reservation")
    if given is not None:
        return quantities(given)
    found: dict[str, Quantity] = {}
    if data.get("reserved_cpus"):
        found["cpu"] = Quantity.of(parse_list(data["reserved_cpus"]).bit_count())
    elif data.get("reserved_cpu_quantity"):
        found["cpu"] = Quantity.parse(data["reserved_cpu_quantity"])
    for item in reserved:
        before = found.get(item.type)
        found[item.type] = item.amount if before is None else before + item.amount
    return found


def quantities(data: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in (data or {}).items()}


def pod(data: Json) -> Pod:
    has_own = "requests" in data or "limits" in data
    return Pod(
        data["uid"],
        data.get("name", ""),
        data.get("namespace", ""),
        tuple(_container(c, is_init=True) for c in data.get("init_containers") or ()),
        tuple(_container(c, is_init=False) for c in data.get("containers") or ()),
        quantities(data.get("requests")) if has_own else None,
        quantities(data.get("limits")) if has_own else None,
    )


def _container(data: Json, *, is_init: bool) -> Container:
    return Container(
        data["name"],
        quantities(data.get("requests")),
        quantities(data.get("limits")),
        is_init,
        is_init and data.get("restart_policy") == "Always",
    )


def devices(data: Sequence[Json]) -> list[Device]:
    """The devices of one resource; an empty NUMA list means that the plugin said nothing."""
    return [
        Device(
            item["id"], tuple(item["numa"]) if item.get("numa") else None, item.get("healthy", True)
        )
        for item in data
    ]
