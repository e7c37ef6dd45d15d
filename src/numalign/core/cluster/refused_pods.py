"""Pods as the redeploy loop sees them: whose they are, what they ask for, why they failed.

Two pods of one shape have the same chances on a host: what one host refused to the first it would
refuse to the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numalign.core.pod import Pod

GATE: Final = "numalign.io/redeploy"
TOPOLOGY_REASON: Final = "TopologyAffinityError"
REASONS: Final = frozenset(
    {TOPOLOGY_REASON, "SMTAlignmentError", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory"}
)


@dataclass(frozen=True, slots=True)
class Owner:
    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as far as this loop looks at it."""

    namespace: str
    name: str
    uid: str
    owner: Owner | None = None
    shape: str = ""
    host: str = ""
    reason: str = ""  # why it failed; empty while it has not
    message: str = ""
    refused_at: float = 0.0
    is_gated: bool = False  # by our gate
    avoids: tuple[str, ...] = ()  # the hosts that its opened gate rules out
    is_static: bool = False
    is_leaving: bool = False
    wants_recreation: bool = False
    root: str = ""  # of a bare pod that was made again: the uid of the first one

    @property
    def owner_key(self) -> str:
        return self.owner.uid if self.owner is not None else self.root or self.uid


def shape_of(pod: Pod) -> str:
    """What pods with the same chances on a host have in common: what they ask for, in order."""

    def amounts(of: Mapping[str, object]) -> str:
        return ",".join(f"{name}={amount}" for name, amount in sorted(of.items()))

    parts = [
        f"{'sidecar' if c.is_restartable else 'init' if c.is_init else 'app'}"
        f"({amounts(c.requests)};{amounts(c.limits)})"
        for c in pod.in_order
    ]
    if pod.requests is not None or pod.limits is not None:
        parts.append(f"pod({amounts(pod.requests or {})};{amounts(pod.limits or {})})")
    return "+".join(parts)
