"""The settings of a host: its KubeletConfiguration applied to its machine."""

from __future__ import annotations

from typing import Final

from numalign.core.kubelet.topology.policy import MAX_NODES, NODES_MAX_DEFAULT
from numalign.core.machine.machine import Machine
from numalign.core.settings import Fidelity, ReservedMemory, Settings, Version
from numalign.core.values.quantity import Quantity, hugepage_type
from numalign.wire.kubelet import config as kubelet_config
from numalign.wire.kubelet.config import KubeletConfig

RESERVED_MEMORY: Final = "100Mi"  # what the kubelet's default eviction threshold keeps back


def host_settings(
    config: KubeletConfig,
    machine: Machine,
    *,
    version: Version,
    fidelity: Fidelity = Fidelity.KUBELET,
) -> Settings:
    pages: dict[str, int] = {}
    for node in machine.nodes:
        for found in node.hugepages:
            name = hugepage_type(found.size_bytes)
            pages[name] = pages.get(name, 0) + found.size_bytes * found.count
    return kubelet_config.settings_for(
        config,
        version=version,
        cpu_count=len(machine.cpus),
        online=machine.online,
        memory_bytes=machine.memory_bytes,
        hugepage_bytes=pages,
        fidelity=fidelity,
    )


def default_config(machine: Machine) -> KubeletConfig:
    """What suits a host that nobody has configured: pin what asks for it, refuse nothing.

    Static CPU and memory managers, best-effort alignment, the lowest CPU and a little memory of the
    first node that has any kept for the system. A machine with more NUMA nodes than the kubelet
    allows by itself gets the option that allows them.
    """
    count = len(machine.nodes)
    options = {MAX_NODES: str(count)} if count > NODES_MAX_DEFAULT else {}
    node = next((node.id for node in machine.nodes if node.memory_bytes), machine.nodes[0].id)
    return KubeletConfig(
        cpu_policy="static",
        memory_policy="Static",
        topology_policy="best-effort",
        topology_options=options,
        reserved_system_cpus=str(machine.cpus[0].id),
        reserved_memory=(ReservedMemory(node, "memory", Quantity.parse(RESERVED_MEMORY)),),
    )
