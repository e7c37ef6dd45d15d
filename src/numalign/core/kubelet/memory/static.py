"""The static memory manager: on which NUMA nodes a container's memory lies.

Memory may come from one node or from a *group* of nodes. A node that serves single-node
allocations cannot join a group, a node of a group serves that very group only, and a node without
any assignment is free for both. That is why hints are exact sets (single nodes, existing groups)
plus a region (any two or more nodes that nothing is assigned to).

A region takes for granted that more nodes have more. Where reservations exceed what a node has,
the kubelet's sums wrap around and that is not so: there every set of nodes is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from numalign.core.errors import StartError
from numalign.core.kubelet.decisions import AllocationError, Breakage, KubeletBreaksError
from numalign.core.kubelet.memory.policy import UINT64, MemoryPolicy
from numalign.core.kubelet.state import Block, MemoryState, MemoryTable, NodeMemory
from numalign.core.kubelet.topology.hints import Hint, HintSet, Region
from numalign.core.kubelet.topology.node_search import Need, fewest_nodes
from numalign.core.pod import Container, Pod
from numalign.core.values.sets import ids_of, mask_of
from numalign.core.values.sizes import human

START: Final = "memory_manager_start"
NO_DEFAULT: Final = (
    "[memorymanager] failed to get the default NUMA affinity, "
    "no NUMA nodes with enough memory is available"
)
NOT_PREFERRED_DEFAULT: Final = "[memorymanager] failed to find the default preferred hint"
NO_EXTENSION: Final = (
    "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
)
NOT_PREFERRED_EXTENSION: Final = "[memorymanager] failed to find the extended preferred hint"
VIOLATION: Final = "[memorymanager] preferred hint violates NUMA node allocation"

Accounts = Mapping[int, NodeMemory]
Request = Mapping[str, int]  # type -> bytes
Reusable = Mapping[int, Mapping[str, int]]  # mask of nodes -> type -> bytes

FEWEST_KNOWN_MAX: Final = 4_096  # requests remembered per host
LISTED_NODES_MAX: Final = 12  # up to this size every set of nodes can be looked at

_ZERO: Final = MemoryTable(0, 0, 0, 0, 0)


# Hints.


def hint_set(
    policy: MemoryPolicy, accounts: Accounts, request: Request, reusable: Reusable
) -> HintSet | None:
    """The sets of nodes that can hold the request; None if there is none."""
    _check_tables(policy, accounts, request)
    fewest = _fewest(policy, request)
    if policy.wrapping.isdisjoint(request):
        candidates: Iterable[int] = _exact_candidates(accounts, reusable)
        unused = mask_of(i for i, node in accounts.items() if node.assignments == 0)
        region = _region(accounts, unused, request)
    else:
        candidates, region = _every_set(accounts), None
    exact = frozenset(
        mask
        for mask in candidates
        if _is_allowed(accounts, mask) and _fits(accounts, mask, request, reusable)
    )
    found = HintSet(tuple(accounts), fewest, region, exact)
    return None if found.is_empty() else found


def _fewest(policy: MemoryPolicy, request: Request) -> int:
    """How few nodes could hold the request if nothing were in use."""
    key = tuple(request.items())
    known = policy.fewest.get(key)
    if known is None:
        if len(policy.fewest) >= FEWEST_KNOWN_MAX:
            policy.fewest.clear()
        is_sure = policy.wrapping.isdisjoint(request)
        known = _fewest_sure(policy, request) if is_sure else _fewest_listed(policy, request)
        policy.fewest[key] = known
    return known


def _fewest_sure(policy: MemoryPolicy, request: Request) -> int:
    nodes = policy.empty.items()
    needs = [
        Need(size, tuple((1 << i, _table(node, t).allocatable) for i, node in nodes))
        for t, size in request.items()
    ]
    return fewest_nodes(needs, policy.all_nodes, len(policy.empty))


def _fewest_listed(policy: MemoryPolicy, request: Request) -> int:
    accounts = policy.empty
    counts = (
        mask.bit_count() for mask in _every_set(accounts) if _fits(accounts, mask, request, {})
    )
    return min(counts, default=len(accounts))


def _every_set(accounts: Accounts) -> list[int]:
    count = len(accounts)
    if count > LISTED_NODES_MAX:
        raise KubeletBreaksError(
            Breakage.ENDLESS_LOOP,
            "more memory is reserved on a NUMA node than it has, so that amounts wrap around, and "
            f"the memory manager adds up each of the {2**count - 1} sets of {count} NUMA nodes",
        )
    masks = [0]
    for i in accounts:
        masks += [mask | 1 << i for mask in masks]
    return masks[1:]


def _check_tables(policy: MemoryPolicy, accounts: Accounts, request: Request) -> None:
    """Stops where a node has no account for a requested page size: the real code crashes."""
    if policy.is_safe:
        return
    for t in request:
        for i, node in accounts.items():
            if t not in node.tables:
                raise KubeletBreaksError(
                    Breakage.CRASH,
                    f"the pod asks for {t}, which NUMA node {i} does not have at all, "
                    "and the memory manager reads its missing account",
                )


def _table(node: NodeMemory, name: str) -> MemoryTable:
    return node.tables.get(name, _ZERO)


def _exact_candidates(accounts: Accounts, reusable: Reusable) -> set[int]:
    found = {1 << i for i in accounts}
    found |= {mask_of(node.cells) for node in accounts.values() if len(node.cells) > 1}
    return found | set(reusable)


def _is_allowed(accounts: Accounts, mask: int) -> bool:
    """Whether the rules on groups let these nodes be used together."""
    if mask & (mask - 1) == 0:
        return len(accounts[mask.bit_length() - 1].cells) == 1
    return not _violates(accounts, mask)


def _violates(accounts: Accounts, mask: int) -> bool:
    for i in ids_of(mask):
        node = accounts[i]
        if node.assignments > 0 and (len(node.cells) == 1 or mask_of(node.cells) != mask):
            return True
    return False


def _fits(accounts: Accounts, mask: int, request: Request, reusable: Reusable) -> bool:
    own = reusable.get(mask)
    if own is None and mask & (mask - 1) == 0:  # one node: most sets are, and nothing is added up
        tables = accounts[mask.bit_length() - 1].tables
        for t, size in request.items():
            table = tables.get(t, _ZERO)
            if table.allocatable < size or table.free < size:
                return False
        return True
    nodes = ids_of(mask)
    for t, size in request.items():
        allocatable, free = 0, 0 if own is None else own.get(t, 0)
        for i in nodes:
            table = _table(accounts[i], t)
            allocatable += table.allocatable
            free += table.free
        if allocatable & UINT64 < size or free & UINT64 < size:
            return False
    return True


def _region(accounts: Accounts, unused: int, request: Request) -> Region | None:
    if unused & (unused - 1) == 0:
        return None
    nodes = ids_of(unused)
    needs = [Need(2, tuple((1 << i, 1) for i in nodes))]
    for t, size in request.items():
        tables = [(1 << i, _table(accounts[i], t)) for i in nodes]
        free = tuple((bit, table.free) for bit, table in tables)
        allocatable = tuple((bit, table.allocatable) for bit, table in tables)
        needs.append(Need(size, free))
        if allocatable != free:
            needs.append(Need(size, allocatable))
    return Region(unused, 0, tuple(needs))


def regenerated(blocks: tuple[Block, ...], request: Request) -> Mapping[str, HintSet] | None:
    """Hints for what is held already; None where it does not match the request any more."""
    if len(blocks) != len(request) or any(request.get(b.type) != b.size for b in blocks):
        return None
    return {
        b.type: HintSet(b.nodes, len(b.nodes), None, frozenset({mask_of(b.nodes)})) for b in blocks
    }


# Allocation.


def chosen_nodes(
    policy: MemoryPolicy, accounts: Accounts, request: Request, reusable: Reusable, hint: Hint
) -> int:
    """The mask of nodes that the memory will come from."""
    if hint.nodes is None:
        hint = _default(policy, accounts, request, reusable, hint)
    assert hint.nodes is not None, "a default hint always names nodes"
    is_short = any(_free(accounts, hint.nodes, t) < size for t, size in request.items())
    if is_short or (policy.is_safe and not _is_allowed(accounts, hint.nodes)):
        # The real code does not check a single node: it places memory inside a group of others,
        # notes the node as alone, and then refuses to start with that state.
        hint = _extended(policy, accounts, request, reusable, hint)
    mask = hint.nodes
    assert mask is not None, "an extended hint always names nodes"
    if mask & (mask - 1) and _violates(accounts, mask):
        raise AllocationError(VIOLATION, tuple(request))
    return mask


def _default(
    policy: MemoryPolicy, accounts: Accounts, request: Request, reusable: Reusable, hint: Hint
) -> Hint:
    found = hint_set(policy, accounts, request, reusable)
    best = found.best() if found and "memory" in request else None
    if best is None:
        raise AllocationError(NO_DEFAULT, tuple(request))
    if hint.preferred and not best.preferred:
        raise AllocationError(NOT_PREFERRED_DEFAULT, tuple(request))
    return best


def _extended(
    policy: MemoryPolicy, accounts: Accounts, request: Request, reusable: Reusable, hint: Hint
) -> Hint:
    assert hint.nodes is not None, "only a hint with nodes can be extended"
    found = hint_set(policy, accounts, request, reusable)
    best = found.best(hint.nodes) if found and "memory" in request else None
    if best is None:
        raise AllocationError(NO_EXTENSION, tuple(request))
    if hint.preferred and not best.preferred:
        raise AllocationError(NOT_PREFERRED_EXTENSION, tuple(request))
    return best


def _free(accounts: Accounts, mask: int, name: str) -> int:
    return sum(_table(accounts[i], name).free for i in ids_of(mask)) & UINT64


def charged(
    accounts: Accounts, mask: int, request: Request, reusable: Mapping[str, int]
) -> dict[int, NodeMemory]:
    """The accounts after giving the request, from the lowest node upwards.

    Every node of the set counts one assignment per type, also where nothing is taken.
    """
    after = dict(accounts)
    cells = ids_of(mask)
    for t, size in request.items():
        rest = max(0, size - reusable.get(t, 0))
        for i in cells:
            node = after[i]
            tables = node.tables
            table = tables.get(t, _ZERO)
            if rest > 0 and table.free > 0:
                part = min(rest, table.free)
                rest -= part
                tables = {**tables, t: _moved(table, part)}
            after[i] = NodeMemory(node.assignments + 1, cells, tables)
    return after


def _moved(table: MemoryTable, part: int) -> MemoryTable:
    return MemoryTable(
        table.total,
        table.system_reserved,
        table.allocatable,
        table.reserved + part,
        table.free - part,
    )


def released(accounts: Accounts, blocks: Iterable[Block]) -> dict[int, NodeMemory]:
    """The accounts after taking these blocks back."""
    after = dict(accounts)
    for block in blocks:
        rest = block.size
        for i in block.nodes:
            node = after[i]
            count = node.assignments - 1
            tables = node.tables
            table = tables.get(block.type, _ZERO)
            if rest > 0 and table.reserved > 0:
                part = min(rest, table.reserved)
                rest -= part
                tables = {**tables, block.type: _moved(table, -part)}
            after[i] = NodeMemory(count, (i,) if count == 0 else node.cells, tables)
    return after


def blocks_of(mask: int, request: Request) -> tuple[Block, ...]:
    """One block per type on the given nodes."""
    nodes = ids_of(mask)
    return tuple(Block(nodes, t, size) for t, size in request.items())


def reusable_after(
    reusable: Reusable, container: Container, blocks: tuple[Block, ...]
) -> dict[int, dict[str, int]]:
    """What later containers of the pod may use again, once this one has its memory."""
    after = {mask: dict(types) for mask, types in reusable.items()}
    for block in blocks:
        types = after.setdefault(mask_of(block.nodes), {})
        value = types.get(block.type, 0)
        if container.is_regular_init:
            types[block.type] = max(value, block.size)
        else:
            types[block.type] = max(0, value - block.size)
    return after


def shrunk(
    entries: Mapping[str, tuple[Block, ...]],
    pod: Pod,
    container: Container,
    blocks: tuple[Block, ...],
) -> dict[str, tuple[Block, ...]]:
    """The pod's blocks after a container took over memory of finished init containers.

    The sum of all blocks stays the memory that is really charged.
    """
    after = dict(entries)
    for block in blocks:
        rest = block.size
        for init in pod.init_containers:
            if rest == 0 or init.name == container.name:
                break
            if init.is_restartable:
                continue
            kept: list[Block] = []
            for own in after.get(init.name, ()):
                part = 0
                if own.size > 0 and own.type == block.type and own.nodes == block.nodes:
                    part = min(rest, own.size)
                    rest -= part
                kept.append(Block(own.nodes, own.type, own.size - part) if part else own)
            if init.name in after:
                after[init.name] = tuple(kept)
    return after


def removed(state: MemoryState, uid: str, names: Iterable[str]) -> MemoryState:
    """The state without these containers, their memory given back."""
    containers = dict(state.entries.get(uid, {}))
    accounts: Accounts = state.machine
    pod_blocks = state.pod_blocks
    had_any = bool(containers)
    for name in names:
        blocks = containers.pop(name, None)
        if blocks is not None and uid not in pod_blocks:
            accounts = released(accounts, blocks)
    if uid in pod_blocks and had_any and not containers:
        accounts = released(accounts, pod_blocks[uid])
        pod_blocks = {key: value for key, value in pod_blocks.items() if key != uid}
    entries = {key: value for key, value in state.entries.items() if key != uid}
    if containers:
        entries[uid] = containers
    return MemoryState(state.policy, accounts, entries, pod_blocks)


# Restart.


def started(policy: MemoryPolicy, state: MemoryState) -> MemoryState:
    """The state to go on with after a start; StartError if it does not fit the machine."""
    if not state.machine:
        if state.entries:
            raise StartError(
                START,
                "[memorymanager] machine state can not be empty when it has memory assignments",
            )
        return MemoryState(state.policy, policy.empty, {}, state.pod_blocks)
    expected = accounts_for(policy, state)
    if _is_same(expected, state.machine):
        return state
    text = "[memorymanager] the expected machine state is different from the real one"
    if policy.is_safe and _holds_same(expected, state.machine):
        return replace(state, machine=expected)  # only what the machine has is different
    if policy.is_safe:
        text = "; ".join([text, *changed_amounts(state.machine, policy.empty)])
    raise StartError(START, text)


def changed_amounts(before: Accounts, now: Accounts) -> list[str]:
    """What a machine has more or less of than at the last start, one sentence each."""
    return [
        f"{name} of NUMA node {i}: {human(had)} at the last start, {human(table.total)} now"
        for i, node in now.items()
        for name, table in node.tables.items()
        if i in before and (had := _table(before[i], name).total) != table.total
    ]


def accounts_for(policy: MemoryPolicy, state: MemoryState) -> Accounts:
    """The accounts of the machine with all that is held; StartError if a block cannot be there."""
    # The kubelet walks a Go map here, so its order is open, and where memory was placed inside a
    # group of others the outcome hangs on it. We go by name, the order of the file.
    accounts: Accounts = policy.empty
    for uid, containers in sorted(state.entries.items()):
        if uid in state.pod_blocks:
            continue
        for name, blocks in sorted(containers.items()):
            for block in blocks:
                _check_block(accounts, block, uid, name)
                accounts = charged(accounts, mask_of(block.nodes), {block.type: block.size}, {})
    for uid, blocks in state.pod_blocks.items():
        for block in blocks:
            _check_block(accounts, block, uid, "")
            accounts = charged(accounts, mask_of(block.nodes), {block.type: block.size}, {})
    return accounts


def _check_block(accounts: Accounts, block: Block, uid: str, name: str) -> None:
    where = f"[memorymanager] (pod: {uid}, container: {name}) the memory assignment uses"
    for i in block.nodes:
        if i not in accounts:
            raise StartError(START, f"{where} the NUMA that does not exist")
        if block.type not in accounts[i].tables:
            raise StartError(START, f"{where} memory resource that does not exist")


def _is_same(expected: Accounts, real: Accounts) -> bool:
    return _holds_same(expected, real) and all(
        _has_same(expected, real, i, name) for i in expected for name in expected[i].tables
    )


def _holds_same(expected: Accounts, real: Accounts) -> bool:
    """Whether the same is given away, of as much or of more or less than before."""
    if set(expected) != set(real):
        return False
    for i, ours in expected.items():
        theirs = real[i]
        if ours.assignments != theirs.assignments or set(ours.cells) != set(theirs.cells):
            return False
        if set(ours.tables) != set(theirs.tables) or any(c not in real for c in ours.cells):
            return False
        if not all(_is_same_sum(expected, real, i, name, "reserved") for name in ours.tables):
            return False
    return True


def _has_same(expected: Accounts, real: Accounts, i: int, name: str) -> bool:
    ours, theirs = expected[i].tables[name], real[i].tables[name]
    if (ours.total, ours.system_reserved) != (theirs.total, theirs.system_reserved):
        return False
    return ours.allocatable == theirs.allocatable and _is_same_sum(expected, real, i, name, "free")


def _is_same_sum(expected: Accounts, real: Accounts, i: int, name: str, field: str) -> bool:
    # Inside a group the split between its nodes may differ; only the sums must agree.
    cells = expected[i].cells
    ours, theirs = (
        sum(getattr(_table(accounts[c], name), field) for c in cells) & UINT64
        for accounts in (expected, real)
    )
    return bool(ours == theirs)
