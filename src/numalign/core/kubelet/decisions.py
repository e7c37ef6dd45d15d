"""What comes out of a decision: admitted, rejected, or "here the kubelet itself would break".

A decision also leaves a Trace: the answers of the providers, what was merged and what was given.
It only holds references to values that exist anyway; rendering them is done when somebody looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numalign.core.kubelet.state import Block
from numalign.core.kubelet.topology.hints import Hint, ProviderHints


class Reason(StrEnum):
    """Why a pod is refused. The values are the kubelet's, seen by users in pod.status.reason."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    SMT_ALIGNMENT = "SMTAlignmentError"
    EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"
    UNEXPECTED = "UnexpectedAdmissionError"


class Breakage(StrEnum):
    """How the real kubelet would break."""

    CPU_GIVEN_TWICE = "gives a CPU that is not free"
    ENDLESS_LOOP = "never answers"
    CRASH = "crashes"


@dataclass(frozen=True, slots=True)
class Placement:
    """What one container holds after admission."""

    container: str
    hint: Hint
    cpus: int | None = None  # exclusive CPUs as a mask; None: the shared pool
    memory: tuple[Block, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The pod may run, placed like this."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod is refused, with the kubelet's reason and message."""

    reason: Reason
    message: str
    container: str | None = None  # where it failed; None: for the pod as a whole
    provider: str | None = None  # who failed to allocate; None: the topology policy refused
    # For explanations only: what was asked of the provider, and its own words, not framed.
    resources: tuple[str, ...] = field(default=(), compare=False)
    fault: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Broken:
    """No decision: at this point the real kubelet hangs, crashes or gives a CPU twice."""

    kind: Breakage
    statement: str


Decision = Admitted | Rejected | Broken


class AllocationError(Exception):
    """A provider cannot give what was asked; becomes a Rejected at the end of the admission."""

    def __init__(
        self, text: str, resources: tuple[str, ...], reason: Reason = Reason.UNEXPECTED
    ) -> None:
        super().__init__(text)
        self.text = text
        self.resources = resources  # that it cannot give
        self.reason = reason


class KubeletBreaksError(Exception):
    """The real code breaks here; becomes a Broken at the end of the admission."""

    def __init__(self, kind: Breakage, statement: str) -> None:
        super().__init__(statement)
        self.kind = kind
        self.statement = statement


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One merge: what each provider answered and what came out."""

    container: str | None  # None: for the whole pod
    answers: Mapping[str, ProviderHints]
    merged: Hint
    admitted: bool


@dataclass(frozen=True, slots=True)
class AllocateStep:
    """One allocation by one provider; ``error`` is its refusal."""

    container: str | None
    provider: str
    error: str | None = None


@dataclass(slots=True)
class Trace:
    """The facts behind one decision, in the order in which they came up."""

    steps: list[MergeStep | AllocateStep] = field(default_factory=list)
