"""Changes of the pod itself: its requests, its quality of service, the order of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, combinations, permutations
from typing import Final

from numalign.core.explain.causes import Case, How, is_same_refusal
from numalign.core.explain.demands import amount_text, demands
from numalign.core.explain.explain import Explanation, explain
from numalign.core.explain.pod_edits import (
    Edit,
    amount_of,
    edited,
    holders_of,
    least_of,
    unit_of,
    with_container,
    with_own_requests,
)
from numalign.core.kubelet.admission.admission import NOT_ALIGNED_POD
from numalign.core.kubelet.admission.draft import Draft
from numalign.core.kubelet.admission.verdict import verdict_on
from numalign.core.kubelet.cpu.policy import FULL_CORES
from numalign.core.kubelet.decisions import Admitted, Trace
from numalign.core.pod import (
    Container,
    Pod,
    Qos,
    exclusive_cpus,
    is_memory_type,
    pod_requests,
    qos_class,
)
from numalign.core.values.quantity import Quantity
from numalign.core.values.sizes import human
from numalign.core.what_if.search import Change, Kind, Search

MORE_DEVICES_MAX: Final = 4
MORE_CPUS_MAX: Final = 256
AMOUNTS_MAX: Final = 96  # amounts of memory that are tried for one container
TOGETHER_MAX: Final = 16  # requests that are changed together
PERMUTED_MAX: Final = 4  # containers of one kind whose orders are all tried

# Requests.


def requests(search: Search) -> Iterator[Change]:
    """The least change of each request that lets the pod in; of several where no one does."""
    pod = search.case.pod
    found = 0
    if search.explanation.how is How.LACKING:
        yield from _own_requests(search)
        return
    for resource in search.explanation.resources:
        if resource in search.explanation.unoffered:
            continue  # a pod that does without it is another pod
        for container in holders_of(pod, resource):
            for change in _requests_of(search, container, resource):
                found += 1
                yield change
    for change in _whole_cores(search):
        found += 1
        yield change
    if not found and not search.explanation.unoffered:
        yield from _together(search)


def _own_requests(search: Search) -> Iterator[Change]:
    """Requests for a container that has none, in a pod with resources of its own."""
    pod, container = search.case.pod, search.explanation.container
    assert container is not None, "a container lacks it"
    names = search.explanation.resources
    after = with_own_requests(pod, container, names)
    verdict = search.admits(after)
    if verdict is not None:
        amounts = {name: amount_of(after, container, name) for name in names}
        asked = " and ".join(f"{amount} of {name}" for name, amount in amounts.items())
        text = f"give container {container} a request and an equal limit, for example {asked}"
        records = tuple(
            (container, name, str(amount_of(pod, container, name) or 0), str(amount))
            for name, amount in amounts.items()
        )
        yield Change(Kind.REQUEST, text, after, verdict, size=1.0, edits=records)


def _together(search: Search) -> Iterator[Change]:
    """Several requests at once: what is at fault is lowered until something else is, and so on.

    Each amount is the largest that gets past its own refusal, so the whole need not be the least.
    """
    start = search.case
    case, found = start, search.explanation
    edits: dict[tuple[str | None, str], Quantity | None] = {}
    for _ in range(TOGETHER_MAX):
        step = _first_step(search, case, found)
        if not step:
            return
        edits |= {(container, resource): amount for container, resource, amount in step}
        pod = edited(start.pod, [(c, r, a) for (c, r), a in edits.items()])
        case = _asked_again(search, case, pod)
        if isinstance(case.verdict, Admitted):
            for change in _tried(search, [(c, r, a) for (c, r), a in edits.items()]):
                yield replace(change, exact=False)
            return
        found = explain(case, with_empty=False)


def _first_step(search: Search, case: Case, found: Explanation) -> list[Edit]:
    """The least edit after which the pod is not refused for the same any more."""
    order = [found.container, *(c.name for c in reversed(case.pod.in_order)), None]
    for resource in found.resources:
        if resource in found.unoffered:
            return []  # a pod that does without it is another pod
        holders = sorted(holders_of(case.pod, resource), key=order.index)
        for container in holders:
            before = amount_of(case.pod, container, resource)
            assert before is not None, "a holder has an amount"
            for amount in _less(case, found, container, resource, before):
                edits: list[Edit] = [(container, resource, amount)]
                if _gets_further(search, case, found, edits):
                    return edits
        least = least_of(resource)
        edits = [(container, resource, least) for container in holders]
        if len(edits) > 1 and _gets_further(search, case, found, edits):
            return edits
    return []


def _gets_further(search: Search, case: Case, found: Explanation, edits: list[Edit]) -> bool:
    """Whether the pod gets past this refusal, or these requests are no part of it any more."""
    after = _asked_again(search, case, edited(case.pod, edits))
    if not is_same_refusal(case, after.verdict):
        return True
    if len(found.resources) == 1:
        return False
    now = explain(after, with_empty=False)
    return not any(resource in now.resources for _, resource, _ in edits)


def _asked_again(search: Search, case: Case, pod: Pod) -> Case:
    search.count()
    trace = Trace()
    after, verdict = verdict_on(
        case.host, case.before, case.totals, pod, preferred=search.preferred, trace=trace
    )
    return replace(case, pod=pod, after=after, verdict=verdict, trace=trace)


def _less(
    case: Case, found: Explanation, container: str | None, resource: str, before: Quantity
) -> Iterator[Quantity | None]:
    """Lower amounts, the largest first, and at last none where that is possible."""
    if is_memory_type(resource):
        yield from _rounded_sums(case, found, container, resource, before.value())
    else:
        for count in range(before.value() - 1, 0, -1):
            yield Quantity.of(count)
    yield least_of(resource)


def _requests_of(search: Search, container: str | None, resource: str) -> Iterator[Change]:
    before = amount_of(search.case.pod, container, resource)
    if before is None:
        return
    ways: tuple[Iterable[Quantity | None], ...]
    if resource == "cpu":
        ways = _cpu_amounts(search, before)
    elif is_memory_type(resource):
        ways = (_bytes_less(search, container, resource, before.value()),)
    else:
        ways = _device_amounts(before.value())
    for way in ways:
        for amount in way:
            changes = list(_tried(search, [(container, resource, amount)]))
            yield from changes
            if changes:
                break


def _cpu_amounts(search: Search, before: Quantity) -> tuple[Iterable[Quantity], ...]:
    milli = before.milli()
    whole = milli // 1000
    state, policy = search.case.before, search.case.host.cpu
    # More than is free can be given to nobody.
    most = (state.cpu.shared & ~policy.reserved).bit_count() if policy is not None else 0
    if milli % 1000:  # a part of a CPU: only the totals can lack it
        step = max(1, milli // 64)
        return ((Quantity.of_milli(m) for m in range(milli - step, 0, -step)),)
    return (
        (Quantity.of(count) for count in range(whole - 1, 0, -1)),
        (Quantity.of(n) for n in range(whole + 1, min(most, whole + MORE_CPUS_MAX) + 1)),
    )


def _device_amounts(count: int) -> tuple[Iterable[Quantity | None], ...]:
    return (
        chain((Quantity.of(n) for n in range(count - 1, 0, -1)), (None,)),
        (Quantity.of(n) for n in range(count + 1, count + MORE_DEVICES_MAX + 1)),
    )


def _bytes_less(
    search: Search, container: str | None, resource: str, before: int
) -> Iterator[Quantity]:
    """Amounts below the one asked for: those at which something changes, or else by halves."""
    case = search.case
    yield from _rounded_sums(case, search.explanation, container, resource, before)
    unit = unit_of(resource)
    low, high = 0, before // unit
    while high - low > 1:  # fits at low, or low is nothing; does not fit at high
        middle = (low + high) // 2
        amount = Quantity.of(middle * unit, binary=True)
        if search.admits(edited(case.pod, [(container, resource, amount)])) is None:
            high = middle
        else:
            low = middle
    if low:
        yield Quantity.of(low * unit, binary=True)


def _rounded_sums(
    case: Case, found: Explanation, container: str | None, resource: str, before: int
) -> Iterator[Quantity]:
    """The sums of free amounts of nodes, less what the pod asks for elsewhere, largest first.

    What fits changes only where such a sum is reached.
    """
    unit = unit_of(resource)
    tried: set[int] = set()
    for size in _sums(case, found, container, resource):
        rounded = size // unit * unit
        if 0 < rounded < before and rounded not in tried and len(tried) < AMOUNTS_MAX:
            tried.add(rounded)
            yield Quantity.of(rounded, binary=True)


def _sums(case: Case, found: Explanation, container: str | None, resource: str) -> list[int]:
    shortage = getattr(case.verdict, "shortages", ())
    own = amount_of(case.pod, container, resource)
    own_bytes = 0 if own is None else own.value()
    for short in shortage:
        if short.resource == resource:
            return [own_bytes - short.missing]
    draft = Draft(case.host, case.after, case.pod)
    failing = next((c for c in case.pod.in_order if c.name == found.container), None)
    demand = demands(draft, failing).get(resource)
    if demand is None:
        return []
    # In pod scope all containers count together: leave room for the others.
    elsewhere = demand.asked - own_bytes if failing is None else 0
    frees = sorted((room.free for room in demand.rooms), reverse=True)
    if len(frees) > 8:
        sums = {*frees, *(sum(frees[:n]) for n in range(2, len(frees) + 1))}
    else:
        sizes = range(1, len(frees) + 1)
        chosen = chain.from_iterable(combinations(frees, n) for n in sizes)
        sums = {sum(some) for some in chosen}
    return sorted((total - elsewhere for total in sums), reverse=True)


def _tried(search: Search, edits: list[Edit]) -> Iterator[Change]:
    pod = search.case.pod
    after = edited(pod, edits)
    verdict = search.admits(after)
    if verdict is None:
        return
    texts, records, size = [], [], 0.0
    for container, resource, amount in edits:
        before = amount_of(pod, container, resource)
        assert before is not None, "only what is asked for is changed"
        texts.append(_request_text(container, resource, before, amount))
        now = "0" if amount is None else str(amount)
        records.append((container, resource, str(before), now))
        size += _share(before, amount)
    yield Change(
        Kind.REQUEST, ", and ".join(texts), after, verdict, size=size, edits=tuple(records)
    )


def _share(before: Quantity, amount: Quantity | None) -> float:
    """How much of the request changes; more of it counts as much as less."""
    if amount is None or before.is_zero:
        return 1.0
    return abs(before.nanos - amount.nanos) / before.nanos


def _request_text(
    container: str | None, resource: str, before: Quantity, amount: Quantity | None
) -> str:
    who = "the pod" if container is None else f"container {container}"
    if amount is None:
        return f"let {who} ask for no {resource}"
    if resource == "cpu":
        shown = (
            f"{amount} CPUs instead of {before}"
            if str(amount) != "1"
            else (f"1 CPU instead of {before}")
        )
        return f"let {who} ask for {shown}{_difference(before, amount)}"
    if is_memory_type(resource):
        now, then = human(amount.value()), human(before.value())
        less = human(before.value() - amount.value())
        return f"let {who} ask for {now} of {resource} instead of {then} ({less} less)"
    return f"let {who} ask for {amount_text(resource, amount.value())} instead of {before}"


def _difference(before: Quantity, amount: Quantity) -> str:
    milli = amount.milli() - before.milli()
    return f" ({abs(milli) / 1000:g} {'more' if milli > 0 else 'less'})"


def _whole_cores(search: Search) -> Iterator[Change]:
    """All containers at once rounded to whole cores, where several are not."""
    case = search.case
    policy, settings = case.host.cpu, case.host.settings
    if policy is None or FULL_CORES not in policy.options:
        return
    per_core = policy.topology.cpus_per_core
    odd = [
        (c.name, count)
        for c in case.pod.in_order
        if (count := exclusive_cpus(case.pod, c, settings)) % per_core
    ]
    if len(odd) < 2:
        return
    for more in (per_core, 0):
        edits: list[Edit] = [
            (name, "cpu", Quantity.of(count // per_core * per_core + more)) for name, count in odd
        ]
        if all(amount for _, _, amount in edits):
            yield from _tried(search, edits)


# Quality of service.


def classes(search: Search) -> Iterator[Change]:
    """Ways to another class, or out of the exclusive CPUs."""
    pod, settings = search.case.pod, search.case.host.settings
    if qos_class(pod, settings) is not Qos.GUARANTEED:
        yield from _made_guaranteed(search)
        return
    owners = [c for c in pod.in_order if exclusive_cpus(pod, c, settings)]
    groups = [[c] for c in owners] + ([owners] if len(owners) > 1 else [])
    found = False
    for group in groups:
        if found and len(group) > 1:
            break  # one of them alone is enough
        edits: list[Edit] = [(c.name, "cpu", _not_whole(c)) for c in group]
        after = edited(pod, edits)
        verdict = search.admits(after)
        if verdict is None:
            continue
        found = True
        names = " and ".join(c.name for c in group)
        text = (
            f"let {names} run in the shared pool of CPUs: a request that is no whole number, such "
            f"as {edits[0][2]}, gets no CPUs of its own"
        )
        records = tuple((c, r, str(amount_of(pod, c, r)), str(a)) for c, r, a in edits)
        yield Change(Kind.QOS, text, after, verdict, size=len(group), edits=records)
    yield from _made_burstable(search)


def _not_whole(container: Container) -> Quantity:
    return Quantity.of_milli(container.requests["cpu"].milli() - 500)


def _made_burstable(search: Search) -> Iterator[Change]:
    pod = search.case.pod
    limited = next((c for c in pod.in_order if "cpu" in c.limits and "cpu" in c.requests), None)
    if limited is None or pod.has_pod_level_resources:
        return
    after = with_container(
        replace(pod, qos=None),
        limited.name,
        lambda c: replace(c, limits={k: v for k, v in c.limits.items() if k != "cpu"}),
    )
    verdict = search.admits(after)
    if verdict is not None:
        text = (
            f"make the pod Burstable, for example without the CPU limit of container "
            f"{limited.name}: then neither CPUs nor memory are its own"
        )
        size = 1 + len(pod.in_order)
        yield Change(Kind.QOS, text, after, verdict, size=size)


def _made_guaranteed(search: Search) -> Iterator[Change]:
    """Limits equal to requests, CPUs in whole numbers."""
    pod, settings = search.case.pod, search.case.host.settings
    asked = pod_requests(pod, settings)
    if "cpu" not in asked or "memory" not in asked:
        return

    def fixed(container: Container) -> Container:
        amounts = {**container.requests}
        if "cpu" not in amounts or "memory" not in amounts:
            return container
        amounts["cpu"] = Quantity.of(-(-amounts["cpu"].milli() // 1000))
        return replace(container, requests=amounts, limits={**container.limits, **amounts})

    after = replace(
        pod,
        qos=None,
        init_containers=tuple(map(fixed, pod.init_containers)),
        containers=tuple(map(fixed, pod.containers)),
    )
    if after == replace(pod, qos=None):
        return
    verdict = search.admits(after)
    if verdict is not None:
        text = "make the pod Guaranteed: limits equal to requests, CPUs in whole numbers"
        yield Change(Kind.QOS, text, after, verdict, size=len(pod.in_order))


# Order.


def orders(search: Search) -> Iterator[Change]:
    """The order of containers closest to the present one that lets the pod in."""
    pod = search.case.pod
    if search.explanation.message == NOT_ALIGNED_POD:
        return
    for init in (False, True):
        present = pod.init_containers if init else pod.containers
        if not 1 < len(present) <= PERMUTED_MAX:
            continue
        others = sorted(
            permutations(present),
            key=lambda order, present=present: sum(  # type: ignore[misc]  # mypy cannot type the default
                a is not b for a, b in zip(order, present, strict=True)
            ),
        )
        for order in others[1:]:
            after = replace(pod, init_containers=order) if init else replace(pod, containers=order)
            verdict = search.admits(after)
            if verdict is not None:
                names = ", ".join(c.name for c in order)
                kind = "init containers" if init else "containers"
                yield Change(Kind.ORDER, f"put the {kind} in the order {names}", after, verdict)
                break
