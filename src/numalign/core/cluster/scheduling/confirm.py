"""Which pods a published topology without a placement takes into account, by its fingerprint.

The fingerprint is compared with the pods that were confirmed before and those that came since, in
their order: all of them, or all but the last, and so on. A host that publishes no fingerprint is
believed the second time: what it publishes first may have been counted before the pod came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from numalign.core.cluster.nrt_match.need import NANOS, Amounts, is_native, need_of
from numalign.core.cluster.publish.fingerprint import of_hashes, pod_hash
from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.pod import Pod

SURE: Final = 2  # publications after which a pod is confirmed


def by_fingerprint(
    topology: HostTopology, pods: Mapping[str, Pod], confirmed: Mapping[str, int]
) -> dict[str, int]:
    """How sure it is of each pod that the topology counts it."""
    if topology.fingerprint is None:
        return {uid: min(SURE, confirmed.get(uid, 0) + 1) for uid in pods}
    return at_once(topology, pods, confirmed)


def at_once(
    topology: HostTopology, pods: Mapping[str, Pod], confirmed: Mapping[str, int]
) -> dict[str, int]:
    """The same where the topology is not new: without a fingerprint nothing is learnt from it."""
    known = {uid: confirmed.get(uid, 0) for uid in pods}
    if topology.fingerprint is None:
        return known
    relevant = pods
    if topology.is_fingerprint_exclusive:
        listed = {r.name for zone in topology.zones for r in zone.resources}
        relevant = {uid: pod for uid, pod in pods.items() if _is_exclusive(pod, listed)}
    shares = {uid: pod_hash(pod.namespace, pod.name) for uid, pod in relevant.items()}
    before = [share for uid, share in shares.items() if known[uid] >= SURE]
    since = [uid for uid in relevant if known[uid] < SURE]
    for count in range(len(since), -1, -1):
        if of_hashes([*before, *(shares[uid] for uid in since[:count])]) == topology.fingerprint:
            return known | dict.fromkeys(since[:count], SURE)
    return known


def _is_exclusive(pod: Pod, listed: set[str]) -> bool:
    """Whether a sidecar or app container holds something for itself."""
    need = need_of(pod)
    running = [
        ask.amounts
        for ask, container in zip(need.asks, pod.in_order, strict=True)
        if not container.is_regular_init
    ]
    return any(
        _is_held(name, amounts, listed, is_guaranteed=need.is_guaranteed)
        for amounts in running
        for name in amounts
    )


def _is_held(name: str, amounts: Amounts, listed: set[str], *, is_guaranteed: bool) -> bool:
    amount = amounts[name]
    if not is_native(name):
        return name in listed
    if not is_guaranteed or amount <= 0:
        return False
    if name == "cpu":
        return amount % NANOS == 0
    return name == "memory" or name.startswith("hugepages-")
