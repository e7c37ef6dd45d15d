"""What must hold of the state of one host, whoever wrote it; each breach is one sentence.

The kubelet itself checks little of this when it starts, so a state that it takes up may still be
wrong: after a defect, a repair by hand, or a disk that lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numalign.core.kubelet.devices.devices import Held, SavedDevices
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.state import Block, CpuState, MemoryState
from numalign.core.values.sets import format_list

Holdings = Mapping[str, Mapping[str, Mapping[str, Held]]]  # pod uid, container, resource


def cpu_breaches(host: Host, state: CpuState) -> Iterator[str]:
    """CPUs with two owners, CPUs without one, and CPUs that are not there."""
    if host.cpu is None:
        return
    owners = [("the shared pool", state.shared)]
    for uid in dict.fromkeys([*state.entries, *state.pod_sets]):
        mask = state.pod_sets.get(uid, 0)
        for cpus in state.entries.get(uid, {}).values():
            mask |= cpus
        owners.append((f"pod {uid}", mask))
    union = 0
    for number, (name, mask) in enumerate(owners):
        if mask & union:
            for other, theirs in owners[:number]:
                if mask & theirs:
                    yield f"CPUs {format_list(mask & theirs)} belong to {other} and to {name}"
        union |= mask
    every, machine = host.cpu.assignable, host.cpu.topology.all
    if every & ~union:
        yield f"CPUs {format_list(every & ~union)} are lost: no pod and no pool has them"
    if union & ~machine:
        yield f"CPUs {format_list(union & ~machine)} are not on this machine"
    taken = host.cpu.reserved & union & ~state.shared
    if taken:
        yield f"the reserved CPUs {format_list(taken)} were given to pods"


def memory_breaches(host: Host, state: MemoryState) -> Iterator[str]:
    """Accounts that do not add up: tables against blocks, and each table in itself."""
    if host.memory is None:
        return
    blocks = list(_blocks(state))
    for name in sorted({name for node in state.machine.values() for name in node.tables}):
        tables = {i: n.tables[name] for i, n in state.machine.items() if name in n.tables}
        given = sum(block.size for block in blocks if block.type == name)
        reserved = sum(table.reserved for table in tables.values())
        if given != reserved:
            yield f"{name}: the tables count {reserved} bytes as given, the pods hold {given}"
        for node, table in sorted(tables.items()):
            if table.reserved + table.free != table.allocatable:
                yield (
                    f"{name} on node {node}: {table.reserved} given and {table.free} free bytes "
                    f"are not the {table.allocatable} that can be given"
                )
    for number, account in sorted(state.machine.items()):
        count = sum(1 for block in blocks if number in block.nodes)
        if account.assignments != count:
            yield f"node {number} counts {account.assignments} blocks, the pods have {count} on it"


def _blocks(state: MemoryState) -> Iterator[Block]:
    for uid, containers in state.entries.items():
        if uid not in state.pod_blocks:
            for blocks in containers.values():
                yield from blocks
    for blocks in state.pod_blocks.values():
        yield from blocks


def device_breaches(saved: SavedDevices) -> Iterator[str]:
    """Devices with two owners, and devices of a plugin that does not have them."""
    healthy = saved.registered()
    yield from _owned_twice(saved.entries)
    for uid, name, held in _holdings(saved.entries):
        gone = sorted(set(held.ids) - set(healthy.get(name, ())))
        if gone and name in healthy:
            yield f"{name} {', '.join(gone)} of pod {uid} is not healthy or not there"


def _owned_twice(entries: Holdings) -> Iterator[str]:
    owners: dict[tuple[str, str], str] = {}
    for uid, name, held in _holdings(entries):
        for device in held.ids:
            other = owners.setdefault((name, device), uid)
            if other != uid:
                yield f"{name} {device} belongs to pod {other} and to pod {uid}"


def _holdings(entries: Holdings) -> Iterator[tuple[str, str, Held]]:
    for uid, containers in entries.items():
        for resources in containers.values():
            for name, held in resources.items():
                yield uid, name, held


def law_breaches(host: Host, state: HostState) -> Iterator[str]:
    """What is given twice or lost: laws that hold after every decision, unlike a device's health.

    Only in ``safe`` fidelity: the kubelet itself breaks them in ways that the other one repeats.
    """
    if host.is_safe:
        yield from cpu_breaches(host, state.cpu)
        yield from memory_breaches(host, state.memory)
        yield from _owned_twice(state.devices.entries)
