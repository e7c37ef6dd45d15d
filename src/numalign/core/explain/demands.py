"""What a container, or a whole pod, asks of each manager, and how much of it is free where.

The state is the one at the moment of the refusal: what earlier containers of the pod were given on
the way counts as taken. ``verdict_on`` returns just that state with a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numalign.core.kubelet.admission.admission import CPU_MANAGER, DEVICE_MANAGER, MEMORY_MANAGER
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.admission.node_fit import Shortage
from numalign.core.kubelet.devices.devices import EMPTY
from numalign.core.pod import (
    Container,
    NotAnIntegerError,
    is_memory_type,
    pod_exclusive_cpus,
    pod_limits,
    pod_memory_requests,
)
from numalign.core.values.sets import NodeSet, mask_of
from numalign.core.values.sizes import human

NODES_NAMED_MAX: Final = 4  # free amounts are listed node by node on machines up to this size


@dataclass(frozen=True, slots=True)
class Room:
    """How much of a resource one NUMA node has, or several together; 0 nodes: at none."""

    nodes: int  # a mask
    free: int
    most: int  # what it would have if no pod were there

    @property
    def where(self) -> str:
        return f"{'node' if self.nodes.bit_count() == 1 else 'nodes'} {NodeSet(self.nodes)}"

    @property
    def has(self) -> str:
        """The nodes in words, with their verb."""
        if not self.nodes:
            return "at no node there are"
        return f"{self.where} {'has' if self.nodes.bit_count() == 1 else 'have'}"


@dataclass(frozen=True, slots=True)
class Demand:
    resource: str
    provider: str
    asked: int  # CPUs, bytes or devices
    rooms: tuple[Room, ...]
    unhealthy: int = 0  # devices that their plugin reports as not usable
    held: int | None = None  # what the pod has of it already, after a restart

    @property
    def free(self) -> int:
        return sum(room.free for room in self.rooms)

    @property
    def most(self) -> int:
        return sum(room.most for room in self.rooms)

    @property
    def free_on_one(self) -> int:
        """The most that is free on a single node."""
        return max((r.free for r in self.rooms if r.nodes.bit_count() == 1), default=0)

    @property
    def most_on_one(self) -> int:
        """The most that a single node would have without pods."""
        return max((r.most for r in self.rooms if r.nodes.bit_count() == 1), default=0)


def amount_text(resource: str, amount: int) -> str:
    """An amount with its noun: ``8 exclusive CPUs``, ``2 GiB of memory``, ``4 example.com/gpu``."""
    if resource == "cpu":
        return f"{amount} exclusive CPU{'' if amount == 1 else 's'}"
    if is_memory_type(resource):
        return f"{human(amount)} of {resource}"
    return f"{amount} {resource}"


def plain_amount(resource: str, amount: int) -> str:
    """An amount without its noun."""
    return human(amount) if is_memory_type(resource) else str(amount)


def free_text(demand: Demand) -> str:
    """Where how much is free: ``node 0 has 6 free, node 1 has 3``."""
    rooms = [room for room in demand.rooms if room.nodes or room.free]
    if not rooms:
        return "the host has none"
    if not demand.free:
        return "nothing of it is free"
    total = plain_amount(demand.resource, demand.free)
    if len(rooms) > NODES_NAMED_MAX:
        best = max(rooms, key=lambda room: room.free)
        amount = plain_amount(demand.resource, best.free)
        return f"{best.has} the most free, {amount}, and all together have {total}"
    texts = [f"{r.has} {plain_amount(demand.resource, r.free)}" for r in rooms]
    texts[0] += " free"
    return ", ".join(texts)


def demands(draft: Draft, container: Container | None) -> dict[str, Demand]:
    """What the managers are asked for, by resource: devices, CPUs, memory."""
    found = _devices(draft, container) + _cpus(draft, container) + _memory(draft, container)
    return {demand.resource: demand for demand in found}


def _devices(draft: Draft, container: Container | None) -> list[Demand]:
    limits = (
        pod_limits(draft.pod, draft.settings, with_overhead=False)
        if container is None
        else container.limits
    )
    return [
        device_demand(draft, container, name, limit.value())
        for name, limit in limits.items()
        if draft.devices.is_device(name)
    ]


def device_demand(draft: Draft, container: Container | None, name: str, asked: int) -> Demand:
    resource = draft.devices.resources.get(name, EMPTY)
    again = resource.mask(draft.reusable.devices.get(name, ()))
    free = resource.healthy & ~draft.devices.busy.get(name, 0) | again
    rooms = [
        Room(
            nodes & draft.host.all_nodes,
            (there & free).bit_count(),
            (there & resource.healthy).bit_count(),
        )
        for nodes, there in resource.places
    ]
    if resource.placeless:
        loose = resource.placeless
        rooms.append(Room(0, (loose & free).bit_count(), (loose & resource.healthy).bit_count()))
    names = [c.name for c in draft.pod.in_order] if container is None else [container.name]
    held = sum(len(draft.devices.held(draft.uid, one, name)) for one in names)
    sick = len(resource.ids) - resource.healthy.bit_count()
    return Demand(name, DEVICE_MANAGER, asked, tuple(rooms), sick, held or None)


def _cpus(draft: Draft, container: Container | None) -> list[Demand]:
    policy = draft.host.cpu
    if policy is None or not draft.is_managed:
        return []
    if container is None:
        asked = pod_exclusive_cpus(draft.pod, draft.settings)
    else:
        asked = draft.cpu_count(container)
    if not asked:
        return []
    free = draft.cpu.shared & ~policy.reserved | draft.reusable.cpus
    rooms = tuple(
        Room(bit, (cpus & free).bit_count(), (cpus & ~policy.reserved).bit_count())
        for bit, cpus in policy.topology.node_bits
    )
    entries = draft.cpu.entries.get(draft.uid, {})
    if container is None:
        held = sum(cpus.bit_count() for cpus in entries.values())
    else:
        held = entries.get(container.name, 0).bit_count()
    return [Demand("cpu", CPU_MANAGER, asked, rooms, held=held or None)]


def _memory(draft: Draft, container: Container | None) -> list[Demand]:
    policy = draft.host.memory
    if policy is None or not draft.is_guaranteed or not draft.is_managed:
        return []
    try:
        if container is None:
            request = pod_memory_requests(draft.pod, draft.settings)
        else:
            request = draft.memory_request(container) or {}
    except NotAnIntegerError:
        return []
    found = []
    for name, asked in request.items():
        tables = [
            (i, node.tables[name])
            for i, node in draft.memory.machine.items()
            if name in node.tables
        ]
        rooms = tuple(Room(1 << i, table.free, table.allocatable) for i, table in tables)
        found.append(Demand(name, MEMORY_MANAGER, asked, rooms))
    return found


def memory_groups(draft: Draft) -> list[int]:
    """The sets of nodes that hold memory together now, as masks."""
    groups = {mask_of(node.cells) for node in draft.memory.machine.values()}
    return sorted(mask for mask in groups if mask.bit_count() > 1)


def shortage_text(short: Shortage) -> str:
    name = short.resource

    def text(amount: int) -> str:
        if name == "cpu":
            return f"{amount / 1000:g} CPUs"
        return amount_text(name, amount)

    return (
        f"the pod asks for {text(short.requested)}; the host offers {text(short.capacity)} to "
        f"pods, of which {text(short.used)} are requested already: {text(short.missing)} too few"
    )


def unoffered_text(short: Shortage) -> str:
    return (
        f"the pod asks for {amount_text(short.resource, short.requested)}, and no device plugin "
        "has registered that resource on this host"
    )
