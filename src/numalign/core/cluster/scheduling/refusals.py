"""Why hosts do not take a pod, and the one sentence about all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.cluster.nrt_match.match import filtered
from numalign.core.cluster.nrt_match.need import WORDS, Amounts, PodNeed, Why, is_affine, whole
from numalign.core.cluster.nrt_match.record import HostRecord
from numalign.core.cluster.publish.zones import POD
from numalign.core.cluster.scheduling.ledger import Ledger
from numalign.core.cluster.scheduling.rebuild import Frame, free_by_node
from numalign.core.cluster.scheduling.totals import amount_text
from numalign.core.kubelet.admission.verdict import OutOf, Verdict, refusal
from numalign.core.kubelet.decisions import Broken, Reason, Rejected
from numalign.core.pod import Pod, exclusive_cpus, pod_exclusive_cpus

CAUSES_MAX: Final = 8  # in one sentence
_MILLI: Final = 10**6
UNCONFIRMED: Final = "must first publish what its last pods were given"
TOGETHER: Final = "no NUMA node has everything together"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a host does not take a pod; hopeless if it would not even when empty.

    Hosts with the same cause are counted together; of their amounts the best one is told.
    """

    cause: str
    is_hopeless: bool = False
    resource: str = ""
    wanted: int = 0  # as in ``node_fit``: CPUs in thousandths
    found: int = 0

    @property
    def text(self) -> str:
        return self._with_amounts(self.found, "has")

    def _with_amounts(self, found: int, has: str) -> str:
        if not self.resource:
            return self.cause
        wanted, there = (amount_text(self.resource, amount) for amount in (self.wanted, found))
        return f"{self.cause} ({has} {there} of {wanted} free)"


def summary(host_count: int, refused: Iterable[Refusal]) -> str:
    """Why no host takes a pod: how many hosts for each cause, the most frequent one first."""
    if not host_count:
        return "there are no hosts"
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for one in refused:
        groups.setdefault((one.cause, one.resource), []).append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    parts = [f"{len(found)} {_best(found)}" for _, found in ordered[:CAUSES_MAX]]
    rest = sum(len(found) for _, found in ordered[CAUSES_MAX:])
    if rest:
        parts.append(f"{rest} for other reasons")
    noun = "host" if host_count == 1 else "hosts"
    return f"of {host_count} {noun}: {', '.join(parts) or 'none was asked'}"


def _best(alike: list[Refusal]) -> str:
    best = max(alike, key=lambda one: one.found)
    return best._with_amounts(best.found, "has" if len(alike) == 1 else "best has")


# By the common rules.


def common(record: HostRecord, need: PodNeed) -> Refusal | None:
    """Why a host does not take a pod by the common rules; None if it does."""
    answer = filtered(record, need)
    if answer.why is Why.FITS:
        return None
    if answer.why is Why.STALE:
        return Refusal(WORDS[Why.STALE])
    if record.config.scope == POD:
        amounts: Amounts = need.total
    else:
        amounts = need.asks[len(answer.nodes)].amounts
    for name in amounts:
        if amounts[name] and name not in record.offered:
            return Refusal(f"no {name} at all")
    zones = {zone.node: zone.available for zone in record.zones or ()}
    counted = {n: nanos for n, nanos in amounts.items() if nanos and need.counts(n)}
    return _lack(counted, zones) or Refusal(TOGETHER)


def _lack(amounts: Amounts, zones: Mapping[int, Amounts]) -> Refusal | None:
    """The first resource of which no NUMA node has enough."""
    for name in sorted(amounts, key=lambda n: (not is_affine(n), n)):
        listing = [zone[name] for zone in zones.values() if name in zone]
        best = max(listing, default=0)
        if best >= amounts[name] or (not listing and not is_affine(name)):
            continue
        if sum(listing) < amounts[name]:
            return _amounts(f"{too_few(name)} in all NUMA nodes", name, amounts, sum(listing))
        return _amounts(f"{too_few(name)} in one NUMA node", name, amounts, best)
    return None


def too_few(name: str) -> str:
    """The lack of a resource in plain words."""
    if name == "cpu":
        return "too few CPUs"
    return f"too few {name}" if "/" in name else f"too little {name}"


def _amounts(cause: str, name: str, wanted: Amounts, found: int) -> Refusal:
    unit = (lambda nanos: -(-nanos // _MILLI)) if name == "cpu" else whole
    return Refusal(cause, resource=name, wanted=unit(wanted[name]), found=unit(found))


# By the deciding core.


def exact(ledger: Ledger, pod: Pod, verdict: Verdict | None, *, is_hopeless: bool) -> Refusal:
    """Why a host does not take a pod by the word of its managers."""
    if verdict is None:
        return Refusal(UNCONFIRMED)
    found: Refusal | None = None
    match verdict:
        case OutOf(shortages):
            short = shortages[0]
            free = max(0, short.capacity - short.used)
            cause = f"{too_few(short.resource)} on the whole host"
            found = Refusal(cause, is_hopeless, short.resource, short.requested, free)
        case Rejected(reason, message, container):
            if reason is Reason.TOPOLOGY_AFFINITY:
                wanted = _wanted(ledger.frame, pod, container)
                state = (*ledger.states, ledger.base)[0]
                lack = _lack(wanted, free_by_node(ledger.frame, state))
                found = lack or Refusal(_unaligned(ledger.frame))
            else:
                found = Refusal(f"{reason.value}: {message}")
        case Broken():
            reason_text, message = refusal(verdict) or ("", "")
            found = Refusal(f"{reason_text}: {message}")
        case _:
            raise AssertionError("an admitted pod is not refused")
    return Refusal(found.cause, is_hopeless, found.resource, found.wanted, found.found)


def _unaligned(frame: Frame) -> str:
    if frame.host.settings.topology_policy == "restricted":
        return "cannot be held by as few NUMA nodes as an empty host would need"
    return TOGETHER


def _wanted(frame: Frame, pod: Pod, container: str | None) -> Amounts:
    """What the managers look for in NUMA nodes, for one container or the whole pod."""
    settings = frame.host.settings
    own = [c for c in pod.in_order if container is None or c.name == container]
    if container is None:
        cpus = pod_exclusive_cpus(pod, settings)
    else:
        cpus = sum(exclusive_cpus(pod, c, settings) for c in own)
    wanted: dict[str, int] = {}
    for c in own:
        for name, amount in c.limits.items():
            if name != "cpu":
                wanted[name] = wanted.get(name, 0) + amount.nanos
    if frame.host.memory is None:
        wanted = {name: nanos for name, nanos in wanted.items() if "/" in name}
    return {"cpu": cpus * 10**9, **wanted} if cpus and frame.host.cpu is not None else wanted
