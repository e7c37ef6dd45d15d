"""After every connection: what is held is compared with what runs, and made the same again.

First what the state file says stands for all pods that are still there. Then what running
containers visibly have is taken over, if it is theirs to have: so a lost state file, or a host that
comes from the kubelet's own managers, costs nobody its CPUs. Then containers that were created
while we were away get theirs. At last everybody who is not where he should be is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numalign.apps.nri.annotations import ChoiceError, PodOptions, chosen
from numalign.apps.nri.events import (
    AnswerUpdates,
    Effect,
    Placed,
    Released,
    Repaired,
    Synchronized,
    Unplaced,
)
from numalign.apps.nri.model import NriState, PodEntry, Told
from numalign.apps.nri.steps import holdings, pods
from numalign.apps.nri.steps.creating import RefusedError, check_pool, decide, saves
from numalign.apps.nri.steps.placing import placing_of
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.host import HostState
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.pod import Container as PodContainer
from numalign.core.pod import (
    NotAnIntegerError,
    Pod,
    Qos,
    exclusive_cpus,
    memory_requests,
    qos_class,
)
from numalign.core.values.sets import format_list, parse_list
from numalign.wire.nri.values import Container, Update

NO_OPTIONS = PodOptions()


def synchronize(state: NriState, event: Synchronized) -> tuple[NriState, list[Effect]]:
    """The state of what really runs, and what must be told to make it right."""
    before = state
    known: dict[str, PodEntry] = {}
    alive = _alive(state, event)
    for sandbox in event.pods:
        if sandbox.uid in alive:
            known[sandbox.uid] = pods.entry_of(sandbox, known.get(sandbox.uid))
    uids = {sandbox.id: sandbox.uid for sandbox in event.pods if sandbox.uid in alive}
    ours = [one for one in event.containers if one.sandbox in uids]
    for one in ours:
        known[uids[one.sandbox]] = pods.with_seen(known[uids[one.sandbox]], one)
    state = replace(state, pods=known, containers={}, unplaced=frozenset(), is_synchronized=True)
    if event.devices is not None:
        by_name = {(one.namespace, one.name): uid for uid, one in known.items()}
        host = replace(state.host, devices=holdings.devices_of(event.devices, by_name))
        state = replace(state, host=host)
    notes: list[Effect] = []
    state, choices, plans = _cleaned(state, event, notes)
    # The dead ones come last: what they show is only kept for their next start.
    in_order = sorted(ours, key=lambda one: not one.is_alive)
    for one in in_order:
        state = _adopted(state, plans, one, uids[one.sandbox], notes)
    for one in ours:
        if one.is_alive:
            state = _placed(state, plans, choices, one, uids[one.sandbox], notes)
    state, updates = _told(state, choices, [one for one in ours if one.is_alive], uids)
    if updates:
        notes.append(Repaired(len(updates)))
    return state, [*saves(before, state), AnswerUpdates(updates), *notes]


def _alive(state: NriState, event: Synchronized) -> set[str]:
    """The pods that run, or may start a container again. Runtimes also list those that stopped."""
    uids = {sandbox.id: sandbox.uid for sandbox in event.pods}
    running = {
        uids[one.sandbox] for one in event.containers if one.is_alive and one.sandbox in uids
    }
    # A sandbox that has stopped has no process any more; some runtimes tell of none at all.
    tells = any(sandbox.pid for sandbox in event.pods)
    idle = {
        sandbox.uid
        for sandbox in event.pods
        if (sandbox.pid or not tells) and sandbox.uid not in state.stopped
    }
    return running | idle


def _cleaned(
    state: NriState, event: Synchronized, notes: list[Effect]
) -> tuple[NriState, dict[str, PodOptions], dict[str, Pod]]:
    """The state without pods that are gone, and what each of the others asks for."""
    choices: dict[str, PodOptions] = {}
    plans: dict[str, Pod] = {}
    for uid, entry in state.pods.items():
        held = pods.held_cpus(state.host, uid)
        choices[uid], plan = _plan(state, entry, held)
        plans[uid] = pods.with_devices(plan, event.devices)
    for uid, containers in state.host.cpu.entries.items():
        if uid not in plans:
            mask = 0
            for cpus in containers.values():
                mask |= cpus
            notes.append(Released(uid, format_list(mask)))
    host = replace(state.host, pods=plans, gone=frozenset(), unchecked=True)
    cleaned = hosts.cleaned(state.policy.host, host)
    stopped = {uid: held for uid, held in state.stopped.items() if uid not in plans}
    if len(stopped) != len(state.stopped):
        state = replace(state, stopped=stopped)
    return replace(state, host=cleaned), choices, plans


def _plan(state: NriState, entry: PodEntry, held: Mapping[str, int]) -> tuple[PodOptions, Pod]:
    """What a running pod asks for; one with wrong annotations runs on, and asks for nothing new."""
    try:
        options = chosen(entry.annotations, entry.namespace, state.policy.namespaces)
        return options, pods.core_pod(entry, options, held)
    except ChoiceError:
        return NO_OPTIONS, pods.core_pod(replace(entry, qos=Qos.BURSTABLE), NO_OPTIONS, held)


def _adopted(
    state: NriState, plans: Mapping[str, Pod], one: Container, uid: str, notes: list[Effect]
) -> NriState:
    """Takes over what a container visibly has, if it may have that and nobody else does."""
    pod, host = plans[uid], state.policy.host
    asked = next((c for c in pod.in_order if c.name == one.name), None)
    if asked is None:
        return state
    after: HostState | None = None
    count = exclusive_cpus(pod, asked, host.settings)
    cpus = _parsed(one.resources.cpus)
    if one.name not in state.host.cpu.entries.get(uid, {}) and count and cpus.bit_count() == count:
        after = holdings.with_cpus(host, state.host, (uid, one.name), cpus)
    if after is not None:
        entry = state.pods[uid]
        name = f"{entry.namespace}/{entry.name}"
        found = one.resources
        notes.append(Placed(name, one.name, found.cpus, found.mems, False, is_adopted=True))  # noqa: FBT003
        state = replace(state, host=after)
    with_memory = _with_seen_memory(state, pod, asked, one)
    return state if with_memory is None else replace(state, host=with_memory)


def _with_seen_memory(
    state: NriState, pod: Pod, asked: PodContainer, one: Container
) -> HostState | None:
    """The state with the memory that a container visibly has; None where that tells nothing."""
    host, nodes = state.policy.host, _parsed(one.resources.mems)
    if one.name in state.host.memory.entries.get(pod.uid, {}):
        return None
    # All nodes is what a container has that was never placed.
    is_placed = nodes and (nodes != host.all_nodes or host.all_nodes.bit_count() == 1)
    request = _memory_request(state, pod, asked)
    if not is_placed or not request:
        return None
    blocks = memory_static.blocks_of(nodes, request)
    return holdings.with_memory(host, state.host, (pod.uid, one.name), blocks)


def _memory_request(state: NriState, pod: Pod, asked: PodContainer) -> dict[str, int]:
    """The memory that the memory manager would place for a container."""
    host = state.policy.host
    if host.memory is None or qos_class(pod, host.settings) is not Qos.GUARANTEED:
        return {}
    try:
        return memory_requests(pod, asked, host.settings)
    except NotAnIntegerError:
        return {}


def _parsed(text: str) -> int:
    try:
        return parse_list(text)
    except ValueError:
        return 0


def _placed(
    state: NriState,
    plans: Mapping[str, Pod],
    choices: Mapping[str, PodOptions],
    one: Container,
    uid: str,
    notes: list[Effect],
) -> NriState:
    """Decides about a running container that should have something of its own and has not."""
    pod, entry = plans[uid], state.pods[uid]
    asked = next((c for c in pod.in_order if c.name == one.name), None)
    if asked is None:
        return state
    lacks_cpus = bool(
        exclusive_cpus(pod, asked, state.policy.host.settings)
    ) and one.name not in state.host.cpu.entries.get(uid, {})
    lacks_memory = bool(
        _memory_request(state, pod, asked)
    ) and one.name not in state.host.memory.entries.get(uid, {})
    if not lacks_cpus and not lacks_memory:
        return state
    name = f"{entry.namespace}/{entry.name}"
    try:
        host = state.policy.host_for(choices[uid])
        after = decide(host, state.host, pod, one.name)
        check_pool(host, after, pod, one.name)
    except (RefusedError, ChoiceError) as error:
        notes.append(Unplaced(name, one.name, str(error)))
        return replace(state, unplaced=state.unplaced | {(uid, one.name)})
    cpus = after.cpu.entries.get(uid, {}).get(one.name)
    notes.append(Placed(name, one.name, format_list(cpus or 0), "", cpus is None))
    return replace(state, host=after)


def _told(
    state: NriState,
    choices: Mapping[str, PodOptions],
    alive: Iterable[Container],
    uids: Mapping[str, str],
) -> tuple[NriState, tuple[Update, ...]]:
    """Everybody who runs, and those who must be told something else than they have."""
    containers: dict[str, Told] = {}
    updates: list[Update] = []
    for one in alive:
        uid = uids[one.sandbox]
        placing = placing_of(state, (uid, one.name), choices[uid])
        is_shared = one.name not in state.host.cpu.entries.get(uid, {})
        mems = placing.mems or one.resources.mems
        containers[one.id] = Told(
            (uid, one.name), is_shared, placing.cpus, placing.mems, one.cgroups_path
        )
        differs = _parsed(one.resources.cpus) != _parsed(placing.cpus)
        if placing.cpus and (differs or _parsed(mems) != _parsed(one.resources.mems)):
            updates.append(Update(one.id, placing.cpus, placing.mems))
    return replace(state, containers=containers), tuple(updates)
