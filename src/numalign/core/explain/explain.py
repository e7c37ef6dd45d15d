"""Why a pod is admitted or refused: one sentence, then the facts behind it.

``explained`` asks the host and puts its answer into words. Nothing here decides: the words follow
from the verdict, its trace and the state at the moment of the refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, assert_never

from numalign.core.explain import allocation
from numalign.core.explain import merge as explain_merge
from numalign.core.explain.causes import Case, How, find_cause
from numalign.core.explain.demands import Demand, demands, shortage_text, unoffered_text
from numalign.core.explain.hints import HintTable, by_resource, conflicts, table
from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission.admission import CPU_MANAGER, DEVICE_MANAGER, MEMORY_MANAGER
from numalign.core.kubelet.admission.draft import Draft, no_preference
from numalign.core.kubelet.admission.verdict import (
    HostSnapshot,
    OutOf,
    decide,
    refusal,
    verdict_on,
)
from numalign.core.kubelet.decisions import (
    Admitted,
    Breakage,
    Broken,
    MergeStep,
    Reason,
    Rejected,
    Trace,
)
from numalign.core.kubelet.devices.devices import DeviceState, Preferred
from numalign.core.kubelet.host import Host, HostState
from numalign.core.kubelet.topology.hints import Affinity
from numalign.core.machine.labels import nodes as node_words
from numalign.core.pod import Container, Pod, has_pod_level_managers, qos_class
from numalign.core.values.sets import NodeSet
from numalign.core.values.sizes import counted

NODE_FIT: Final = "node_fit"  # who refuses by totals; the kubelet has no name for it


class Step(StrEnum):
    """Where an admission ended."""

    ADMITTED = "admitted"
    HINTS = "hints"  # a manager named no NUMA node at all
    MERGE = "merge"  # the hints have no set of nodes in common that the policy takes
    POLICY = "policy"  # one resource alone is not what the policy takes
    ALLOCATION = "allocation"  # a manager could not give what was agreed on
    SMT_ALIGNMENT = "smt-alignment"
    POD_POOL = "pod-pool"  # containers of a pod with its own resources would have no CPU or memory
    NODE_FIT = "node-fit"  # the totals of the host
    BROKEN = "broken"  # the kubelet itself would give no answer


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the host says what it says."""

    pod: str
    sentence: str
    step: Step
    reason: str = ""  # the kubelet's; empty for an admitted pod
    message: str = ""
    container: str | None = None  # None: the pod as a whole
    provider: str | None = None
    resources: tuple[str, ...] = ()  # those without which the decision would be another
    how: How = How.UNPROVEN
    unoffered: tuple[str, ...] = ()  # those of which this host has never had any
    conflict: tuple[str, ...] = ()  # all that do not agree with each other, the cause among them
    demands: tuple[Demand, ...] = ()
    facts: tuple[str, ...] = ()
    table: HintTable | None = None
    fits_when_empty: bool | None = None  # None: not asked, the pod is admitted


def asked(snapshot: HostSnapshot, pod: Pod, *, preferred: Preferred = no_preference) -> Case:
    trace = Trace()
    after, verdict = decide(snapshot, pod, preferred=preferred, trace=trace)
    return Case(snapshot.host, snapshot.state, after.state, snapshot.totals, pod, verdict, trace)


def explained(
    snapshot: HostSnapshot, pod: Pod, *, preferred: Preferred = no_preference
) -> Explanation:
    """Why the host would admit or refuse the pod."""
    return explain(asked(snapshot, pod, preferred=preferred), preferred=preferred)


def explain(
    case: Case, *, with_empty: bool = True, preferred: Preferred = no_preference
) -> Explanation:
    """The explanation of a decision; ``with_empty`` also asks the host without other pods."""
    words = refusal(case.verdict)
    found = _explanation(case, preferred)
    if words is None:
        return found
    reason, message = words
    if not with_empty:
        return replace(found, reason=reason, message=message)
    alone = on_empty_host(case)
    fits = isinstance(alone.verdict, Admitted)
    facts = (*found.facts, *_empty_facts(case, found, alone))
    return replace(found, reason=reason, message=message, facts=facts, fits_when_empty=fits)


def _explanation(case: Case, preferred: Preferred) -> Explanation:
    verdict = case.verdict
    match verdict:
        case Admitted():
            return _admitted(case, verdict)
        case OutOf():
            return _out_of(case, verdict)
        case Broken():
            return _broken(case, verdict)
        case Rejected():
            return _rejected(case, verdict, preferred)
        case _:
            assert_never(verdict)


