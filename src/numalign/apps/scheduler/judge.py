"""Who decides about NUMA: what the scheduler's step asks of the core (``core.cluster``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.refusals import Refusal
from numalign.core.pod import Pod


class Judge(Protocol):
    """What is known of NUMA on all hosts, and the verdicts from it. Changed by one loop."""

    def host_changed(self, facts: HostFacts) -> None:
        """A host is new or other than before."""

    def host_gone(self, name: str) -> None:
        """A host is gone."""

    def topology_changed(self, topology: HostTopology) -> None:
        """A host published something."""

    def topology_gone(self, name: str) -> None:
        """A host publishes nothing any more."""

    def pod_placed(self, host: str, pod: Pod) -> None:
        """A pod is, or will be, on a host; it counts until it is published or gone."""

    def pod_gone(self, host: str, uid: str) -> None:
        """A pod is not on a host any more."""

    def changes_missed(self) -> None:
        """Pods may have come and gone without our knowledge: there was a list."""

    def refusal(self, pod: Pod, host: str) -> Refusal | None:
        """Why this host would not take the pod; None if it would."""

    def refusals(self, pod: Pod, hosts: Collection[str]) -> Mapping[str, Refusal]:
        """Which of these hosts would not take the pod."""

    def scores(self, pod: Pod, hosts: Sequence[str]) -> Mapping[str, int]:
        """How good hosts are for a pod, 0 to 100."""

    def choose(self, pod: Pod, is_allowed: Callable[[str], bool]) -> str | None:
        """The best host that would take the pod, among those allowed."""

    def fits_without(self, pod: Pod, host: str, victims: Collection[str]) -> bool:
        """Whether the host would take the pod once these pods are gone."""
