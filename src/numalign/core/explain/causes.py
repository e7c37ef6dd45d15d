"""Which requests are the cause of a refusal, proven by asking the host again without them.

A request counts as taken away when as little is left of it as keeps the class of the pod: a part of
a CPU, a piece of memory, no huge pages, no device. Taking memory or CPUs away altogether would make
the pod Burstable, and that changes every decision, whatever its cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from typing import Final

from numalign.core.explain.pod_edits import (
    Edit,
    edited,
    holders_of,
    least_of,
    with_own_requests,
)
from numalign.core.kubelet.admission.admission import CPU_MANAGER, DEVICE_MANAGER, MEMORY_MANAGER
from numalign.core.kubelet.admission.draft import no_preference
from numalign.core.kubelet.admission.node_fit import Totals
from numalign.core.kubelet.admission.verdict import OutOf, Verdict, verdict_on
from numalign.core.kubelet.decisions import Admitted, Broken, Rejected, Trace
from numalign.core.kubelet.devices.devices import Preferred
from numalign.core.kubelet.host import Host, HostState
from numalign.core.pod import Pod, is_memory_type

SETS_TRIED_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class Case:
    """One decision with all that is known of it."""

    host: Host
    before: HostState
    after: HostState  # as ``verdict_on`` gave it: with a refusal, the state at that moment
    totals: Totals
    pod: Pod
    verdict: Verdict
    trace: Trace


class How(Enum):
    """How the named requests make the refusal."""

    ALONE = "alone"  # without this one the decision is another
    EITHER = "either"  # without any one of them: they do not agree with each other
    TOGETHER = "together"  # only without all of them: each would be refused
    ANY_AMOUNT = "any amount"  # however little is asked for, there is no place for it
    LACKING = "lacking"  # it asks for none of it, and must ask for some
    UNPROVEN = "unproven"  # amounts do not matter


@dataclass(frozen=True, slots=True)
class Cause:
    resources: tuple[str, ...]
    how: How


def find_cause(
    case: Case, asked: Iterable[str], preferred: Preferred = no_preference
) -> Cause | None:
    """The fewest of the requests without which the host decides otherwise; None: there are none."""
    names = list(asked)
    alone = [name for name in names if _matters(case, (name,), preferred)]
    if alone:
        return Cause(tuple(alone), How.ALONE if len(alone) == 1 else How.EITHER)
    for some in _sets(names):
        if _matters(case, some, preferred):
            return Cause(some, How.TOGETHER)
    return _lack(case, preferred) or _any_amount(case, names, preferred)


def _any_amount(case: Case, names: Sequence[str], preferred: Preferred) -> Cause | None:
    """Memory for which there is no place: the nodes are bound to others, however much they have.

    Only a pod that asks for none passes, which is Burstable then.
    """
    kinds = tuple(name for name in names if is_memory_type(name))
    if not kinds and _provider(case) == MEMORY_MANAGER:
        kinds = ("memory",)  # of the pod as a whole
    edits: list[Edit] = [(holder, n, None) for n in kinds for holder in holders_of(case.pod, n)]
    if not edits or is_same_refusal(case, verdict_without(case, edits, preferred)):
        return None
    return Cause(("memory",) if "memory" in kinds else kinds, How.ANY_AMOUNT)


def _lack(case: Case, preferred: Preferred) -> Cause | None:
    """A container of a pod with resources of its own that has none, or no limit for a request.

    The memory manager is asked for it all the same, and finds no place for nothing.
    """
    failing = case.verdict.container if isinstance(case.verdict, Rejected) else None
    own = next((c for c in case.pod.in_order if c.name == failing), None)
    if own is None or _provider(case) != MEMORY_MANAGER:
        return None
    lacking = [n for n in ("memory", "cpu") if n not in own.requests or n not in own.limits]
    for count in range(1, len(lacking) + 1):
        pod = with_own_requests(case.pod, own.name, lacking[:count])
        verdict = verdict_on(case.host, case.before, case.totals, pod, preferred=preferred)[1]
        if not is_same_refusal(case, verdict):
            return Cause(tuple(lacking[:count]), How.LACKING)
    return None


def _provider(case: Case) -> str | None:
    return case.verdict.provider if isinstance(case.verdict, Rejected) else None


def _sets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    tried = 0
    for size in range(2, len(names) + 1):
        for some in combinations(names, size):
            tried += 1
            if tried > SETS_TRIED_MAX:
                yield tuple(names)
                return
            yield some


def _matters(case: Case, names: tuple[str, ...], preferred: Preferred) -> bool:
    return any(
        not is_same_refusal(case, verdict_without(case, edits, preferred))
        for edits in _ways(case, names)
    )


def _ways(case: Case, names: tuple[str, ...]) -> Iterator[list[Edit]]:
    """Taking requests away where it was refused; else from all containers and the pod itself."""
    failing = case.verdict.container if isinstance(case.verdict, Rejected) else None
    own = [(failing, n, least_of(n)) for n in names if failing in holders_of(case.pod, n)]
    if failing is not None and len(own) == len(names):
        yield own
    every = [(holder, n, least_of(n)) for n in names for holder in holders_of(case.pod, n)]
    if case.pod.has_pod_level_resources:
        yield [edit for edit in every if edit[0] is not None]
    yield every


def verdict_without(case: Case, edits: Iterable[Edit], preferred: Preferred) -> Verdict:
    """What the host would say to the pod with other requests."""
    pod = edited(case.pod, edits)
    return verdict_on(case.host, case.before, case.totals, pod, preferred=preferred)[1]


def is_same_refusal(case: Case, after: Verdict) -> bool:
    """Whether a pod is stopped where it was before, or even earlier."""
    before = case.verdict
    if isinstance(after, Admitted):
        return False
    if isinstance(after, Broken) or isinstance(before, Broken):
        return isinstance(before, Broken)
    if isinstance(before, OutOf):
        if not isinstance(after, OutOf):
            return True
        return bool({s.resource for s in before.shortages} & {s.resource for s in after.shortages})
    assert isinstance(before, Rejected), "an admitted pod has no refusal"
    if isinstance(after, OutOf):
        return False
    return _stage(case.pod, after) <= _stage(case.pod, before)


_PROVIDERS: Final = (None, DEVICE_MANAGER, CPU_MANAGER, MEMORY_MANAGER)


def _stage(pod: Pod, verdict: Rejected) -> tuple[int, int]:
    """How far an admission came: containers in order, and in each the merge and the managers."""
    order = [None, *(c.name for c in pod.in_order)]
    return order.index(verdict.container), _PROVIDERS.index(verdict.provider)
