"""The host as a whole: what it has, who sits where, and how much would still fit.

Three words for CPUs: *exclusive* ones belong to a container, *shared* ones to the pool of all
others, and *free* are those of the pool that could still be given away.
"""

from __future__ import annotations

from collections.abc import Mapping

from numalign import __version__
from numalign.apps.agent.model import AgentSetup, AgentState, own_cpus, sits_on
from numalign.apps.agent.views import answers
from numalign.apps.render.drawing.structure import structure
from numalign.core.cluster.scheduling.rebuild import frame_now
from numalign.core.fleet.stranded import Stranded, stranded_on
from numalign.core.kubelet.devices.devices import DeviceResource
from numalign.core.kubelet.host import Host
from numalign.core.kubelet.state import CpuState, MemoryState, MemoryTable
from numalign.core.machine.machine import Machine, NumaNode
from numalign.core.values.quantity import Quantity
from numalign.core.values.sets import format_list
from numalign.core.what_if import largest_fit
from numalign.wire.memory_block import memory_blocks

Amounts = Mapping[str, int]


def agent_source(machine: Machine, *more: str) -> answers.Source:
    """What an agent says its answers are about."""
    has = ["events", "manifests", "metrics", *more]
    return answers.Source("agent", machine.name, has, __version__, live=True)


def node_view(
    setup: AgentSetup, state: AgentState, machine: Machine, source: answers.Source | None = None
) -> answers.Node:
    """Everything about the host, ready for JSON."""
    totals, used = _totals(setup, state), largest_fit.used(setup.host, state.host)
    left = largest_fit.left(setup.host, state.host, setup.totals)
    pool = _pool(setup.host, state.host.cpu)
    stranded = {
        one.node: one
        for one in stranded_on(frame_now(setup.host, setup.totals, state.host), state.host)
    }
    return answers.Node(
        machine=_machine(machine),
        settings=_settings(setup.host),
        reserved=_reserved(setup.host, state.host.memory),
        shared_pool=answers.SharedPool(format_list(pool), pool.bit_count()),
        allocatable=_quantities(totals),
        requested=_quantities(used),
        nodes=[_node(setup, state, node, machine, stranded) for node in machine.nodes],
        devices=[device for r in sorted(_known(state)) for device in _devices(state, r)],
        largest=[_largest(setup, state, node.id, left) for node in machine.nodes],
        layout=structure(machine),
        source=source or agent_source(machine),
    )


def _machine(machine: Machine) -> answers.MachineFacts:
    return answers.MachineFacts(
        name=machine.name,
        sockets=len(machine.sockets),
        cores=len(machine.cores),
        cpus=str(machine.online),
        cpu_count=len(machine.online),
        offline=str(machine.offline),
        numa_nodes=str(machine.node_set),
        memory_bytes=machine.memory_bytes,
        notes=list(machine.notes),
    )


def _settings(host: Host) -> answers.SettingsInForce:
    settings = host.settings
    return answers.SettingsInForce(
        version=settings.version.value,
        topology_manager_policy=settings.topology_policy,
        topology_manager_scope=settings.topology_scope,
        topology_manager_policy_options=dict(settings.topology_options),
        cpu_manager_policy=settings.cpu_policy,
        cpu_manager_policy_options=dict(settings.cpu_options),
        memory_manager_policy=settings.memory_policy,
        fidelity=settings.fidelity.value,
    )


def _reserved(host: Host, memory: MemoryState) -> answers.Reserved:
    return answers.Reserved(
        format_list(0 if host.cpu is None else host.cpu.reserved),
        [
            answers.ReservedOnNode(node, name, table.system_reserved)
            for node, found in memory.machine.items()
            for name, table in found.tables.items()
            if table.system_reserved
        ],
        {k: str(v) for k, v in host.settings.node_allocatable_reservation.items()},
    )


def _pool(host: Host, cpu: CpuState) -> int:
    """The CPUs of containers that have none of their own."""
    return host.cpu_topology.all if host.cpu is None else cpu.shared


def _free(host: Host, cpu: CpuState) -> int:
    """The CPUs that could be given to a container for itself."""
    return 0 if host.cpu is None else cpu.shared & ~host.cpu.reserved


# Totals.


