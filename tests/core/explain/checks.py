"""``python -m tests.core.explain_checks``: every recorded refusal explained, every change re-run.

The checks do not trust what is explained: a named conflict is merged again without the rest, and
every change is carried out anew, from the settings and the state, and the core asked again.
"""

# ruff: noqa: T201 - a command of its own
import multiprocessing
import os
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations

from tests.core.explain.recorded_refusals import prefer_lowest, refusals

from numalign.core.explain.causes import How
from numalign.core.explain.explain import Step, asked, explain
from numalign.core.kubelet import host
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.decisions import Admitted, MergeStep, Reason, Rejected
from numalign.core.kubelet.devices import devices
from numalign.core.kubelet.topology.hints import Affinity
from numalign.core.pod import is_memory_type
from numalign.core.values.quantity import Quantity
from numalign.core.what_if.search import Kind, Search
from numalign.core.what_if.what_if import changes

STAGES = [None, "device_manager", "cpu_manager", "memory_manager"]


def manager_of(resource):
    """Who deals with a resource."""
    if resource == "cpu":
        return "cpu_manager"
    return "memory_manager" if is_memory_type(resource) else "device_manager"


# The explanation against the decision and its trace.


def explanation_faults(snapshot, case, found, decision):
    """What is wrong with an explanation, in words; nothing if it is right."""
    if (found.reason, found.message) != (decision.reason, decision.message):
        yield f"explains {found.reason}, decided was {decision.reason}: {decision.message}"
    if found.container != decision.container:
        yield f"names container {found.container}, decided was {decision.container}"
    if not found.resources:
        yield "names no resource"
    who = "the pod as a whole" if decision.container is None else f"container {decision.container}"
    if who not in found.sentence:
        yield f"does not name {who}: {found.sentence}"
    for resource in found.resources:
        word = "CPU" if resource == "cpu" and found.step is not Step.POD_POOL else resource
        if word not in found.sentence:
            yield f"does not name {resource}: {found.sentence}"
    if decision.reason is Reason.TOPOLOGY_AFFINITY:
        yield from _merge_faults(case, found)
    else:
        yield from _allocation_faults(case, found, decision)
    yield from cause_faults(snapshot, case, found)
    empty = host.start(snapshot.host)
    for name, resource in case.before.devices.resources.items():
        empty = replace(empty, devices=devices.with_reported(empty.devices, name, resource))
    _, alone = verdict_on(snapshot.host, empty, snapshot.totals, case.pod)
    if isinstance(alone, Admitted) is not found.fits_when_empty:
        yield f"fits when empty: {found.fits_when_empty}, the empty host says {alone}"


def _merge_faults(case, found):
    step = case.trace.steps[-1]
    if not isinstance(step, MergeStep) or step.admitted:
        yield "the trace does not end in a refused merge"
        return
    answers = {n: a for answer in step.answers.values() if answer for n, a in answer.items()}
    if not set(found.resources) <= set(answers):
        yield f"names {found.resources}, the trace has {set(answers)}"
        return
    if step.container != found.container:
        yield f"names container {found.container}, the trace has {step.container}"
    is_nowhere = any(answers[name] is Affinity.NOWHERE for name in found.resources)
    if is_nowhere is not (found.step is Step.HINTS):
        yield f"the step is {found.step}"


# The cause: without it the host decides otherwise. Nothing of the product's own search is used.

LEAST = {"cpu": Quantity.parse("500m"), "memory": Quantity.parse("1Mi")}


def _without(amounts, names, least):
    return {
        name: least.get(name) if name in names else amount
        for name, amount in amounts.items()
        if name not in names or name in least
    }


def lowered(pod, names, least, container=None):
    """The pod with next to nothing of these resources, in one container or everywhere."""

    def one(found):
        if container not in {None, found.name}:
            return found
        return replace(
            found,
            requests=_without(found.requests, names, least),
            limits=_without(found.limits, names, least),
        )

    after = replace(
        pod,
        init_containers=tuple(map(one, pod.init_containers)),
        containers=tuple(map(one, pod.containers)),
    )
    yield replace(after, qos=None)
    if container is None and pod.has_pod_level_resources:
        requests, limits = (_without(x or {}, names, least) for x in (pod.requests, pod.limits))
        yield replace(after, qos=None, requests=requests, limits=limits)


