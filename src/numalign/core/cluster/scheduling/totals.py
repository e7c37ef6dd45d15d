"""What the pods of a host use in sum, and whether one more fits: amounts, pod count, host ports.

This is the check of a scheduler; the kubelet's own, with its words, is ``node_fit``. Amounts are
counted as there: CPUs in thousandths, all else in whole units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from numalign.core.cluster.scheduling.constraints import HostFacts, HostPort, port_conflict
from numalign.core.kubelet.admission.node_fit import PODS
from numalign.core.pod import Pod
from numalign.core.settings import Settings
from numalign.core.values.quantity import Quantity

# Requests are the same for all kubelets of today; the gates that change them are on by default.
_SETTINGS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Lack:
    """Too little of one resource: ``free`` is what is left."""

    resource: str
    wanted: int
    free: int


def amount_text(resource: str, amount: int) -> str:
    if resource == "cpu":
        return str(Quantity.of_milli(amount))
    is_bytes = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
    return str(Quantity.of(amount, binary=is_bytes))


def requests_of(pod: Pod) -> dict[str, int]:
    """What a pod counts for in the sums of its host, overhead included."""
    return {name: amount for name, amount in pod.requests_counted(_SETTINGS).items() if amount}


@dataclass(slots=True)
class HostUse:
    """The pods of one host and what they use. Owned and changed by one loop."""

    pods: dict[str, Mapping[str, int]] = field(default_factory=dict)
    ports: dict[str, tuple[HostPort, ...]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)

    def add(self, uid: str, requests: Mapping[str, int], ports: tuple[HostPort, ...] = ()) -> None:
        """One more pod, or one whose requests have changed."""
        self.remove(uid)
        self.pods[uid] = requests
        if ports:
            self.ports[uid] = ports
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        """A pod that is gone, if it was here."""
        for name, amount in self.pods.pop(uid, {}).items():
            left = self.used[name] - amount
            assert left >= 0, "a host cannot use less than nothing"
            if left:
                self.used[name] = left
            else:
                del self.used[name]
        self.ports.pop(uid, None)

    def without(self, uids: Iterable[str]) -> HostUse:
        """The same host if these pods were gone."""
        found = HostUse(dict(self.pods), dict(self.ports), dict(self.used))
        for uid in uids:
            found.remove(uid)
        return found

    def lack(self, requests: Mapping[str, int], host: HostFacts) -> Lack | None:
        """The first thing that is missing for these requests beside the pods that are here."""
        room = host.allocatable.get(PODS, 0)
        if len(self.pods) + 1 > room:
            return Lack(PODS, 1, max(0, room - len(self.pods)))
        for name, wanted in requests.items():
            free = host.allocatable.get(name, 0) - self.used.get(name, 0)
            if wanted > free:
                return Lack(name, wanted, max(0, free))
        return None

    def port_taken(self, wanted: tuple[HostPort, ...]) -> HostPort | None:
        """The first wanted host port that a pod here has."""
        if not wanted or not self.ports:
            return None
        return port_conflict(wanted, (p for ports in self.ports.values() for p in ports))