def _totals(setup: AgentSetup, state: AgentState) -> dict[str, int]:
    healthy = {n: r.healthy.bit_count() for n, r in state.host.devices.resources.items()}
    return {**setup.totals, **healthy}


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {name: str(_quantity(name, amount)) for name, amount in amounts.items()}


def _quantity(name: str, amount: int) -> Quantity:
    if name == "cpu":
        return Quantity.of_milli(amount)
    return Quantity.of(amount, binary=name == "memory" or name.startswith("hugepages-"))


# One NUMA node.


def _node(
    setup: AgentSetup,
    state: AgentState,
    node: NumaNode,
    machine: Machine,
    stranded: Mapping[int, Stranded],
) -> answers.NumaNode:
    host, cpu = setup.host, state.host.cpu
    own = node.cpus.mask & host.cpu_topology.all
    exclusive = 0
    for containers in cpu.entries.values():
        for mask in containers.values():
            exclusive |= mask
    for mask in cpu.pod_sets.values():
        exclusive |= mask
    reserved = 0 if host.cpu is None else host.cpu.reserved
    memory = state.host.memory.machine.get(node.id)
    by_use = (own, own & exclusive, own & _pool(host, cpu), own & _free(host, cpu), own & reserved)
    return answers.NumaNode(
        id=node.id,
        distances=None if node.distances is None else list(node.distances),
        cpus=answers.CpusOfNode(*map(format_list, by_use)),
        cores=[format_list(core.mask & own) for core in machine.cores.values() if core.mask & own],
        memory=[] if memory is None else _memory(memory.tables),
        memory_group=[node.id] if memory is None else list(memory.cells),
        occupants=_occupants(setup, state, node.id, own),
        stranded=_stranded(stranded.get(node.id)),
    )


def _stranded(found: Stranded | None) -> answers.StrandedFacts | None:
    if found is None:
        return None
    return answers.StrandedFacts(found.text, dict(found.idle), list(found.missing))


def _memory(tables: Mapping[str, MemoryTable]) -> list[answers.MemoryOfNode]:
    return [
        answers.MemoryOfNode(name, table.total, table.system_reserved, table.reserved, table.free)
        for name, table in tables.items()
    ]


def _occupants(setup: AgentSetup, state: AgentState, node: int, own: int) -> list[answers.Occupant]:
    found = []
    for uid in state.host.pods:
        known = state.pods.get(uid)
        if known is None:
            continue
        blocks = state.host.memory.entries.get(uid, {})
        for container in known.pod.in_order:
            cpus = sits_on(setup, state, uid, container) & own
            memory = [b for b in blocks.get(container.name, ()) if node in b.nodes and b.size]
            if cpus or memory:
                found.append(
                    answers.Occupant(
                        known.pod.namespace,
                        known.pod.name,
                        uid,
                        container.name,
                        format_list(cpus),
                        own_cpus(state, uid, container) is not None,
                        memory_blocks(memory),
                    )
                )
    return found


# Devices.


def _known(state: AgentState) -> Mapping[str, DeviceResource]:
    return state.host.devices.resources


def _devices(state: AgentState, resource: str) -> list[answers.Device]:
    found = _known(state)[resource]
    holders: dict[str, answers.Holder] = {}
    for uid, containers in state.host.devices.entries.items():
        known = state.pods.get(uid)
        namespace, pod = (known.pod.namespace, known.pod.name) if known else ("", "")
        for name, resources in containers.items():
            if resource in resources:
                who = answers.Holder(namespace, pod, uid, name)
                holders |= dict.fromkeys(resources[resource].ids, who)
    return [
        answers.Device(
            resource=resource,
            id=device,
            nodes=list(found.nodes_of.get(device, ())),
            healthy=bool(found.healthy >> number & 1),
            holder=holders.get(device),
        )
        for number, device in enumerate(found.ids)
    ]


# What would still fit.


def _largest(setup: AgentSetup, state: AgentState, node: int, left: Amounts) -> answers.Shape:
    """The largest container with CPUs and memory of its own that this node alone can hold."""
    shape = largest_fit.room(setup.host, state.host, 1 << node, left)
    return answers.Shape(node, shape.cpus, dict(shape.memory), dict(shape.devices))
