"""Where a container goes, and who must move for it: texts for the runtime out of what is held."""

from __future__ import annotations

from dataclasses import replace

from numalign.apps.nri.annotations import PodOptions
from numalign.apps.nri.model import Key, NriState, Told
from numalign.apps.nri.steps.holdings import nodes_of_blocks, nodes_of_cpus
from numalign.core.values.sets import format_list
from numalign.wire.nri.values import Container, MemoryMode, Placing, Update


def pool_text(state: NriState) -> str:
    """The shared pool; empty where this host pins nobody."""
    return "" if state.policy.host.cpu is None else format_list(state.host.cpu.shared)


def placing_of(state: NriState, key: Key, options: PodOptions) -> Placing:
    """Where a container belongs by what it holds, else in the shared pool."""
    uid, name = key
    host = state.policy.host
    cpus = state.host.cpu.entries.get(uid, {}).get(name)
    nodes = nodes_of_blocks(state.host.memory.entries.get(uid, {}).get(name, ()))
    if not nodes and options.memory is not None and cpus is not None:
        nodes = nodes_of_cpus(host, cpus)
    own = pool_text(state) if cpus is None else format_list(cpus)
    mems = format_list(nodes)
    if options.memory is None or not nodes or not state.has_memory_policies:
        return Placing(own, mems)
    # A preference may overflow to other nodes, so they must not be closed to it.
    closed = "" if options.memory is MemoryMode.PREFERRED else mems
    return Placing(own, closed, options.memory, mems)


def told(state: NriState, container: Container, key: Key, placing: Placing) -> NriState:
    """The state after a container was told where to be; older ones of its name are gone."""
    uid, name = key
    is_shared = name not in state.host.cpu.entries.get(uid, {})
    others = {i: t for i, t in state.containers.items() if t.key != key}
    mine = Told(key, is_shared, placing.cpus, placing.mems, container.cgroups_path)
    return replace(state, containers={**others, container.id: mine})


def with_updates(state: NriState, without: str = "") -> tuple[NriState, tuple[Update, ...]]:
    """The state after all others were told what has changed for them, and what they are told.

    Growth of the pool waits for the next answer: a pod that goes can be told nothing.
    """
    pool = pool_text(state)
    updates: list[Update] = []
    containers = dict(state.containers)
    for id_, one in state.containers.items():
        uid, name = one.key
        cpus = pool
        if not one.is_shared:
            cpus = format_list(state.host.cpu.entries.get(uid, {}).get(name, 0))
        if id_ != without and cpus and one.cpus != cpus:
            updates.append(Update(id_, cpus, one.mems))
            containers[id_] = replace(one, cpus=cpus)
    if not updates:
        return state, ()
    return replace(state, containers=containers), tuple(updates)


def forget(state: NriState, container: str) -> NriState:
    if container not in state.containers:
        return state
    left = {id_: one for id_, one in state.containers.items() if id_ != container}
    return replace(state, containers=left)
