"""What containers hold: taken over from running ones, given back, kept under a new file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from numalign.apps.nri.model import STOPPED_MAX, Holding, Key, NriState
from numalign.apps.nri.policy import HostPolicy
from numalign.core.errors import StartError
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.cpu import static as cpu_static
from numalign.core.kubelet.devices.devices import (
    Device,
    DeviceResource,
    DeviceState,
    Wanted,
    device_resource,
    with_held,
    with_reported,
)
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.state import Block, CpuState, MemoryState
from numalign.core.values.sets import format_list, mask_of
from numalign.core.views.podresources import DeviceUse, View


def with_cpus(host: Host, state: HostState, key: Key, cpus: int) -> HostState | None:
    """The state after a container is known to have these CPUs; None if they are not free."""
    policy = host.cpu
    if policy is None or not cpus or cpus & ~(state.cpu.shared & ~policy.reserved):
        return None
    uid, name = key
    after = cpu_static.stored(state.cpu, uid, name, cpus, state.cpu.shared & ~cpus, baselines=False)
    return replace(state, cpu=after)


def with_memory(
    host: Host, state: HostState, key: Key, blocks: tuple[Block, ...]
) -> HostState | None:
    """The state after a container is known to have this memory; None if it is not free."""
    if host.memory is None or not blocks:
        return state
    uid, name = key
    known = state.memory.machine
    if any(i not in known for block in blocks for i in block.nodes):
        return None
    own = {**state.memory.entries.get(uid, {}), name: blocks}
    memory = replace(state.memory, entries={**state.memory.entries, uid: own})
    try:
        accounts = memory_static.accounts_for(host.memory, memory)
    except StartError:
        return None
    taken = MemoryState(memory.policy, accounts, memory.entries, memory.pod_blocks)
    free = sum(t.free for n in accounts.values() for t in n.tables.values())
    before = sum(t.free for n in known.values() for t in n.tables.values())
    if before - free != sum(block.size for block in blocks):
        return None  # the nodes do not have that much left
    return replace(state, memory=taken)


def release(state: NriState, uid: str, *, is_remembered: bool) -> NriState:
    """Gives back what a pod holds; what it was is remembered for the same pod."""
    holding = Holding(state.host.cpu.entries.get(uid, {}), state.host.memory.entries.get(uid, {}))
    stopped = {key: value for key, value in state.stopped.items() if key != uid}
    if is_remembered and (holding.cpus or holding.memory):
        stopped[uid] = holding
    for oldest in list(stopped)[: max(0, len(stopped) - STOPPED_MAX)]:
        del stopped[oldest]
    freed = hosts.cleaned(state.policy.host, hosts.ended(state.host, uid))
    return replace(state, host=freed, stopped=stopped)


def given_again(host: Host, state: HostState, uid: str, holding: Holding | None) -> HostState:
    """The state with what a pod had before it stopped, as far as all of it is still free."""
    if holding is None or uid in state.cpu.entries or uid in state.memory.entries:
        return state
    after: HostState | None = state
    given = 0
    for name, cpus in holding.cpus.items():
        # Containers of one pod may have CPUs one after the other: an init container's go on.
        after = with_cpus(host, after, (uid, name), cpus & ~given) if after is not None else None
        if after is not None and cpus & given:
            own = {**after.cpu.entries.get(uid, {}), name: cpus}
            after = replace(after, cpu=replace(after.cpu, entries={**after.cpu.entries, uid: own}))
        given |= cpus
    for name, blocks in holding.memory.items():
        after = with_memory(host, after, (uid, name), blocks) if after is not None else None
    return state if after is None else after


def rebased(state: NriState, policy: HostPolicy) -> tuple[NriState, tuple[Key, ...], str]:
    """The state under another host file, or who stands in its way and why.

    Running containers keep what they have: a file that would take it from them waits for them.
    """
    host = policy.host
    held = [
        ((uid, name), cpus)
        for uid, containers in state.host.cpu.entries.items()
        for name, cpus in containers.items()
    ]
    if host.cpu is None:
        if held:
            return state, tuple(key for key, _ in held), "it gives no container CPUs of its own"
        cpu = CpuState("none")
    else:
        every = host.cpu.assignable & ~host.cpu.reserved
        blocking = [(key, cpus & ~every) for key, cpus in held if cpus & ~every]
        if blocking:
            cpus = format_list(_union(dict(blocking)))
            return state, tuple(key for key, _ in blocking), f"it reserves CPUs {cpus}"
        used = _union(dict(held))
        cpu = replace(state.host.cpu, policy="static", shared=host.cpu.assignable & ~used)
    memory = state.host.memory
    if host.memory is None:
        memory = MemoryState("None")
    else:
        try:
            accounts = memory_static.accounts_for(host.memory, memory)
        except StartError as error:
            keys = tuple((uid, name) for uid, names in memory.entries.items() for name in names)
            return state, keys, str(error)
        memory = replace(memory, policy="Static", machine=accounts)
    after = replace(state.host, cpu=cpu, memory=memory)
    return replace(state, policy=policy, host=after, pending=None), (), ""


def _union(masks: Mapping[Key, int]) -> int:
    found = 0
    for mask in masks.values():
        found |= mask
    return found


# Devices: given by the kubelet, and known from its PodResources API.


def devices_of(view: View, uids: Mapping[tuple[str, str], str]) -> DeviceState:
    """Who has which device; ``uids`` are the pods that we know, by namespace and name."""
    state = DeviceState()
    for name, resource in _resources(view).items():
        state = with_reported(state, name, resource)
    for pod in view.pods:
        uid = uids.get((pod.namespace, pod.name))
        if uid is None:
            continue
        for container in (*pod.sidecars, *pod.apps):
            for name in dict.fromkeys(use.resource for use in container.devices):
                # What the kubelet says of two pods at once is one of them on its way out.
                ids = tuple(
                    dict.fromkeys(
                        use.id
                        for use in container.devices
                        if use.resource == name and use.id not in state.in_use.get(name, ())
                    )
                )
                state = with_held(state, Wanted(uid, container.name, name, len(ids)), ids)
    return state


def _resources(view: View) -> dict[str, DeviceResource]:
    found: dict[str, dict[str, set[int]]] = {}
    uses: list[DeviceUse] = list(view.allocatable.devices)
    for pod in view.pods:
        for container in (*pod.sidecars, *pod.apps):
            uses += container.devices
    for use in uses:
        nodes = found.setdefault(use.resource, {}).setdefault(use.id, set())
        if use.node is not None:
            nodes.add(use.node)
    return {
        name: device_resource(
            Device(id_, tuple(sorted(nodes)) if nodes else None) for id_, nodes in ids.items()
        )
        for name, ids in found.items()
    }


def nodes_of_cpus(host: Host, cpus: int) -> int:
    return host.cpu_topology.nodes_of(cpus)


def nodes_of_blocks(blocks: tuple[Block, ...]) -> int:
    return mask_of(node for block in blocks for node in block.nodes)