def is_decided_otherwise(snapshot, case, names, least=LEAST):
    """Whether the host says something else to the pod without these requests."""
    before = case.verdict
    pods = [*lowered(case.pod, names, least, before.container), *lowered(case.pod, names, least)]
    order = [None, *(c.name for c in case.pod.in_order)]
    for pod in pods:
        _, after = verdict_on(
            snapshot.host, snapshot.state, snapshot.totals, pod, preferred=prefer_lowest
        )
        if not isinstance(after, Rejected):
            return True  # no refusal of the managers, which alone decided when it was recorded
        places = [order.index(one.container) for one in (before, after)]
        providers = [STAGES.index(one.provider) for one in (before, after)]
        if (places[1], providers[1]) > (places[0], providers[0]):
            return True
    return False


def _lack_faults(snapshot, case, found):
    own = next(c for c in case.pod.in_order if c.name == found.container)
    some = {name: own.requests.get(name, LEAST[name]) for name in found.resources}
    more = replace(own, requests={**own.requests, **some}, limits={**own.limits, **some})
    pod = replace(
        case.pod,
        qos=None,
        init_containers=tuple(more if c is own else c for c in case.pod.init_containers),
        containers=tuple(more if c is own else c for c in case.pod.containers),
    )
    _, after = verdict_on(snapshot.host, snapshot.state, snapshot.totals, pod)
    if some.keys() <= own.limits.keys() or after == case.verdict:
        yield f"{found.container} has {found.resources}, or nothing changes if it does"


def cause_faults(snapshot, case, found):
    """What is wrong with the named cause, in words; nothing if it is right."""
    names = found.resources
    if found.how is How.ANY_AMOUNT:
        least, none = ({"memory": Quantity.parse("1Mi")}, {})
        if is_decided_otherwise(snapshot, case, names, least):
            yield f"names any amount of {names}, but less of it would do"
        if not is_decided_otherwise(snapshot, case, names, none):
            yield f"names any amount of {names}, but without it nothing changes"
        return
    if found.how is How.LACKING:
        yield from _lack_faults(snapshot, case, found)
        return
    if not is_decided_otherwise(snapshot, case, names):
        yield f"names {names}, but without them the pod is refused all the same"
        return
    containers = [c for c in case.pod.in_order if found.container in {None, c.name}]
    asked_for = {name for c in containers for name in (*c.requests, *c.limits)}
    if found.container is None:
        asked_for |= {*(case.pod.requests or {}), *(case.pod.limits or {})}
    if case.verdict.provider is not None:  # others only matter for the place that was agreed on
        asked_for = {name for name in asked_for if manager_of(name) == case.verdict.provider}
    single = {n for n in asked_for if is_decided_otherwise(snapshot, case, (n,))}
    if single and not single <= set(names):
        yield f"names {names}, but {sorted(single - set(names))} alone would do"
    if single and not set(names) <= single:
        yield f"names {names}, of which only {sorted(single)} matter"
    smaller = [some for k in range(2, len(names)) for some in combinations(names, k)]
    if not single and any(is_decided_otherwise(snapshot, case, some) for some in smaller):
        yield f"names {names}, but fewer of them matter"


def _allocation_faults(case, found, decision):
    last = case.trace.steps[-1]
    if (last.container, last.provider) != (found.container, found.provider) or not last.error:
        yield f"names {found.container}, {found.provider}; the trace has {last}"
    is_lack = found.how is How.LACKING
    if not is_lack and any(manager_of(r) != decision.provider for r in found.resources):
        yield f"{found.resources} are not dealt with by {decision.provider}"
    if decision.provider == "device_manager" and found.resources[0] not in decision.message:
        yield f"names {found.resources}, decided was {decision.message}"


# A change, carried out once more.


