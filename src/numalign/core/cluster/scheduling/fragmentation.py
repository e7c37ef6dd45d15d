"""How much a pod breaks up the free NUMA nodes of a host.

The worth of a node with f free CPUs is f squared: two nodes with 8 free CPUs each take fewer shapes
than one with 16. What a pod costs is the worth that is lost, so the cheapest place is the fullest
node that still holds it, and whole nodes stay whole for the large pods to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from numalign.core.cluster.nrt_match.match import filtered
from numalign.core.cluster.nrt_match.need import NANOS, PodNeed
from numalign.core.cluster.nrt_match.record import HostRecord
from numalign.core.cluster.publish.zones import POD
from numalign.core.cluster.scheduling.rebuild import Frame
from numalign.core.kubelet.host import HostState

SCORE_MAX: Final = 100


class Packing(StrEnum):
    """Where pods are put as far as free NUMA nodes go."""

    KEEP_WHOLE = "keep-whole"  # break up as little as possible
    SPREAD = "spread"  # the opposite: the emptiest nodes
    FRAGMENTATION = "fragmentation"  # where least becomes useless to a reference mix


def score(packing: Packing, before: Sequence[int], after: Sequence[int]) -> int:
    """The score of a host whose nodes have these free CPUs before and after the pod.

    The cost is set against what the pod would cost on nodes that it fills and nothing else: it
    is 1 for a perfect fit and grows with the room that is left beside it.
    """
    lost = sum(f * f for f in before) - sum(f * f for f in after)
    taken = sum(before) - sum(after)
    if taken <= 0:
        return SCORE_MAX // 2  # it takes no CPUs, so it breaks nothing up
    touched = [b - a for b, a in zip(before, after, strict=True) if b > a]
    least = sum(part * part for part in touched)
    keeps = min(SCORE_MAX, SCORE_MAX * least // max(1, lost))
    return SCORE_MAX - keeps if packing is Packing.SPREAD else keeps


def free_cpus(frame: Frame, state: HostState) -> list[int]:
    """The CPUs that could still be given, by NUMA node."""
    policy = frame.host.cpu
    free = state.cpu.shared & ~policy.reserved if policy is not None else 0
    return [(free & own).bit_count() for own in frame.host.cpu_topology.nodes.values()]


def common_score(packing: Packing, record: HostRecord, need: PodNeed) -> int:
    """The score of a host of which only the free amounts are known."""
    answer = filtered(record, need)
    before = {z.node: z.available.get("cpu", 0) // NANOS for z in record.zones or ()}
    after = dict(before)
    is_pod = record.config.scope == POD
    asks = [need.total] if is_pod else [a.amounts if a.is_app else {} for a in need.asks]
    for amounts, node in zip(asks, answer.nodes, strict=False):
        if node in after and need.is_guaranteed:
            after[node] -= amounts.get("cpu", 0) // NANOS
    return score(packing, list(before.values()), list(after.values()))