# The host without pods.


def empty_state(host: Host, devices: DeviceState) -> HostState:
    """The state of the host without any pod; devices are as their plugins report them."""
    fresh = hosts.start(host)
    return replace(fresh, devices=DeviceState(devices.resources, busy={}))


def on_empty_host(case: Case) -> Case:
    """The same question to the host without any other pod."""
    empty = empty_state(case.host, case.before.devices)
    trace = Trace()
    after, verdict = verdict_on(case.host, empty, case.totals, case.pod, trace=trace)
    return replace(case, before=empty, after=after, verdict=verdict, trace=trace)


def _empty_facts(case: Case, found: Explanation, alone: Case) -> list[str]:
    if isinstance(alone.verdict, Admitted):
        return ["Without any other pod the host would admit it."]
    if found.conflict and _same_conflict(found, alone):
        names = " and ".join(found.conflict)
        return [f"{names} can never agree on this host: even without any other pod they do not."]
    return [f"Even without any other pod the host would not admit it{_as_configured(case)}."]


def _same_conflict(found: Explanation, alone: Case) -> bool:
    """Whether the very same resources of the same container do not agree on the empty host."""
    verdict, step = alone.verdict, _last_merge(alone.trace)
    if not isinstance(verdict, Rejected) or verdict.reason is not Reason.TOPOLOGY_AFFINITY:
        return False
    if step is None or alone.host.topology is None or step.container != found.container:
        return False
    return found.conflict in conflicts(alone.host.topology, step)


def _as_configured(case: Case) -> str:
    topology = case.host.topology
    return "" if topology is None else f" under {topology.name} with scope {topology.scope}"


# Each kind of verdict.


def pod_name(pod: Pod) -> str:
    name = pod.name or pod.uid
    return f"{pod.namespace}/{name}" if pod.namespace else name


def _admitted(case: Case, verdict: Admitted) -> Explanation:
    name = pod_name(case.pod)
    nodes = 0
    exclusive = 0
    places = case.host.cpu_topology
    for placement in verdict.placements:
        exclusive |= placement.cpus or 0  # those that an init container leaves count once
        nodes |= places.nodes_of(placement.cpus or 0)
        for block in placement.memory:
            nodes |= NodeSet.of(block.nodes).mask
    where = f" on {node_words(NodeSet(nodes))}" if nodes else ""
    own = counted(exclusive.bit_count(), "CPU")
    what = f"with {own} of its own" if exclusive else "in the shared pool of CPUs"
    last = _last_merge(case.trace)
    return Explanation(
        name,
        f"Pod {name} is admitted {what}{where}.",
        Step.ADMITTED,
        table=None if last is None else table(last, case.host.all_nodes),
        facts=tuple(_admitted_facts(case)),
    )


def _admitted_facts(case: Case) -> list[str]:
    qos = qos_class(case.pod, case.host.settings).value
    facts = [f"The pod is {qos}."]
    if case.host.topology is None:
        facts.append("The topology policy is none: NUMA nodes are not looked at.")
    return facts


def _last_merge(trace: Trace) -> MergeStep | None:
    return next((step for step in reversed(trace.steps) if isinstance(step, MergeStep)), None)


def _out_of(case: Case, verdict: OutOf) -> Explanation:
    name = pod_name(case.pod)
    unoffered = _unoffered(case)
    texts = [
        unoffered_text(short) if short.resource in unoffered else shortage_text(short)
        for short in verdict.shortages
    ]
    resources = tuple(short.resource for short in verdict.shortages)
    return Explanation(
        name,
        f"Pod {name} is refused by the totals of the host: {'; '.join(texts)}.",
        Step.NODE_FIT,
        provider=NODE_FIT,
        resources=resources,
        how=How.ALONE if len(resources) == 1 else How.TOGETHER,
        unoffered=unoffered,
        facts=()
        if set(resources) <= set(unoffered)
        else ("The managers had agreed: only the sum of all requests is too high.",),
    )


def _unoffered(case: Case) -> tuple[str, ...]:
    """What the pod asks for that no device plugin has registered on this host."""
    asked_for = dict.fromkeys(name for c in case.pod.in_order for name in (*c.requests, *c.limits))
    known = {*case.before.devices.resources, *case.totals}
    return tuple(name for name in asked_for if "/" in name and name not in known)