def confirmed(snapshot, pod, change):
    """The placements after a change, all of it done anew; None if the host refuses."""
    managers, state = snapshot.host, snapshot.state
    if change.settings is not None:
        managers = host.build(change.settings, snapshot.host.info)
    if change.drained:
        state = host.start(managers)
        for name, resource in snapshot.state.devices.resources.items():
            state = replace(state, devices=devices.with_reported(state.devices, name, resource))
    elif change.settings is not None:
        fresh = host.start(managers, cpu=state.cpu, memory=state.memory)
        state = replace(state, cpu=fresh.cpu, memory=fresh.memory)
    gone = {Kind.LEAVE: change.leaving, Kind.RECREATE: (pod.uid,)}.get(change.kind, ())
    for uid in gone:
        state = host.ended(replace(state, pods={**state.pods, uid: state.pods.get(uid, pod)}), uid)
    if gone:
        state = host.cleaned(managers, state)
    for name in change.repaired:
        known = state.devices.resources[name]
        items = [devices.Device(i, known.nodes_of[i] or None, True) for i in known.ids]
        well = devices.device_resource(items, has_preferred=known.has_preferred)
        state = replace(state, devices=devices.with_reported(state.devices, name, well))
    _, verdict = verdict_on(managers, state, snapshot.totals, change.pod, preferred=prefer_lowest)
    return verdict.placements if isinstance(verdict, Admitted) else None


def change_faults(snapshot, pod, change):
    """What is wrong with a change, in words; nothing if it is right."""
    placements = confirmed(snapshot, pod, change)
    if placements is None:
        yield f"{change.text}: refused when done again"
    elif placements != change.verdict.placements:
        yield f"{change.text}: placed otherwise when done again"
    is_host = change.kind in {Kind.HOST, Kind.LEAVE, Kind.REPAIR, Kind.RECREATE}
    if is_host is not (change.pod == pod):
        yield f"{change.text}: changes the pod: {not is_host}"
    if change.kind is Kind.REQUEST:
        yield from _edit_faults(pod, change)
    if not set(change.leaving) <= set(snapshot.state.pods):
        yield f"{change.text}: not all of these run"


def _edit_faults(pod, change):
    edits = {(container, resource): to for container, resource, _, to in change.edits}
    for before, after in zip(pod.in_order, change.pod.in_order, strict=True):
        for name in {*before.requests, *before.limits}:
            old = before.requests.get(name, before.limits.get(name))
            new = after.requests.get(name, after.limits.get(name))
            said = edits.get((before.name, name), str(old))
            if str(new if new is not None else 0) != said:
                yield f"{change.text}: {before.name} {name} is {new}, said is {said}"


# All of them.


def checked(part, parts):
    """(counts, faults) of every ``parts``-th scenario."""
    counts, faults = Counter(), []
    for name, snapshot, pod, decision in refusals(part, parts):
        case = asked(snapshot, pod, preferred=prefer_lowest)
        found = explain(case, preferred=prefer_lowest)
        listed = list(changes(Search(case, found, preferred=prefer_lowest)))
        wrong = list(explanation_faults(snapshot, case, found, decision))
        for change in listed:
            wrong += change_faults(snapshot, pod, change)
        faults += [f"{name}: {text}" for text in wrong]
        counts["refusals"] += 1
        counts["with a change"] += bool(listed)
        counts["changes"] += len(listed)
        counts.update({f"with a change: {kind}" for kind in {c.kind.value for c in listed}})
        counts[f"step: {found.step.value}"] += 1
    return counts, faults


def _checked_part(part):
    return checked(*part)


def main(parts=64):
    """Checks all of them, on all CPUs; 1 if anything is wrong."""
    counts, faults = Counter(), []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        every = [(i, parts) for i in range(parts)]
        for done, (some, wrong) in enumerate(pool.imap_unordered(_checked_part, every), start=1):
            counts += some
            faults += wrong
            progress = f"{counts['refusals']} refusals, {counts['with a change']} with a change"
            print(f"part {done} of {parts}: {progress}, {len(faults)} wrong", file=sys.stderr)
    for key in sorted(counts):
        print(f"{counts[key]:>7} {key}")
    for text in faults[:20]:
        print(f"WRONG {text}")
    print(f"{len(faults)} wrong")
    return 1 if faults or not counts["refusals"] else 0


if __name__ == "__main__":
    sys.exit(main())
