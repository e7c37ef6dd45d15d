"""One host at one moment, and its verdict about the next pod: the managers, then the totals.

This is what explain, what-if, the agent and the scheduler all ask; a snapshot is immutable, so a
what-if is a verdict whose next snapshot is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from numalign.core.kubelet import host as hosts
from numalign.core.kubelet.admission import node_fit
from numalign.core.kubelet.admission.admission import admit
from numalign.core.kubelet.admission.draft import no_preference
from numalign.core.kubelet.admission.node_fit import Shortage, Totals
from numalign.core.kubelet.decisions import Admitted, Broken, Reason, Rejected, Trace
from numalign.core.kubelet.devices.devices import Preferred
from numalign.core.kubelet.host import Host, HostState
from numalign.core.machine.machine import Machine
from numalign.core.pod import Pod

WOULD_BREAK: Final = "WouldBreak"  # ours: the real kubelet would have given no answer
_NO_VICTIMS: Final = (
    "Unexpected error while attempting to recover from admission failure: preemption: error "
    "finding a set of pods to preempt: no set of running pods found to reclaim resources: "
)


@dataclass(frozen=True, slots=True)
class OutOf:
    """Refused by the totals of the host, after the managers had agreed."""

    shortages: tuple[Shortage, ...]
    is_critical: bool = False  # static and system-critical pods: the kubelet looks for victims

    @property
    def reason(self) -> str:
        return Reason.UNEXPECTED.value if self.is_critical else self.shortages[0].reason

    @property
    def message(self) -> str:
        """The kubelet's message, where it found nobody to evict."""
        if not self.is_critical:
            return self.shortages[0].message
        listed = "".join(f"(res: {s.resource}, q: {s.missing}), " for s in self.shortages)
        return f"{_NO_VICTIMS}[{listed}]"


Verdict = Admitted | Rejected | Broken | OutOf


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """One host at one moment."""

    machine: Machine
    host: Host
    state: HostState  # its ``pods`` are the active ones
    totals: Totals  # what the host offers to pods, without devices
    names: Mapping[str, str] = field(default_factory=dict)  # pod uid -> namespace/name, if known
    owners: Mapping[str, str] = field(default_factory=dict)  # pod uid -> what keeps it running


def decide(
    snapshot: HostSnapshot,
    pod: Pod,
    *,
    preferred: Preferred = no_preference,
    trace: Trace | None = None,
    is_critical: bool = False,
) -> tuple[HostSnapshot, Verdict]:
    """What the host says to one more pod, and the host after it."""
    after, verdict = verdict_on(
        snapshot.host,
        snapshot.state,
        snapshot.totals,
        pod,
        preferred=preferred,
        trace=trace,
        is_critical=is_critical,
    )
    names = {**snapshot.names, pod.uid: f"{pod.namespace}/{pod.name}"}
    return replace(snapshot, state=after, names=names), verdict


def verdict_on(
    host: Host,
    state: HostState,
    totals: Totals,
    pod: Pod,
    *,
    preferred: Preferred = no_preference,
    trace: Trace | None = None,
    is_critical: bool = False,
    others: Iterable[Pod] | None = None,
) -> tuple[HostState, Verdict]:
    """The decision of the managers and then of the node-fit check, and the state after both.

    A refused pod is not active in the next state; what it was given on the way is freed by the
    next admission. ``others`` count for the totals; by default all active pods but this one.
    """
    after, decision = admit(host, state, pod, preferred=preferred, trace=trace)
    if not isinstance(decision, Admitted):
        return after, decision
    if others is None:
        others = [other for other in state.pods.values() if other.uid != pod.uid]
    lack = node_fit.shortages(
        pod, others, host.settings, node_fit.with_devices(totals, after.devices, pod)
    )
    if lack:
        return hosts.ended(after, pod.uid), OutOf(tuple(lack), is_critical)
    return after, decision


def refusal(verdict: Verdict) -> tuple[str, str] | None:
    """The reason and message that the pod's status would show; None for an admitted pod."""
    match verdict:
        case Admitted():
            return None
        case Rejected(reason, message):
            return reason.value, message
        case OutOf():
            return verdict.reason, verdict.message
        case Broken(kind, statement):
            return WOULD_BREAK, f"{kind}: {statement}"
