"""A refusal by a manager in words: it was asked to give and could not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.core.explain.causes import Cause, How
from numalign.core.explain.demands import (
    Demand,
    amount_text,
    device_demand,
    free_text,
    memory_groups,
    plain_amount,
)
from numalign.core.kubelet.admission.admission import CPU_MANAGER, DEVICE_MANAGER
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.decisions import MergeStep, Reason, Rejected
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.host import NO_HINT
from numalign.core.kubelet.memory import static as memory_static
from numalign.core.kubelet.topology.hints import Hint
from numalign.core.machine.labels import nodes as node_words
from numalign.core.pod import Container, is_memory_type
from numalign.core.values.sets import NodeSet, ids_of
from numalign.core.values.sizes import counted


@dataclass(frozen=True, slots=True)
class AllocationWords:
    text: str
    resources: tuple[str, ...]
    facts: tuple[str, ...] = ()


def words(
    draft: Draft,
    verdict: Rejected,
    container: Container | None,
    merge: MergeStep | None,
    wanted: Mapping[str, Demand],
    cause: Cause | None,
) -> AllocationWords:
    """Why this manager could not give what was asked."""
    names = verdict.resources if cause is None else cause.resources
    who = "the pod as a whole" if container is None else f"container {container.name}"
    if verdict.reason is Reason.EMPTY_POD_SHARED_POOL:
        return _pool(who, verdict)
    if verdict.provider == DEVICE_MANAGER:
        assert container is not None, "devices are given container by container"
        return _devices(draft, who, container, names)
    if verdict.provider == CPU_MANAGER:
        return _cpus(draft, who, verdict, wanted)
    how = How.UNPROVEN if cause is None else cause.how
    return _memory(draft, who, verdict, container, merge, wanted, names, how)


def _pool(who: str, verdict: Rejected) -> AllocationWords:
    text = (
        f"{who} has resources of its own, and its containers with fixed requests take all of the "
        f"{' and '.join(verdict.resources)}: nothing is left for the others"
    )
    return AllocationWords(text, verdict.resources)


# Devices.


def _devices(
    draft: Draft, who: str, container: Container, names: tuple[str, ...]
) -> AllocationWords:
    texts = [_device(draft, container, name) for name in names]
    return AllocationWords(f"{who} {'; it '.join(texts)}", names)


def _device(draft: Draft, container: Container, name: str) -> str:
    demand = device_demand(draft, container, name, container.limits[name].value())
    total = len(draft.devices.resources.get(name, devices.EMPTY).ids)
    asks = f"asks for {amount_text(name, demand.asked)}"
    if name not in draft.devices.resources:
        return f"{asks}, but no device plugin has registered that resource on this host"
    if demand.held and demand.held != demand.asked:
        return f"{asks} but holds {demand.held} from before, and that cannot change"
    if demand.held:
        return f"{asks} and has them, but not all of them are healthy any more"
    sick = f" and {demand.unhealthy} of {total} are unhealthy" if demand.unhealthy else ""
    missing = demand.asked - demand.free
    return f"{asks}; {free_text(demand)}{sick}: {missing} too few on the whole host"


# CPUs.


def _cpus(
    draft: Draft, who: str, verdict: Rejected, wanted: Mapping[str, Demand]
) -> AllocationWords:
    demand, policy = wanted["cpu"], draft.host.cpu
    assert policy is not None, "only the static CPU policy refuses"
    asks = f"{who} asks for {amount_text('cpu', demand.asked)}"
    if verdict.reason is not Reason.SMT_ALIGNMENT:
        if demand.asked <= demand.free:  # the parts of a pod with resources of its own
            text = f"{asks}, and its containers ask for more than that together"
            return AllocationWords(text, ("cpu",))
        missing = demand.asked - demand.free
        return AllocationWords(
            f"{asks}; {free_text(demand)}: {missing} too few on the whole host", ("cpu",)
        )
    per_core = policy.topology.cpus_per_core
    if demand.asked % per_core:
        less = demand.asked // per_core * per_core
        near = f"{less} or {less + per_core}" if less else str(per_core)
        text = (
            f"{asks}, but with full-pcpus-only CPUs are given by whole cores of {per_core}: "
            f"{near} would be whole cores"
        )
        return AllocationWords(text, ("cpu",))
    free = (draft.cpu.shared & ~policy.reserved_cores).bit_count()
    text = (
        f"{asks}; with full-pcpus-only cores with a reserved CPU do not count, and the others "
        f"have {free} free CPUs: {demand.asked - free} too few"
    )
    facts = [f"Free by node, cores with a reserved CPU included: {free_text(demand)}."]
    if demand.held:
        facts.append(
            "The container has its CPUs already: this version of the kubelet checks again, as if "
            "it needed them a second time."
        )
    return AllocationWords(text, ("cpu",), tuple(facts))


# Memory.


def _memory(
    draft: Draft,
    who: str,
    verdict: Rejected,
    container: Container | None,
    merge: MergeStep | None,
    wanted: Mapping[str, Demand],
    named: tuple[str, ...],
    how: How,
) -> AllocationWords:
    kinds = {n: d for n, d in wanted.items() if is_memory_type(n)}
    if not kinds:
        return _uncountable(who, container, named, how)
    hint = NO_HINT if merge is None else merge.merged
    names = tuple(n for n in named if n in kinds) or tuple(kinds)
    asks = f"{who} asks for " + " and ".join(amount_text(n, kinds[n].asked) for n in names)
    of = [f"of {n} " if len(names) > 1 else "" for n in names]
    free = "; ".join(f"{kind}{free_text(kinds[n])}" for kind, n in zip(of, names, strict=True))
    facts = [_groups_text(draft)] if memory_groups(draft) else []
    return AllocationWords(
        f"{asks}; {free}; {_memory_cause(verdict, kinds, names, hint)}", names, tuple(facts)
    )


def _uncountable(
    who: str, container: Container | None, named: tuple[str, ...], how: How
) -> AllocationWords:
    """The memory manager is asked for nothing that it could count."""
    assert container is not None, "a pod's own request is passed over where it is no integer"
    if how is How.LACKING:
        lacks = " and ".join("CPUs" if name == "cpu" else name for name in named)
        text = (
            f"{who} has no request for {lacks} with an equal limit in a pod that has, and the "
            "memory manager then finds no place for it"
        )
        return AllocationWords(text, named)
    odd = tuple(
        name
        for name, amount in container.requests.items()
        if is_memory_type(name) and amount.as_int64() is None
    )
    if odd:
        text = f"{who} asks for an amount of {' and '.join(odd)} that is no whole number of bytes"
        return AllocationWords(text, odd)
    text = f"for {who} the memory manager finds no place: the nodes hold memory for others"
    return AllocationWords(text, named or ("memory",))


def _memory_cause(
    verdict: Rejected, kinds: Mapping[str, Demand], names: tuple[str, ...], hint: Hint
) -> str:
    for name in names:
        missing = kinds[name].asked - kinds[name].free
        if missing > 0:
            return f"{plain_amount(name, missing)} too few on the whole host"
    if "memory" not in kinds:
        return "the memory manager places huge pages only beside a request for memory"
    rule = (
        "a node that serves containers alone cannot join others, and nodes that hold memory "
        "together serve only as that group"
    )
    where = "" if hint.nodes is None else f" on {node_words(NodeSet(hint.nodes))}"
    if verdict.fault == memory_static.VIOLATION:
        return f"the nodes chosen{where} are in use otherwise: {rule}"
    if verdict.fault == memory_static.NOT_PREFERRED_EXTENSION:
        return f"the agreed place{where} has too little, and a wider one is not preferred"
    if verdict.fault == memory_static.NO_EXTENSION:
        return f"the agreed place{where} has too little and cannot be widened: {rule}"
    return f"no node alone has that much, and no nodes may be used together for it: {rule}"


def _groups_text(draft: Draft) -> str:
    groups = memory_groups(draft)
    listed = ", ".join(str(NodeSet(mask)) for mask in groups[:4])
    nodes = counted(sum(len(ids_of(mask)) for mask in groups), "node")
    return f"{nodes} hold memory together with others: {listed}."
