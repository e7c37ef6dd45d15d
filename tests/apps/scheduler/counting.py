"""A fleet for tests of the step alone: every host holds so many pods, the fullest first."""

from collections.abc import Callable, Collection, Mapping, Sequence

from numalign.core.cluster.publish.zones import HostTopology
from numalign.core.cluster.scheduling.constraints import HostFacts
from numalign.core.cluster.scheduling.refusals import Refusal
from numalign.core.pod import Pod


class CountingFleet:
    """Knows nothing of NUMA, but counts exactly."""

    def __init__(self, room: int = 2) -> None:
        self.room = room
        self.on: dict[str, set[str]] = {}

    def host_changed(self, facts: HostFacts) -> None:
        self.on.setdefault(facts.name, set())

    def host_gone(self, name: str) -> None:
        if name in self.on and not self.on[name]:
            del self.on[name]

    def topology_changed(self, topology: HostTopology) -> None:
        self.on.setdefault(topology.name, set())

    def topology_gone(self, name: str) -> None:
        pass

    def pod_placed(self, host: str, pod: Pod) -> None:
        self.on.setdefault(host, set()).add(pod.uid)

    def pod_gone(self, host: str, uid: str) -> None:
        self.on[host].discard(uid)

    def changes_missed(self, unbound: object = ()) -> None:
        pass

    def refusal(self, pod: Pod, host: str) -> Refusal | None:
        if len(self.on.get(host, ())) < self.room:
            return None
        return Refusal("is full")

    def refusals(self, pod: Pod, hosts: Collection[str]) -> Mapping[str, Refusal]:
        found = {host: self.refusal(pod, host) for host in hosts}
        return {host: refusal for host, refusal in found.items() if refusal is not None}

    def scores(self, pod: Pod, hosts: Sequence[str]) -> Mapping[str, int]:
        return {host: 100 * len(self.on.get(host, ())) // self.room for host in hosts}

    def choose(self, pod: Pod, is_allowed: Callable[[str], bool]) -> str | None:
        free = [h for h in self.on if self.refusal(pod, h) is None and is_allowed(h)]
        return max(free, key=lambda h: (len(self.on[h]), h), default=None)

    def fits_without(self, pod: Pod, host: str, victims: Collection[str]) -> bool:
        return len(self.on.get(host, set()) - set(victims)) < self.room

    def takes(self, pod: Pod, host: str, gone: Collection[str] = (), held=()) -> bool:
        waiting = [(other, set(leaving)) for other, leaving in held]
        left = self.on.get(host, set()) - set(gone)
        if len(left) >= self.room:
            return False
        left = left.union([pod.uid])
        for other, leaving in waiting:
            left = left - leaving
            if len(left) >= self.room:
                return False
            left = left | {other.uid}
        return True

    def nodes_of(self, host: str, uid: str) -> int:
        return 0

    def mark(self, host: str) -> object:
        return set(self.on.get(host, ()))

    def restore(self, host: str, mark: object) -> None:
        self.on[host] = mark