def _rejected(case: Case, verdict: Rejected, preferred: Preferred) -> Explanation:
    draft = Draft(case.host, case.after, case.pod)
    container = _named(case.pod, verdict.container)
    name = pod_name(case.pod)
    wanted = demands(draft, container)
    last = _last_merge(case.trace)
    if verdict.reason is Reason.TOPOLOGY_AFFINITY:
        assert last is not None, "a topology refusal comes from a merge"
        assert case.host.topology is not None, "only a topology policy refuses so"
        hinted = [n for n, hints in by_resource(last).items() if hints is not Affinity.ANYWHERE]
        cause = find_cause(case, hinted, preferred)
        merged = explain_merge.words(draft, case.host.topology, last, wanted, cause)
        text, resources, facts = merged.text, merged.resources, merged.facts
        conflict: tuple[str, ...] = merged.conflict
        stage = _merge_stage(merged)
    else:
        conflict = ()
        cause = find_cause(case, _given_by(verdict, wanted), preferred)
        given = allocation.words(draft, verdict, container, last, wanted, cause)
        text, resources, facts = given.text, given.resources, given.facts
        stage = _ALLOCATION_STEPS.get(verdict.reason, Step.ALLOCATION)
    return Explanation(
        name,
        f"Pod {name} is refused: {text}.",
        stage,
        container=verdict.container,
        provider=verdict.provider or _provider(wanted, resources),
        resources=resources,
        how=How.UNPROVEN if cause is None else cause.how,
        conflict=conflict,
        unoffered=_unoffered(case),
        demands=tuple(wanted[r] for r in resources if r in wanted),
        facts=facts,
        table=None if last is None else table(last, case.host.all_nodes),
    )


def _given_by(verdict: Rejected, wanted: dict[str, Demand]) -> tuple[str, ...]:
    """What is asked of the manager that could not give."""
    own = [name for name, demand in wanted.items() if demand.provider == verdict.provider]
    return tuple(dict.fromkeys((*verdict.resources, *own)))


_ALLOCATION_STEPS: Final = {
    Reason.SMT_ALIGNMENT: Step.SMT_ALIGNMENT,
    Reason.EMPTY_POD_SHARED_POOL: Step.POD_POOL,
}


def _merge_stage(merged: explain_merge.MergeWords) -> Step:
    if merged.is_nowhere:
        return Step.HINTS
    return Step.MERGE if merged.conflict else Step.POLICY


def _provider(wanted: dict[str, Demand], resources: tuple[str, ...]) -> str | None:
    """Who named the resource at fault, if it is one manager alone."""
    found = {wanted[name].provider for name in resources if name in wanted}
    return found.pop() if len(found) == 1 else None


def _named(pod: Pod, name: str | None) -> Container | None:
    return next((c for c in pod.in_order if c.name == name), None)


_BREAKING: Final = {
    Breakage.CPU_GIVEN_TWICE: CPU_MANAGER,
    Breakage.ENDLESS_LOOP: CPU_MANAGER,
    Breakage.CRASH: MEMORY_MANAGER,
}


def _broken(case: Case, verdict: Broken) -> Explanation:
    name = pod_name(case.pod)
    container = _reached(case)
    who = "the pod" if container is None else f"container {container}"
    provider = _BREAKING[verdict.kind]
    draft = Draft(case.host, case.before, case.pod)
    wanted = demands(draft, _named(case.pod, container))
    resources = tuple(n for n, d in wanted.items() if d.provider == provider)
    if verdict.kind is Breakage.CRASH:  # the missing account is the only cause
        machine = draft.memory.machine.values()
        lacking = [r for r in resources if any(r not in node.tables for node in machine)]
        resources = tuple(lacking) or resources
    return Explanation(
        name,
        f"Pod {name} gets no answer: at {who} the kubelet {verdict.kind} ({verdict.statement}).",
        Step.BROKEN,
        container=container,
        provider=provider,
        resources=resources,
        demands=tuple(wanted[r] for r in resources),
        facts=("This is a defect of the kubelet, not of the pod; numalign stops here.",),
    )


def _reached(case: Case) -> str | None:
    """The container at which the real code broke: the first whose steps are not all traced."""
    pod = case.pod
    topology = case.host.topology
    is_pod_scope = topology is not None and topology.scope == "pod"
    if is_pod_scope and has_pod_level_managers(pod, case.host.settings):
        return None
    providers = (DEVICE_MANAGER, CPU_MANAGER, MEMORY_MANAGER)
    expected: list[str | None] = [None] if is_pod_scope else []
    for container in pod.in_order:
        count = len(providers) + (0 if is_pod_scope or topology is None else 1)
        expected += [container.name] * count
    reached = len(case.trace.steps)
    return expected[reached] if reached < len(expected) else None
